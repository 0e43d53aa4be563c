"""A change of a node's own document as typed: what it comes to, and the way of an error back to its place."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from django.http import HttpRequest

from controlplane.configs.merge import patch_deep
from controlplane.configs.patterns import replayed
from controlplane.configs.pointers import Document, Operation, PointerSyntaxError, Tokens, decode, diff, same, unset
from controlplane.configs.selectors import StoredDocument, config_effective_for, config_version
from controlplane.configs.services import (
    MAX_POINTERS,
    WriteResult,
    config_patch,
    config_replace,
    config_rollback,
    config_unset,
)
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, FieldError, InvalidInput, PreconditionFailed
from controlplane.reviews.services import clean_reason
from web.change_rows import ChangeRow, plain_rows
from web.config_form import Typed
from web.config_page import pretty_json
from web.config_typed import typed_document
from web.json_text import line_named, line_of, parse_typed

MODES: Final = ("document", "value", "unset", "rollback", "form")


class TypedWrongly(InvalidInput):
    """A field of the form itself cannot be read: its pointers name fields, not places in the document."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A change as typed. ``version`` is the version of the document it was made on; ``target`` the one to go back to.

    ``text`` is the whole own document, ``pointer`` and ``value`` one place and its JSON. Of the mode ``form``, ``text``
    is what was typed (:class:`web.config_form.Typed`).
    """

    mode: str = "document"
    version: int = 0
    text: str = ""
    pointer: str = ""
    value: str = ""
    target: int = 0
    reason: str = ""

    @property
    def if_match(self) -> str:
        return f'"{self.version}"'


@dataclass(frozen=True, slots=True)
class Fault:
    """One rule that is broken at a place of the document, with its line in the typed text where there is one."""

    pointer: str
    detail: str
    line: int | None


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a draft was refused: words by form field, faults by place, or what changed meanwhile.

    ``current`` is the document's version when the draft was made on an older one.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    faults: Sequence[Fault] = ()
    general: str = ""
    text_line: int | None = None
    current: int | None = None
    meanwhile: Sequence[ChangeRow] = ()


def draft_typed(request: HttpRequest) -> Draft:
    """Return the draft of a form as it was sent."""
    post = request.POST
    mode = post.get("mode", "")
    return Draft(
        mode=mode if mode in MODES else "document",
        version=_number(post.get("version", "")),
        text=post.get("text", "").replace("\r\n", "\n"),
        pointer=post.get("pointer", "").strip(),
        value=post.get("value", "").replace("\r\n", "\n"),
        target=_number(post.get("target", "")),
        reason=post.get("reason", ""),
    )


def draft_write(*, actor: Actor, stored: StoredDocument, draft: Draft, dry_run: bool) -> WriteResult:
    """Write what a draft comes to, or foresee it: always the difference to the own document, by the smallest service.

    Args:
        actor: who writes.
        stored: the own document, just read; the write happens only while it is at the draft's version.
        draft: what was typed.
        dry_run: foresee alone.

    Raises:
        TypedWrongly: a field cannot be read; pointers name the form's fields.
        AppError: a rule forbids it; pointers name places in the document.
    """
    node, reason = stored.node, _reason(draft)
    if draft.mode == "rollback":
        return config_rollback(
            actor=actor, node=node, version=draft.target, if_match=draft.if_match, reason=reason, dry_run=dry_run
        )
    wanted = draft_document(actor=actor, stored=stored, draft=draft)
    options: dict[str, Any] = {
        "actor": actor, "node": node, "if_match": draft.if_match, "reason": reason, "dry_run": dry_run,
    }  # fmt: skip
    operations = diff(stored.document, wanted) if stored.version == draft.version else []
    gone = [operation["pointer"] for operation in operations if "after" not in operation]
    removes = gone and len(gone) == len(operations) <= MAX_POINTERS
    if removes and same(unset(stored.document, map(decode, gone)), wanted):
        return config_unset(pointers=gone, **options)
    patch = replayed({}, [operation for operation in operations if "after" in operation])
    if not operations or same(patch_deep(stored.document, patch), wanted):
        return config_patch(patch=patch, **options)
    return config_replace(document=wanted, **options)


def draft_document(*, actor: Actor, stored: StoredDocument, draft: Draft) -> Document:
    """Return the own document that a draft asks for.

    Raises:
        TypedWrongly: a field cannot be read.
    """
    if draft.mode == "document":
        document = _parsed(draft.text, "text")
        if not isinstance(document, dict):
            raise _wrong("text", "not_an_object", "The document must be a JSON object: {…}.")
        return document
    if draft.mode == "form":
        return typed_document(actor=actor, stored=stored, typed=Typed.from_text(draft.text))
    path = _path(draft.pointer)
    if draft.mode == "unset":
        return unset(stored.document, [path])
    value = _parsed(draft.value, "value", "Texts stand in double quotes.")
    effective = config_effective_for(actor=actor, node_id=stored.node.pk)
    for document in (stored.document, effective.document):
        _require_no_list_on(document, path)
    return replayed(stored.document, [Operation(pointer=draft.pointer, after=value)])


def draft_rebased(*, actor: Actor, stored: StoredDocument, draft: Draft) -> Draft:
    """Return the draft made anew on the current version: the typed differences, put on top of what is there now.

    Raises:
        TypedWrongly: the text cannot be read.
        NotFound: the version it was made on never existed.
    """
    if draft.mode != "document":
        return replace(draft, version=stored.version)
    wanted = draft_document(actor=actor, stored=stored, draft=draft)
    base = draft_base(actor=actor, stored=stored, version=draft.version)
    text = pretty_json(replayed(stored.document, diff(base, wanted)))
    return replace(draft, version=stored.version, text=text)


def problem_of(*, actor: Actor, stored: StoredDocument, draft: Draft, error: AppError) -> Problem:
    """Return an error in the form in which the page shows it, each part of it beside what it is about."""
    if isinstance(error, PreconditionFailed):
        return _stale(actor, stored, draft, error)
    if isinstance(error, TypedWrongly):
        fields = {item.pointer.removeprefix("/"): item.detail for item in error.errors}
        return Problem(fields=fields, text_line=line_named(fields.get("text", "")))
    at_value = [item for item in error.errors if draft.mode == "value" and _at(item.pointer, draft.pointer)]
    others = [item for item in error.errors if item not in at_value]
    whole = draft.mode == "document"
    faults = [Fault(item.pointer, item.detail, line_of(draft.text, item.pointer) if whole else None) for item in others]
    return Problem(
        fields={"value": " ".join(item.detail for item in at_value)} if at_value else {},
        faults=sorted(faults, key=lambda fault: fault.line or 0),
        general="" if error.errors else error.detail,
    )


def _stale(actor: Actor, stored: StoredDocument, draft: Draft, error: PreconditionFailed) -> Problem:
    changes: list[Operation] = error.extra.get("changes", [])
    yours: frozenset[str] = frozenset({draft.pointer})
    if draft.mode == "form":
        typed = Typed.from_text(draft.text)
        yours = typed.resets | typed.texts.keys()
    if draft.mode == "document":
        try:
            wanted = _parsed(draft.text, "text")
            base = draft_base(actor=actor, stored=stored, version=draft.version)
        except AppError:
            wanted = base = {}
        yours = frozenset(operation["pointer"] for operation in diff(base, wanted))
    return Problem(current=error.extra["current_version"], meanwhile=plain_rows(changes, yours=yours))


def draft_base(*, actor: Actor, stored: StoredDocument, version: int) -> Document:
    """Return the own document as it was at a version.

    Raises:
        NotFound: it never had that version.
    """
    if version == stored.version:
        return stored.document
    return {} if version == 0 else config_version(actor=actor, node=stored.node, version=version).document


def _reason(draft: Draft) -> str:
    try:
        return clean_reason(draft.reason)
    except AppError as error:
        raise _wrong("reason", error.code, error.detail) from None


def _parsed(text: str, name: str, hint: str = "") -> Any:
    if not text.strip():
        raise _wrong(name, "blank", f"This is empty; write JSON here. {hint}".strip())
    try:
        return parse_typed(text, field=name)
    except AppError as error:
        raise _wrong(name, error.code, f"{error.detail} {hint}".strip()) from None


def _path(pointer: str) -> Tokens:
    try:
        path = decode(pointer)
    except PointerSyntaxError as error:
        raise _wrong("pointer", "malformed_pointer", f"No JSON Pointer (RFC 6901): {error}.") from None
    if not path:
        raise _wrong("pointer", "blank", "Name the place, for example /limits/max_turns.")
    if "*" in path:
        raise _wrong("pointer", "wildcard", "Write a name in place of the *.")
    return path


def _require_no_list_on(document: Any, path: Tokens) -> None:
    value = document
    for token in path:
        if isinstance(value, list):
            raise _wrong("pointer", "pointer_into_list", "This points into a list; a list is set as a whole.")
        value = value.get(token) if isinstance(value, Mapping) else None


def _at(pointer: str, place: str) -> bool:
    return pointer == place or pointer.startswith(f"{place}/")


def _wrong(name: str, code: str, detail: str) -> TypedWrongly:
    return TypedWrongly(detail, code=code, errors=[FieldError(f"/{name}", code, detail)])


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0
