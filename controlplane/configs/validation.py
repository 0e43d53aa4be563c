"""What a document may hold: its form, its size, the known sections, no literal secret. Errors quote no value."""

import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice, takewhile
from typing import Any, Final

import orjson
from django.conf import settings
from pydantic import ValidationError

from controlplane.configs.agent_sections import AgentSection, McpServerSection, MemorySection
from controlplane.configs.pointers import Operation, decode, encode, encode_token
from controlplane.configs.secrets import literal_secrets
from controlplane.configs.sections import SECTIONS, DocumentSchema, LimitsSection
from controlplane.core.errors import FieldError, InvalidInput, MalformedRequest, PayloadTooLarge
from controlplane.core.redaction import redact_text

MAX_DOCUMENT_BYTES: Final = 256 * 1024
MAX_NESTING: Final = 64
MAX_KEY_LENGTH: Final = 200
#: Numbers that both databases and every JSON library in use keep exactly: 64-bit integers, and others below 10^15
#: (PostgreSQL writes larger ones out as integers, which do not compare equal).
INTEGERS: Final = range(-(2**63), 2**63)
MAX_FRACTION: Final = 10**15
LISTED_ERRORS: Final = 20


@dataclass(frozen=True, slots=True)
class ConfigWarning:
    """Something that was accepted and may not be meant."""

    pointer: str
    code: str
    detail: str

    def as_dict(self) -> dict[str, str]:
        return {"pointer": self.pointer, "code": self.code, "detail": self.detail}


def check_document(document: Any, *, what: str = "document") -> None:
    """Check the form, the size and the known sections of a document or of a patch.

    Args:
        document: a JSON value.
        what: how the messages call it.

    Raises:
        MalformedRequest: ``not_an_object``.
        InvalidInput: ``nesting_too_deep``, ``key_name``, ``number_out_of_range``, ``control_character``, ``not_json``,
            or ``invalid_section`` with pydantic's code per field in ``errors``.
        PayloadTooLarge: ``document_too_large``.
    """
    check_form(document, what=what)
    _refuse("invalid_section", f"The {what} breaks the rules of a known section.", list(_section_errors(document)))


def check_form(document: Any, *, what: str = "document") -> None:
    """Check form and size alone; see :func:`check_document`."""
    if not isinstance(document, dict):
        raise MalformedRequest(f"The {what} must be a JSON object.", code="not_an_object")
    faults = islice(_form_errors(document), LISTED_ERRORS)
    # A key on the way may itself be a secret, and these come before the check for secrets.
    errors = [FieldError(redact_text(fault.pointer), fault.code, fault.detail) for fault in faults]
    _refuse(errors[0].code if errors else "", errors[0].detail if errors else "", errors)
    size = len(orjson.dumps(document))
    if size > MAX_DOCUMENT_BYTES:
        raise PayloadTooLarge(
            f"The {what} has {size} bytes as JSON; at most {MAX_DOCUMENT_BYTES} are accepted.",
            code="document_too_large",
        )


def check_secrets(document: Mapping[str, Any], operations: Sequence[Operation]) -> None:
    """Refuse literal secrets among the keys and values that ``operations`` brought into ``document``.

    What a document already holds is not judged again, so that a newer rule never keeps anyone from removing a value.

    Raises:
        InvalidInput: ``literal_secret``, with pointer and rule of each; neither the value nor a key that is itself a
            secret is quoted.
    """
    changed = [decode(operation["pointer"]) for operation in operations if "after" in operation]
    errors = [
        FieldError(
            pointer, "literal_secret", f"This looks like a secret (rule {rule}). Store a reference such as ${{NAME}}."
        )
        for pointer, rule in literal_secrets(document, changed).items()
    ]
    _refuse("literal_secret", "A document holds references to secrets, never secrets.", errors[:LISTED_ERRORS])


def warnings_for(document: Mapping[str, Any]) -> list[ConfigWarning]:
    """Return what a valid document holds and may be a mistake: unknown sections, unknown settings and runtimes."""
    warnings = [_unknown("unknown_section", "", key, SECTIONS) for key in document if key not in SECTIONS]
    for parent, section, fields in _described(document):
        warnings += [_unknown("unknown_setting", parent, key, fields) for key in section if key not in fields]
    kind = (document.get("runtime") or {}).get("kind")
    if kind is not None and kind not in settings.AGENT_RUNTIMES:
        known = ", ".join(sorted(settings.AGENT_RUNTIMES))
        detail = f"This installation has no such runtime; it has: {known}."
        warnings.append(ConfigWarning("/runtime/kind", "unknown_runtime", detail))
    return warnings


def _described(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    """Yield the objects whose settings are all known, each with its pointer and the fields there are."""
    for key, model in (("limits", LimitsSection), ("memory", MemorySection)):
        section = document.get(key)
        if isinstance(section, Mapping):
            yield f"/{key}", section, model.model_fields
    for key, item_model in (("agents", AgentSection), ("mcp_servers", McpServerSection)):
        items = document.get(key)
        for name, item in items.items() if isinstance(items, Mapping) else ():
            if isinstance(item, Mapping):
                # The key may itself be a secret; the check for those comes later where a write is refused.
                yield redact_text(f"/{key}/{encode_token(name)}"), item, item_model.model_fields


def _unknown(code: str, parent: str, key: str, known: Mapping[str, Any] | frozenset[str]) -> ConfigWarning:
    close = get_close_matches(key, known, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return ConfigWarning(f"{parent}/{encode_token(key)}", code, f"Nothing here reads this; it is kept as it is.{hint}")


def _refuse(code: str, detail: str, errors: list[FieldError]) -> None:
    if errors:
        raise InvalidInput(detail, code=code, errors=errors)


def _form_errors(document: Mapping[str, Any]) -> Iterator[FieldError]:
    stack: list[tuple[str, Any, int]] = [("", document, 1)]
    while stack:
        pointer, value, depth = stack.pop()
        if isinstance(value, dict | list) and depth > MAX_NESTING:
            yield FieldError(pointer, "nesting_too_deep", f"The nesting is deeper than {MAX_NESTING} levels.")
        elif isinstance(value, dict):
            for key, item in value.items():
                fault = _key_fault(key)
                if fault:
                    yield FieldError(pointer, "key_name", fault)
                else:
                    stack.append((f"{pointer}/{encode_token(key)}", item, depth + 1))
        elif isinstance(value, list):
            stack.extend((f"{pointer}/{index}", item, depth + 1) for index, item in enumerate(value))
        else:
            yield from _scalar_errors(pointer, value)


def _key_fault(key: Any) -> str:
    """Return what is wrong with a key, without quoting it."""
    if not isinstance(key, str):
        return "A key of this object is no string."
    if not 1 <= len(key) <= MAX_KEY_LENGTH:
        return f"A key of this object has {len(key)} characters; keys have 1 to {MAX_KEY_LENGTH}."
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in key):
        return "A key of this object has a control character or an unpaired surrogate."
    return ""


def _scalar_errors(pointer: str, value: Any) -> Iterator[FieldError]:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, str):
        if "\x00" in value or (not value.isascii() and any(unicodedata.category(item) == "Cs" for item in value)):
            yield FieldError(pointer, "control_character", "A text has neither NUL nor unpaired surrogates.")
    elif isinstance(value, int):
        if value not in INTEGERS:
            yield FieldError(pointer, "number_out_of_range", "An integer must fit into 64 bits.")
    elif isinstance(value, float):
        if not math.isfinite(value) or abs(value) >= MAX_FRACTION:
            detail = "A number that is no plain integer must be finite and below 10^15."
            yield FieldError(pointer, "number_out_of_range", detail)
    else:
        yield FieldError(pointer, "not_json", "This is no JSON value.")


def _section_errors(document: Mapping[str, Any]) -> Iterator[FieldError]:
    try:
        DocumentSchema.model_validate(document)
    except ValidationError as error:
        for fault in error.errors(include_url=False, include_context=False, include_input=False):
            detail = "This must be an object." if fault["type"] == "model_type" else f"{fault['msg']}."
            yield FieldError(encode(_quotable(fault["loc"])), fault["type"], detail)


def _quotable(place: Sequence[int | str]) -> list[str]:
    """Return a place up to the first key that is itself a secret."""
    return list(takewhile(lambda token: redact_text(token) == token, map(str, place)))
