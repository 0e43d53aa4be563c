"""What people and machines hand in, checked, redacted and fit for both databases."""

from collections.abc import Mapping
from typing import Any

import orjson

from controlplane.core.errors import invalid
from controlplane.core.redaction import redact_json, redact_text
from controlplane.core.text import shown_token

MAX_PROMPT_CHARS = 32_000
MAX_ALERT_BYTES = 1024 * 1024
MAX_ANSWER_CHARS = 4_000


def clean_text(value: object, *, pointer: str, limit: int) -> str:
    """Return a person's text trimmed, redacted and without NUL, which no database column can hold.

    Raises:
        InvalidInput: ``not_text``, ``blank`` or ``too_long``, pointing at ``pointer``.
    """
    if not isinstance(value, str):
        raise invalid(pointer, "not_text", "This must be a string.")
    text = value.replace("\x00", "\ufffd").strip()
    if not text:
        raise invalid(pointer, "blank", "This must not be empty.")
    if len(text) > limit:
        raise invalid(pointer, "too_long", f"This has {len(text)} characters; at most {limit} are accepted.")
    return redact_text(text)


def clean_alert(alert: Mapping[str, Any] | None) -> Any:
    """Return an alert redacted and without NUL; ``None`` stays.

    Raises:
        InvalidInput: ``not_an_object``, or ``too_large``: it has more than 1 MiB of JSON.
    """
    if alert is None:
        return None
    if not isinstance(alert, Mapping):
        raise invalid("/alert", "not_an_object", "An alert is a JSON object.")
    encoded = orjson.dumps(alert)
    if len(encoded) > MAX_ALERT_BYTES:
        detail = f"The alert has {len(encoded)} bytes; at most {MAX_ALERT_BYTES} are accepted."
        raise invalid("/alert", "too_large", detail)
    return clean_json(alert)


def clean_json(value: Any) -> Any:
    """Return a JSON value redacted and without NUL."""
    return _without_nul(redact_json(value))


def _without_nul(value: Any) -> Any:
    """Return ``value`` without NUL characters, which PostgreSQL's jsonb refuses."""
    if isinstance(value, str):
        return value.replace("\x00", "\ufffd")
    if isinstance(value, dict):
        return {_without_nul(key): _without_nul(item) for key, item in value.items()}
    return [_without_nul(item) for item in value] if isinstance(value, list) else value


def clean_answers(answers: object) -> dict[str, str]:
    """Return answers by question, each text trimmed and redacted.

    Raises:
        InvalidInput: ``answers_required``, ``too_many`` (20), or what :func:`clean_text` refuses.
    """
    if not isinstance(answers, Mapping) or not answers:
        raise invalid("/answers", "answers_required", "Give at least one answer: an object of texts.")
    if len(answers) > 20:
        raise invalid("/answers", "too_many", f"There are {len(answers)} answers; at most 20 are accepted.")
    return {
        clean_text(name, pointer="/answers", limit=500): clean_text(
            value, pointer=f"/answers/{shown_token(name)}", limit=MAX_ANSWER_CHARS
        )
        for name, value in answers.items()
    }
