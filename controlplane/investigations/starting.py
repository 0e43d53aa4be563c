"""Starting investigations: a draft is checked and redacted first, then written in one short transaction."""

import hashlib
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Final, ParamSpec
from uuid import UUID

import orjson
from django.db import transaction

from controlplane.audit.services import audit_record
from controlplane.configs.limits import runtime_kind
from controlplane.configs.selectors import config_effective
from controlplane.core.actor import Actor
from controlplane.core.errors import invalid
from controlplane.core.permissions import Action
from controlplane.core.redaction import redact_json
from controlplane.investigations.files import evidence_of, file_refs, files_attach, is_upload_id, uploads_of
from controlplane.investigations.inputs import MAX_PROMPT_CHARS, clean_alert, clean_text
from controlplane.investigations.models import Artifact, Run, StoredFile, Thread, Visibility
from controlplane.investigations.queueing import priority_of, run_queue
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_is_archived, node_require
from controlplane.runtimes.registry import get_runtime
from controlplane.runtimes.replay import ReplayRuntime, is_recording, recording_validate
from controlplane.runtimes.sources.snapshot import snapshot_validate

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Draft:
    """An investigation that may be started; made by :func:`investigation_draft` alone. Its texts are redacted."""

    actor: Actor
    team: Node
    prompt: str
    alert: Any
    snapshot: Any
    visibility: str
    runtime: str
    config_chain: list[list[Any]]
    sample: bool
    attachments: Sequence[StoredFile] = ()
    evidence_file: StoredFile | None = None


@dataclass(frozen=True, slots=True)
class Started:
    thread: Thread
    run: Run


def investigation_draft(
    *,
    actor: Actor,
    team: Node,
    prompt: str,
    alert: Mapping[str, Any] | None = None,
    evidence: Mapping[str, Any] | str | None = None,
    visibility: str | None = None,
    runtime: str | None = None,
    sample: bool = False,
    attachments: object = (),
) -> Draft:
    """Return an investigation that may be started: permitted, checked, and redacted. Writes nothing and locks nothing.

    Args:
        actor: needs ``run.create`` on ``team``.
        team: the node whose configuration the run uses.
        prompt: 1 to 32,000 characters after trimming.
        alert: the alert's JSON object, at most 1 MiB encoded.
        evidence: a ``snapshot/1`` object (recorded evidence), or a ``replay/1`` (a recorded run, which is played unless
            ``runtime`` says otherwise), at most 8 MiB encoded; or the id of an upload of one.
        visibility: ``private`` or ``team``; by default people's own are private, all others are for the team.
        runtime: a runtime's name instead of the configured one.
        sample: marks a shipped sample, which never becomes history.
        attachments: ids of the actor's uploads that go with the question.

    Raises:
        InvalidInput: a field breaks its rule; ``errors`` names it.
        NotFound, PermissionDenied: the team is not the actor's to use.
    """
    node_require(actor=actor, action=Action.RUN_CREATE, node=team)
    if node_is_archived(team.pk):
        raise invalid("/team", "team_archived", "This team is archived and takes no new investigations.")
    text = clean_text(prompt, pointer="/prompt", limit=MAX_PROMPT_CHARS)
    effective = config_effective(node_id=team.pk)
    kind = runtime or (ReplayRuntime.name if is_recording(evidence) else runtime_kind(effective.document))
    get_runtime(kind)
    evidence_file = None
    if isinstance(evidence, str) and is_upload_id(evidence):
        evidence_file, evidence = evidence_of(actor, evidence)
    return Draft(
        actor=actor,
        team=team,
        prompt=text,
        alert=clean_alert(alert),
        snapshot=None if evidence is None else redact_json(evidence_validate(evidence)),
        visibility=_visibility(actor, visibility),
        runtime=kind,
        config_chain=[[str(node), version] for node, version in effective.chain],
        sample=sample,
        attachments=uploads_of(actor, attachments),
        evidence_file=evidence_file,
    )


@transaction.atomic
def investigation_queue(draft: Draft) -> Started:
    """Open a thread for a draft and queue its first run."""
    actor, team = draft.actor, draft.team
    thread = Thread.objects.create(
        organization_id=team.organization_id,
        node=team,
        title=_title(draft.prompt),
        visibility=draft.visibility,
        starter_id=actor.user_id,
        started_by=actor.principal,
        started_by_label=actor.label[:200],
        channel=actor.channel.value,
        sample=draft.sample,
    )
    run = Run(
        thread=thread,
        number=1,
        priority=priority_of(channel=thread.channel, requested_by=actor.principal),
        prompt=draft.prompt,
        alert=draft.alert,
        artifact=None if draft.snapshot is None else _artifact_create(team.organization_id, draft.snapshot),
        runtime=draft.runtime,
        requested_by=actor.principal,
        requested_by_label=actor.label[:200],
        config_chain=draft.config_chain,
    )
    run_queue(run, sample=draft.sample, attachments=file_refs(draft.attachments))
    taken = [*draft.attachments, *filter(None, [draft.evidence_file])]
    files_attach(taken, thread_id=thread.pk, run_id=run.pk)
    audit_record(
        actor=actor,
        organization_id=team.organization_id,
        action="investigation.start",
        object_kind="thread",
        object_id=str(thread.pk),
        node_id=team.pk,
        after={"run": str(run.pk), "runtime": draft.runtime, "visibility": thread.visibility, "sample": draft.sample},
    )
    thread.active_run = run.pk
    return Started(thread, run)


def _queued(draft: Callable[P, Draft]) -> Callable[P, Started]:
    @wraps(draft)
    def start(*args: P.args, **kwargs: P.kwargs) -> Started:
        return investigation_queue(draft(*args, **kwargs))

    return start


#: Open a thread and queue its first run at once. Arguments and errors as :func:`investigation_draft`.
investigation_start: Final = _queued(investigation_draft)


def evidence_validate(evidence: object) -> dict[str, Any]:
    """Return evidence that was given inline, checked by the rules of its format."""
    return recording_validate(evidence) if is_recording(evidence) else snapshot_validate(evidence)


def _visibility(actor: Actor, wanted: str | None) -> str:
    if wanted is None:
        return Visibility.PRIVATE if actor.is_person else Visibility.TEAM
    if wanted not in Visibility.values:
        raise invalid("/visibility", "unknown_visibility", "Visibility is private or team.")
    if wanted == Visibility.PRIVATE and not actor.is_person:
        raise invalid("/visibility", "private_needs_person", "Only a person can own a private thread.")
    return wanted


def _artifact_create(organization_id: UUID, snapshot: Any) -> Artifact:
    raw = orjson.dumps(snapshot)
    return Artifact.objects.create(
        organization_id=organization_id,
        format=snapshot["format"],
        sha256=hashlib.sha256(raw).hexdigest(),
        size_bytes=len(raw),
        content=zlib.compress(raw, 6),
    )


def _title(text: str) -> str:
    line = text.splitlines()[0].strip()
    return line if len(line) <= 120 else line[:117].rstrip() + "…"
