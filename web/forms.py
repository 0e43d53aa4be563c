"""What people send with plain HTML forms, and the way of an error back to its field."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from django import forms
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpRequest
from django.utils.crypto import get_random_string

from controlplane.core.errors import AppError, FieldError, InvalidInput, invalid
from controlplane.core.strict_json import parse_json

MAX_ALERT_BYTES: Final = 1024 * 1024
MAX_EVIDENCE_BYTES: Final = 8 * 1024 * 1024
#: How long a form remembers that it was sent.
_FIELDS: Final = frozenset({"prompt", "team", "alert", "evidence", "visibility", "attachments"})


class SignInForm(forms.Form):
    """Username and password; the view tells nobody which of them was wrong."""

    username = forms.CharField(max_length=150)
    password = forms.CharField(max_length=4096, strip=False)


@dataclass(frozen=True, slots=True)
class Composer:
    """The new-investigation form as typed, with the errors to show: by field, and ``general`` ones."""

    prompt: str = ""
    team: str = ""
    alert: str = ""
    visibility: str = "private"
    key: str = field(default_factory=lambda: get_random_string(24))
    errors: Mapping[str, str] = field(default_factory=dict)
    general: str = ""

    @property
    def extended(self) -> bool:
        """Whether the part with files, alert and evidence is to be open."""
        return bool(self.alert) or not self.errors.keys().isdisjoint({"alert", "evidence", "attachments"})


def composer_typed(request: HttpRequest) -> Composer:
    """Return the form as it was typed."""
    post = request.POST
    key = post.get("key", "")
    return Composer(
        prompt=post.get("prompt", ""),
        team=post.get("team", ""),
        alert=post.get("alert", ""),
        visibility=post.get("visibility", "private"),
        key=key if key.isascii() and key.isalnum() and len(key) <= 64 else get_random_string(24),
    )


def composer_documents(request: HttpRequest) -> tuple[Any, Any]:
    """Return alert and evidence of the form, parsed; ``None`` for what was left out.

    Raises:
        InvalidInput: one or both are no JSON objects; every field is named.
    """
    found: list[FieldError] = []
    documents: list[Any] = []
    for name, raw, limit in (
        ("alert", request.POST.get("alert", "").strip().encode(), MAX_ALERT_BYTES),
        ("evidence", _read_file(request.FILES.get("evidence")), MAX_EVIDENCE_BYTES),
    ):
        try:
            documents.append(_parse_object(name, raw, limit) if raw else None)
        except AppError as error:
            found.append(FieldError(f"/{name}", error.code, error.detail))
    if found:
        raise InvalidInput(found[0].detail, code=found[0].code, errors=found)
    return documents[0], documents[1]


def errors_by_field(error: AppError) -> tuple[dict[str, str], str]:
    """Return the error's words by form field, and those that belong to no field."""
    by_field: dict[str, str] = {}
    for item in error.errors:
        name, _, below = item.pointer.removeprefix("/").partition("/")
        if name in _FIELDS:
            place = f"{below}: " if below else ""
            by_field.setdefault(name, f"{place}{item.detail}")
    return by_field, "" if by_field else error.detail


def _read_file(file: object) -> bytes:
    # One byte more than accepted is enough to refuse it.
    return file.read(MAX_EVIDENCE_BYTES + 1) if isinstance(file, UploadedFile) else b""


def _parse_object(name: str, raw: bytes, limit: int) -> dict[str, Any]:
    if len(raw) > limit:
        raise invalid(
            f"/{name}", "payload_too_large", f"This is too large; at most {limit // 1024 // 1024} MiB are accepted."
        )
    try:
        value = parse_json(raw, max_bytes=limit)
    except AppError as error:
        raise invalid(f"/{name}", error.code, error.detail.replace("The body", "This")) from None
    if not isinstance(value, dict):
        raise invalid(f"/{name}", "not_an_object", "This must be a JSON object: {…}.")
    return value
