"""What clients call their threads, and what they ask for: ``/investigate`` begins or continues a thread by that name.

A name is unique in one team and means nothing in another: knowing it opens nothing.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import IntegrityError, transaction

from controlplane.core.actor import Actor
from controlplane.core.errors import InvalidInput, NotFound, invalid
from controlplane.core.permissions import Action
from controlplane.investigations.inputs import clean_json
from controlplane.investigations.models import ClientThread, Event, Thread
from controlplane.investigations.selectors import thread_get
from controlplane.investigations.services import When, message_post
from controlplane.investigations.starting import investigation_draft, investigation_queue
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import team_for
from controlplane.runtimes.events import EventType

MAX_NAME: Final = 240
_NAME: Final = re.compile(rf"[^\x00-\x1f\x7f/?#\\]{{1,{MAX_NAME}}}")
#: What bots say of where a message comes from: kept, cut to so many characters, for people to look at.
_ORIGIN: Final = {"trigger_source": 128, "trigger_actor": 128, "trigger_actor_teams_id": 128}
_CONVERSATION: Final = ("conversation_id", "service_url", "channel_id", "tenant_id")
_MAX_CONVERSATION: Final = 512


@dataclass(frozen=True, slots=True)
class Asked:
    """A body of ``/investigate``. ``name`` is ``None`` where the client leaves it to us."""

    prompt: Any
    name: str | None
    origin: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Begun:
    """The run of a request, and the number of the event before its first."""

    name: str
    thread_id: UUID
    run_id: UUID
    after: int


def asked_of(body: Mapping[str, Any]) -> Asked:
    """Return what a body of ``/investigate`` asks for; members that are not known are ignored, as their server does.

    Raises:
        InvalidInput: ``attachments_not_supported`` or ``bad_thread_id``.
    """
    for member in ("images", "file_attachments"):
        if body.get(member):
            raise invalid(f"/{member}", "attachments_not_supported", "Images and files are not taken here.")
    name = body.get("thread_id")
    return Asked(body.get("prompt"), None if name in (None, "") else checked_name(name), _origin(body))


def checked_name(value: object) -> str:
    """Return a client's name of a thread.

    Raises:
        InvalidInput: ``bad_thread_id``.
    """
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        detail = f"A thread_id has 1 to {MAX_NAME} characters, without control characters, /, \\, ? and #."
        raise invalid("/thread_id", "bad_thread_id", detail)
    return value


def client_team(actor: Actor, action: Action) -> Node:
    """Return the team whose threads a caller names: its token's own, or the only one it reaches.

    Raises:
        InvalidInput: ``team_required``: there are several, and the protocol has no member to name one.
        PermissionDenied: ``no_team``: it may not do ``action`` on any.
    """
    try:
        return team_for(actor, None, action)
    except InvalidInput as error:
        detail = "This token may do this on several teams, and this protocol names none: use a token of one team."
        raise InvalidInput(detail, code=error.code, extra=error.extra) from None


def client_thread_get(actor: Actor, name: str, action: Action) -> Thread:
    """Return the thread that a caller's team has under ``name``. Five queries.

    Raises:
        NotFound: there is none, or it is somebody else's private one.
        InvalidInput, PermissionDenied: as :func:`client_team`.
    """
    known = _known(client_team(actor, action), name)
    if known is None:
        raise NotFound
    return thread_get(actor, known.thread_id, action)


def client_investigate(*, actor: Actor, asked: Asked) -> Begun:
    """Start an investigation under the client's name, or continue the one that has it already.

    Args:
        actor: needs ``run.create`` on its team.
        asked: what for.

    Raises:
        Conflict: ``thread_busy``: a run of the thread is not over yet.
        AppError: what starting and saying something refuse, see :func:`investigation_draft` and :func:`message_post`.
    """
    team = client_team(actor, Action.RUN_CREATE)
    name = asked.name or f"thread-{secrets.token_hex(8)}"
    known = _known(team, name)
    if known is None:
        draft = investigation_draft(actor=actor, team=team, prompt=asked.prompt)
        try:
            with transaction.atomic():
                started = investigation_queue(draft)
                ClientThread.objects.create(node=team, name=name, thread=started.thread, origin=asked.origin)
            return _begun(name, started.thread.pk, started.run.pk)
        except IntegrityError:  # the same name at the same moment: the other one has it
            known = _known(team, name)
            if known is None:
                raise
    with transaction.atomic():
        accepted = message_post(actor=actor, thread_id=known.thread_id, text=asked.prompt, when=When.IDLE)
        ClientThread.objects.filter(pk=known.pk).update(origin=asked.origin)
    assert accepted.run is not None  # noqa: S101 (a message to an idle thread starts a run)
    return _begun(name, known.thread_id, accepted.run.pk)


def _known(team: Node, name: str) -> ClientThread | None:
    return ClientThread.objects.filter(node=team, name=name).first()


def _begun(name: str, thread_id: UUID, run_id: UUID) -> Begun:
    started = Event.objects.filter(run_id=run_id, type=EventType.RUN_STARTED).values_list("seq", flat=True).get()
    return Begun(name, thread_id, run_id, started - 1)


def _origin(body: Mapping[str, Any]) -> dict[str, Any]:
    origin: dict[str, Any] = {
        name: value[:limit] for name, limit in _ORIGIN.items() if isinstance(value := body.get(name), str) and value
    }
    conversation = body.get("conversation_ref")
    if isinstance(conversation, Mapping):
        origin["conversation_ref"] = {
            name: value[:_MAX_CONVERSATION]
            for name in _CONVERSATION
            if isinstance(value := conversation.get(name), str)
        }
    cleaned: dict[str, Any] = clean_json(origin)
    return cleaned
