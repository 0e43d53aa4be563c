"""A form of a configuration as it was sent: what was typed, and the change of the own document that it comes to."""

from collections.abc import Iterator

from django.http import QueryDict

from controlplane.configs.patterns import replayed
from controlplane.configs.pointers import Document, Operation, Tokens, decode, encode_token, unset
from controlplane.configs.selectors import StoredDocument
from controlplane.core.actor import Actor
from controlplane.core.errors import FieldError, InvalidInput
from web.config_form import Form, Input, Typed, form_of
from web.config_specs import section_specs
from web.form_values import Unreadable, same_text, value_of

#: Names of the form's fields are these letters and a pointer.
VALUE, NAME, STATE = "v", "n", "s"


def typed_page(query: QueryDict) -> Typed:
    """Return which page of the form a request asks for, with nothing typed yet."""
    section = query.get("section", "")
    page = Typed(section) if section in section_specs() else Typed()
    return Typed(page.section, query.get("entry", "").strip(), query.get("kind", "")[:63])


def typed_of(*, actor: Actor, stored: StoredDocument, own: Document, post: QueryDict) -> Typed:
    """Return what a form that was sent changes of ``own``, the document on which it was made."""
    page = typed_page(post)
    form = form_of(actor=actor, stored=stored, own=own, typed=page)
    texts = {
        one.pointer: text.replace("\r\n", "\n")
        for one in form.inputs
        for text in [post.get(f"{VALUE}{one.pointer}")]
        if text is not None and not one.locked and not same_text(text, one.base)
    }
    for block in form.blocks:
        name = post.get(f"{NAME}{block.adds}", "").strip() if block.adds else ""
        if name:
            texts[f"{block.adds}/{encode_token(name)}"] = post.get(f"{STATE}{block.adds}", "true")
    resettable = {one.pointer for one in form.inputs if one.own} | ({form.dropped} - {""})
    return Typed(page.section, page.entry, page.kind, texts, frozenset(post.getlist("reset")) & resettable)


def typed_document(*, actor: Actor, stored: StoredDocument, typed: Typed) -> Document:
    """Return the own document as it is to be: what is stored with what was typed, and nothing else.

    Raises:
        InvalidInput: a field's text is no value; each is named by its place in the document.
    """
    form = form_of(actor=actor, stored=stored, own=stored.document, typed=typed)
    known = {one.pointer: one for one in form.inputs}
    gone = [decode(pointer) for pointer in typed.resets if pointer in known or pointer == form.dropped]
    operations: list[Operation] = []
    errors: list[FieldError] = []
    for pointer, text in typed.texts.items():
        one = known.get(pointer)
        if one is None:
            errors.append(FieldError(pointer, "unknown_field", "The form has no such field any more; set it as JSON."))
        elif _is_reset(decode(pointer), gone):
            continue
        elif text.strip():
            operations.extend(_operation(one, text, errors))
        else:
            gone.append(decode(pointer))
    if errors:
        raise InvalidInput("What was typed cannot be read.", code=errors[0].code, errors=errors)
    return replayed(unset(stored.document, gone), operations)


def form_shown(
    *, actor: Actor, stored: StoredDocument, typed: Typed, errors: list[tuple[str, str]]
) -> tuple[Form, list[tuple[str, str]]]:
    """Return the page with each error at its field, and the errors that belong to none of them."""
    form = form_of(actor=actor, stored=stored, own=stored.document, typed=typed, errors=errors)
    places = [one.pointer for one in form.inputs]
    others = [error for error in errors if not any(f"{error[0]}/".startswith(f"{place}/") for place in places)]
    return form, others


def _operation(one: Input, text: str, errors: list[FieldError]) -> Iterator[Operation]:
    try:
        yield Operation(pointer=one.pointer, after=value_of(one.kind, text))
    except Unreadable as error:
        errors.append(FieldError(one.pointer, error.code, error.detail))


def _is_reset(path: Tokens, gone: list[Tokens]) -> bool:
    return any(path[: len(way)] == way for way in gone)
