"""``RunAgentInput``: what an AG-UI client sends. Only what is used is looked at; the rest is let pass."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from controlplane.core.errors import MalformedRequest, invalid
from controlplane.core.strict_json import parse_json

MAX_BODY_BYTES: Final = 9 * 1024 * 1024
MAX_ID_CHARS: Final = 200
MAX_RESUMED: Final = 20


@dataclass(frozen=True, slots=True)
class Resumed:
    """The answer to an interrupt; ``answers`` is ``None`` where it was called off."""

    interrupt_id: str
    answers: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RunInput:
    """``text`` is the last message of the conversation, if a person said it."""

    thread: str
    run: str
    text: str = ""
    resumed: Resumed | None = None
    team: str | None = None
    visibility: str | None = None


def read_body(raw: bytes) -> Mapping[str, Any]:
    """Return the JSON object of a request.

    Raises:
        PayloadTooLarge, MalformedRequest: as every other JSON body.
    """
    value = parse_json(raw, max_bytes=MAX_BODY_BYTES)
    if not isinstance(value, dict):
        raise MalformedRequest("The body must be a JSON object.", code="not_an_object")
    return value


def run_input(body: Mapping[str, Any], *, new: bool) -> RunInput:
    """Return what is asked for.

    Args:
        body: a ``RunAgentInput``.
        new: whether a run is to be started, which needs something to say.

    Raises:
        InvalidInput: naming the member.
    """
    props = body.get("forwardedProps")
    props = props if isinstance(props, Mapping) else {}
    resumed = _resumed(body.get("resume"))
    text = _said(body.get("messages", []))
    if new and resumed is None and not text:
        raise invalid("/messages", "no_user_message", "The last message must be a user's, with text, or resume is set.")
    return RunInput(
        thread=_id(body, "threadId"),
        run=_id(body, "runId"),
        text=text,
        resumed=resumed,
        team=_text(props, "team"),
        visibility=_text(props, "visibility"),
    )


def _id(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_ID_CHARS or not value.isprintable():
        raise invalid(f"/{name}", "bad_id", f"{name} is a text of 1 to {MAX_ID_CHARS} printable characters.")
    return value


def _text(props: Mapping[str, Any], name: str) -> str | None:
    value = props.get(name)
    if value is None or isinstance(value, str):
        return value
    raise invalid(f"/forwardedProps/{name}", "not_text", "This must be a string.")


def _said(messages: object) -> str:
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        raise invalid("/messages", "not_a_list", "Messages are a list.")
    last = messages[-1] if messages else None
    if not isinstance(last, Mapping) or last.get("role") != "user":
        return ""
    content = last.get("content")
    if isinstance(content, str):
        return content.strip()
    pointer = f"/messages/{len(messages) - 1}/content"
    if not isinstance(content, Sequence):
        raise invalid(pointer, "not_text", "The content of a message is a text or a list of parts.")
    return "\n".join(_part(part, f"{pointer}/{index}") for index, part in enumerate(content)).strip()


def _part(part: object, pointer: str) -> str:
    if isinstance(part, Mapping) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    detail = "Only parts of text are taken; send files to /api/v1/uploads."
    raise invalid(pointer, "part_not_supported", detail)


def _resumed(entries: object) -> Resumed | None:
    if entries is None or entries == []:
        return None
    if not isinstance(entries, Sequence) or isinstance(entries, str) or len(entries) > MAX_RESUMED:
        raise invalid("/resume", "bad_resume", f"Resume is a list of at most {MAX_RESUMED} answers.")
    entry = entries[0]
    if not isinstance(entry, Mapping) or not isinstance(entry.get("interruptId"), str):
        raise invalid("/resume/0", "bad_resume", "An answer names its interruptId.")
    if entry.get("status") == "cancelled":
        return Resumed(entry["interruptId"], None)
    payload = entry.get("payload")
    if isinstance(payload, str):
        payload = {"question_0": payload}
    if not isinstance(payload, Mapping):
        raise invalid("/resume/0/payload", "bad_resume", "The payload is a text, or texts by question_0 and so on.")
    return Resumed(entry["interruptId"], payload)
