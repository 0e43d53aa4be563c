"""What people and machines ask of a thread, in the one form that REST and WebSockets share.

Each control has a name, which is the end of its address, strict members, and an act that is authorised anew each time.
Done under a key, it is done once: over whichever connection and by whichever of the two it is repeated.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from rest_framework import serializers

from controlplane.core.actor import Actor
from controlplane.core.api import StrictSerializer, TextField, body_of
from controlplane.investigations import approvals, services
from controlplane.investigations.idempotency import Answer, call_once


class FreeText(TextField):
    """Text as it was typed: the services trim it and say what is wrong with it."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_blank=True, trim_whitespace=False, **options)


class MessageInput(StrictSerializer):
    text = FreeText()
    attachments = serializers.JSONField(required=False, help_text="Ids of your uploads, ten at most.")


class AnswersInput(StrictSerializer):
    request_id = FreeText()
    answers = serializers.JSONField(help_text="Texts by the question's name, question_0 and so on.")


class DecisionInput(StrictSerializer):
    request_id = FreeText()
    decision = FreeText(help_text="approve or reject")
    reason = FreeText(required=False, help_text="For the agent and the record.")


class DecisionOutput(serializers.Serializer[Any]):
    review = serializers.UUIDField()
    state = serializers.CharField()
    by = serializers.CharField()


class NothingInput(StrictSerializer):
    """A body that may be left out and has no members."""


class MessageOutput(serializers.Serializer[Any]):
    message_id = serializers.UUIDField()
    run_id = serializers.UUIDField(allow_null=True)
    queued = serializers.BooleanField()
    pending_count = serializers.IntegerField()


class RunOutput(serializers.Serializer[Any]):
    run_id = serializers.UUIDField()
    status = serializers.CharField()


@dataclass(frozen=True, slots=True)
class Control:
    """``inputs`` are the members, ``act`` does it and returns a JSON object, ``rate_rule`` limits it besides."""

    inputs: type[StrictSerializer]
    act: Callable[[Actor, UUID, Mapping[str, Any]], dict[str, Any]]
    rate_rule: str | None = None


def control_do(*, actor: Actor, thread_id: UUID, name: str, body: Any, key: str | None = None) -> Answer:
    """Do what is asked of a thread.

    Args:
        actor: whoever asks; each control says what it needs.
        thread_id: the thread.
        name: one of :data:`CONTROLS`.
        body: the members, a JSON object.
        key: of the caller, see :func:`controlplane.investigations.idempotency.call_once`; ``None``: done every time.

    Raises:
        MalformedRequest: ``not_an_object``.
        InvalidInput: members break their rules, or ``idempotency_key_reused``.
        AppError: whatever the service of the control raises.
    """
    control = CONTROLS[name]
    members = body_of(control.inputs, body)
    if key is None:
        return Answer(control.act(actor, thread_id, members))
    asked = [f"/api/v1/threads/{thread_id}/{name}", body]
    return call_once(actor=actor, key=key, asked=asked, act=lambda: control.act(actor, thread_id, members))


def _message(actor: Actor, thread_id: UUID, members: Mapping[str, Any]) -> dict[str, Any]:
    accepted = services.message_post(
        actor=actor, thread_id=thread_id, text=members["text"], attachments=members.get("attachments", ())
    )
    return {
        "message_id": accepted.message.pk,
        "run_id": accepted.run.pk if accepted.run else None,
        "queued": accepted.run is None,
        "pending_count": accepted.pending_count,
    }


def _answer(actor: Actor, thread_id: UUID, members: Mapping[str, Any]) -> dict[str, Any]:
    run = services.question_answer(
        actor=actor, thread_id=thread_id, request_id=members["request_id"], answers=members["answers"]
    )
    return {"run_id": run.pk, "status": run.status}


def _decide(actor: Actor, thread_id: UUID, members: Mapping[str, Any]) -> dict[str, Any]:
    review = approvals.approval_decide(
        actor=actor,
        thread_id=thread_id,
        request_id=members["request_id"],
        decision=members["decision"],
        reason=members.get("reason", ""),
    )
    return {"review": review.pk, "state": review.state, "by": review.decided_label}


def _interrupt(actor: Actor, thread_id: UUID, _members: Mapping[str, Any]) -> dict[str, Any]:
    run = services.run_interrupt(actor=actor, thread_id=thread_id)
    return {"run_id": run.pk, "status": run.status}


CONTROLS: Final[Mapping[str, Control]] = {
    "messages": Control(MessageInput, _message, rate_rule="investigations"),
    "answers": Control(AnswersInput, _answer),
    "decisions": Control(DecisionInput, _decide),
    "interrupt": Control(NothingInput, _interrupt),
}
