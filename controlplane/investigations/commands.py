"""What a client says over a WebSocket: read strictly, done once under its id, answered by an acknowledgement."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from controlplane.access.limits.guard import limit_actor
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, InvalidInput, MalformedRequest, invalid
from controlplane.core.rest import as_app_error
from controlplane.core.strict_json import parse_json
from controlplane.investigations import metrics
from controlplane.investigations.control import CONTROLS, control_do
from controlplane.investigations.idempotency import Answer, key_of
from controlplane.investigations.viewing import Credentials, asked_by

#: What refusals of it are noted as.
ROUTE: Final = "thread-socket"
#: The largest message a client may send, in bytes: a text of 32,000 characters, each escaped, and what is around it.
MAX_BYTES: Final = 256 * 1024
MAX_NESTING: Final = 8
MAX_SEQ: Final = 10**18
#: The type of a command → the control it asks for.
COMMANDS: Final[Mapping[str, str]] = {
    "message": "messages",
    "answer": "answers",
    "decide": "decisions",
    "interrupt": "interrupt",
}


@dataclass(frozen=True, slots=True)
class Hello:
    """The first message: which events the client has."""

    after: int


@dataclass(frozen=True, slots=True)
class Command:
    """``id`` is the client's own; ``body`` are the members of the control called ``name``."""

    id: str
    name: str
    body: dict[str, Any]


def parse(text: str) -> dict[str, Any]:
    """Return a client's message, a JSON object.

    Raises:
        MalformedRequest: it is no JSON object, or nested too deep.
    """
    value = parse_json(text.encode(), max_bytes=MAX_BYTES, max_nesting=MAX_NESTING)
    if not isinstance(value, dict):
        raise MalformedRequest("A message must be a JSON object.", code="not_an_object")
    return value


def hello_of(message: Mapping[str, Any]) -> Hello:
    """Return the first message ``{"type": "hello", "after": n}``; both members may be left out.

    Raises:
        InvalidInput: ``hello_expected``, ``bad_cursor`` or ``unknown_member``.
    """
    if message.get("type", "hello") != "hello":
        raise invalid("/type", "hello_expected", 'The first message must be {"type": "hello", "after": <last seq>}.')
    for name in message:
        if name not in {"type", "after"}:
            raise InvalidInput("Hello has the members type and after alone.", code="unknown_member")
    after = message.get("after", 0)
    if isinstance(after, bool) or not isinstance(after, int) or not 0 <= after < MAX_SEQ:
        raise invalid("/after", "bad_cursor", "after must be a whole number, 0 or larger.")
    return Hello(after)


def command_of(message: Mapping[str, Any]) -> Command:
    """Return what a later message asks for.

    Raises:
        InvalidInput: ``unknown_command`` or ``id_required``.
        MalformedRequest: ``bad_idempotency_key``: the id is empty, too long or not printable ASCII.
    """
    kind = message.get("type")
    if not isinstance(kind, str) or kind not in COMMANDS:
        detail = f"type must be one of {', '.join(COMMANDS)}; hello is said once."
        raise invalid("/type", "unknown_command", detail)
    if not isinstance(message.get("id"), str):
        raise invalid("/id", "id_required", "A command needs an id, a string of yours that is new for each command.")
    body = {name: value for name, value in message.items() if name not in {"type", "id"}}
    return Command(key_of(message["id"]), COMMANDS[kind], body)


def command_run(credentials: Credentials, thread_id: UUID, command: Command) -> dict[str, Any]:
    """Do a command, once for its id, authorised anew, and return the acknowledgement; raises nothing.

    Returns:
        ``{"type": "ack", "id", "ok": true, "replayed", "result"}`` or ``{"type": "ack", "id", "ok": false, "error"}``,
        where ``error`` is a problem document.
    """
    try:
        answer = asked_by(credentials, f"{ROUTE}.{command.name}", lambda actor: _done(actor, thread_id, command))
    except Exception as error:  # noqa: BLE001 (as_app_error logs what it does not know)
        refusal = as_app_error(error)
        metrics.socket_commands_total.labels(command=command.name, outcome="refused").inc()
        return {"type": "ack", "id": command.id, "ok": False, "error": refusal.as_problem()}
    metrics.socket_commands_total.labels(command=command.name, outcome="done").inc()
    return {"type": "ack", "id": command.id, "ok": True, "replayed": answer.replayed, "result": answer.value}


def fault(error: AppError) -> dict[str, Any]:
    """Return what a client is told whose message could not be taken as a command."""
    return {"type": "error", "error": error.as_problem()}


def _done(actor: Actor, thread_id: UUID, command: Command) -> Answer:
    if (rule := CONTROLS[command.name].rate_rule) is not None:
        limit_actor(rule, actor)
    return control_do(actor=actor, thread_id=thread_id, name=command.name, body=command.body, key=command.id)
