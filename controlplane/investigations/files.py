"""Files that come in with questions and messages, and out with answers: stored once, read by who reads the thread.

A row is written before its bytes and removed after them, so that bytes never lie about without a row; what no thread
takes up within a day goes again.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

import orjson
import structlog
from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.db import transaction
from django.db.models import Q, QuerySet

from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import (
    Conflict,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    Unavailable,
    invalid,
)
from controlplane.core.ids import new_id
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.core.redaction import redact_text
from controlplane.investigations import metrics
from controlplane.investigations.models import Run, StoredFile, Thread
from controlplane.investigations.selectors import thread_get
from controlplane.investigations.sniffing import JSON, cleaned, sniff, unpacked
from controlplane.runtimes.events import FileRef

__all__ = ["StoredFile"]  # pages hold rows that they got here

log = structlog.get_logger(__name__)

MAX_FILES: Final = 10
"""How many files one question or message takes along."""
MAX_WAITING: Final = 100
"""How many files of one uploader wait to be used."""
UNUSED_FOR: Final = timedelta(hours=24)
UNFINISHED_FOR: Final = timedelta(hours=1)
SWEEP_EVERY_S: Final = 900.0
SWEEP_AT_ONCE: Final = 200
_NAME_CHARS: Final = 200
_SEPARATORS: Final = re.compile(r"[\\/]")


@dataclass(frozen=True, slots=True)
class Content:
    """A stored file with its bytes."""

    file: StoredFile
    data: bytes


def _storage() -> Storage:
    return storages["uploads"]


# ---- taking in -------------------------------------------------------------------------------------------------------


def file_upload(*, actor: Actor, name: object, content: bytes) -> StoredFile:
    """Keep a file that its uploader may use in a question or message within a day.

    Args:
        actor: needs ``run.create`` anywhere.
        name: what the sender calls it; the path is cut off, control characters are.
        content: at most ``UPLOAD_MAX_BYTES``; what it is its bytes say. Text is redacted, gzip is unpacked.

    Raises:
        PermissionDenied: the actor starts no investigations anywhere.
        InvalidInput: ``empty_file``.
        PayloadTooLarge: ``file_too_large``.
        UnsupportedMediaType: ``type_not_allowed`` or ``file_damaged``.
        Conflict: ``too_many_files`` wait to be used.
        Unavailable: ``storage_unavailable``.
    """
    if actor.organization_id is None or not nodes_that_allow(actor, Action.RUN_CREATE):
        raise PermissionDenied(f"You may not do this here (it needs {Action.RUN_CREATE.value}).")
    waiting = _own(actor).count()
    if waiting >= MAX_WAITING:
        raise Conflict(f"{waiting} files wait to be used already; use them or wait a day.", code="too_many_files")
    kept, media_type = _checked(content)
    file = _row(actor.organization_id, actor.principal, actor.label, name, media_type, kept)
    return _stored(file, kept)


def file_from_run(*, run: Run, name: str, content: bytes) -> StoredFile:
    """Keep a file that a run made; who reads its thread reads it. Errors as :func:`file_upload`."""
    kept, media_type = _checked(content)
    thread = Thread.objects.only("organization_id").get(pk=run.thread_id)
    file = _row(thread.organization_id, f"run:{run.pk}", "the agent", name, media_type, kept)
    file.thread_id, file.run_id, file.outgoing = run.thread_id, run.pk, True
    return _stored(file, kept)


def file_limit() -> int:
    """Return the largest file that is taken, in bytes."""
    limit: int = settings.UPLOAD_MAX_BYTES
    return limit


def _checked(content: bytes) -> tuple[bytes, str]:
    limit = file_limit()
    if not content:
        raise invalid("/file", "empty_file", "The file is empty.")
    if len(content) > limit:
        raise too_large()
    plain = unpacked(content, limit=limit)
    media_type = sniff(plain)
    return cleaned(plain, media_type), media_type


def too_large() -> PayloadTooLarge:
    """Return the refusal of a file beyond the limit."""
    return PayloadTooLarge(f"A file has at most {settings.UPLOAD_MAX_BYTES:,} bytes.", code="file_too_large")


def _row(organization_id: UUID, by: str, label: str, name: object, media_type: str, kept: bytes) -> StoredFile:
    id_ = new_id()
    return StoredFile(
        id=id_,
        organization_id=organization_id,
        by=by,
        by_label=label[:200],
        name=file_name(name),
        media_type=media_type,
        size_bytes=len(kept),
        sha256=hashlib.sha256(kept).hexdigest(),
        key=f"{organization_id.hex}/{id_.hex[:8]}/{id_.hex}",
    )


def _stored(file: StoredFile, content: bytes) -> StoredFile:
    """Write the row, then the bytes, then that they are there; outside of any transaction, which could undo the row."""
    file.save(force_insert=True)
    try:
        file.key = _storage().save(file.key, ContentFile(content))
    except Exception as error:
        log.exception("file.not_stored", file=str(file.pk), error=type(error).__name__)
        raise Unavailable("The file cannot be stored just now; try again.", code="storage_unavailable") from None
    file.ready = True
    file.save(update_fields=["key", "ready"])
    metrics.files_stored_total.labels(direction="out" if file.outgoing else "in").inc()
    return file


def file_name(name: object) -> str:
    """Return a name that is safe to show and to send: no path, no control characters, 200 characters at most."""
    text = name if isinstance(name, str) else ""
    last = _SEPARATORS.split(text)[-1]
    clean = "".join(sign for sign in last if sign.isprintable() and sign not in '"<>|:*?').strip(". ")
    return redact_text(clean)[:_NAME_CHARS] or "file"


# ---- using -----------------------------------------------------------------------------------------------------------


def uploads_of(actor: Actor, ids: object) -> list[StoredFile]:
    """Return the actor's own uploads that wait to be used, in the order named.

    Raises:
        InvalidInput: ``not_a_list``, ``too_many_files`` (10), or ``unknown_upload`` for one that is not there, used
            already or another's.
    """
    if not isinstance(ids, Sequence) or isinstance(ids, str):
        raise invalid("/attachments", "not_a_list", "Attachments are a list of ids of uploads.")
    if len(ids) > MAX_FILES:
        raise invalid("/attachments", "too_many_files", f"At most {MAX_FILES} files are taken along.")
    wanted = [_uuid(id_) for id_ in ids]
    mine = _own(actor).filter(pk__in=[id_ for id_ in wanted if id_], ready=True)
    found = {file.pk: file for file in mine}
    files: list[StoredFile] = []
    for index, id_ in enumerate(wanted):
        file = found.pop(id_, None) if id_ else None
        if file is None:
            detail = "There is no upload of yours of this id that waits to be used."
            raise invalid(f"/attachments/{index}", "unknown_upload", detail)
        files.append(file)
    return files


def _own(actor: Actor) -> QuerySet[StoredFile]:
    """Return the actor's uploads that no thread has taken up."""
    if actor.organization_id is None:
        return StoredFile.objects.none()
    return StoredFile.objects.filter(
        by=actor.principal, organization_id=actor.organization_id, thread__isnull=True, removed_at__isnull=True
    )


def files_attach(
    files: Sequence[StoredFile], *, thread_id: UUID, run_id: UUID | None = None, message_id: UUID | None = None
) -> None:
    """Give uploads to a thread, inside the caller's transaction.

    Raises:
        InvalidInput: ``unknown_upload``: one was used meanwhile.
    """
    if not files:
        return
    free = StoredFile.objects.filter(
        pk__in=[file.pk for file in files], thread__isnull=True, removed_at__isnull=True, ready=True
    )
    if free.update(thread_id=thread_id, run_id=run_id, message_id=message_id) != len(files):
        raise invalid("/attachments", "unknown_upload", "A file was used or removed meanwhile; upload it again.")


def evidence_of(actor: Actor, upload_id: str) -> tuple[StoredFile, Any]:
    """Return the JSON value of an upload that is to be evidence, with its row.

    Raises:
        InvalidInput: ``unknown_upload``, or ``evidence_not_json``.
        Unavailable: ``storage_unavailable``.
    """
    try:
        (file,) = uploads_of(actor, [upload_id])
    except InvalidInput as error:
        raise invalid("/evidence", error.code, error.detail) from None
    if file.media_type != JSON:
        raise invalid("/evidence", "evidence_not_json", "Evidence is a file of JSON in the format snapshot/1.")
    try:
        return file, orjson.loads(_read(file))
    except orjson.JSONDecodeError:
        raise invalid("/evidence", "evidence_not_json", "The file is no JSON that can be read.") from None


def is_upload_id(text: str) -> bool:
    """Return whether a text has the form of an upload's id."""
    return _uuid(text) is not None


def file_refs(files: Iterable[StoredFile]) -> list[FileRef]:
    """Return files as events name them."""
    return [
        FileRef(id=str(file.pk), name=file.name, media_type=file.media_type, size_bytes=file.size_bytes)
        for file in files
    ]


def _uuid(value: object) -> UUID | None:
    if isinstance(value, UUID):
        return value
    try:
        return UUID(value) if isinstance(value, str) and len(value) <= 40 else None
    except ValueError:
        return None


# ---- reading ---------------------------------------------------------------------------------------------------------


def files_of(actor: Actor, thread_id: UUID) -> list[StoredFile]:
    """Return a thread's files, oldest first.

    Raises:
        NotFound: the actor does not see the thread.
    """
    return files_of_thread(thread_get(actor, thread_id).pk)


def files_of_thread(thread_id: UUID) -> list[StoredFile]:
    """Return the files of a thread that the caller is known to see, oldest first."""
    return list(StoredFile.objects.filter(thread_id=thread_id, ready=True, removed_at__isnull=True))


def file_read(actor: Actor, thread_id: UUID, file_id: UUID) -> Content:
    """Return a file of a thread with its bytes.

    Raises:
        NotFound: the actor does not see the thread, or it has no such file.
        Unavailable: ``storage_unavailable``.
    """
    thread = thread_get(actor, thread_id)
    file = StoredFile.objects.filter(pk=file_id, thread=thread, ready=True, removed_at__isnull=True).first()
    if file is None:
        raise NotFound
    return Content(file, _read(file))


def _read(file: StoredFile) -> bytes:
    try:
        with _storage().open(file.key) as stored:
            data = bytes(stored.read())
    except FileNotFoundError:
        raise NotFound("The bytes of this file are gone.", code="file_lost") from None
    except Exception as error:
        log.exception("file.not_read", file=str(file.pk), error=type(error).__name__)
        raise Unavailable("The file cannot be read just now; try again.", code="storage_unavailable") from None
    if hashlib.sha256(data).hexdigest() != file.sha256:
        raise NotFound("The stored file is damaged.", code="file_damaged")
    return data


# ---- removing --------------------------------------------------------------------------------------------------------


@transaction.atomic
def upload_discard(*, actor: Actor, file_id: UUID) -> None:
    """Remove one's own upload that no thread has taken up.

    Raises:
        NotFound: there is none of that id.
    """
    if actor.organization_id is None or not _own(actor).filter(pk=file_id).update(removed_at=clock.now()):
        raise NotFound
    audit_record(
        actor=actor,
        organization_id=actor.organization_id,
        action="file.discard",
        object_kind="file",
        object_id=str(file_id),
    )


def files_sweep() -> int:
    """Remove what nobody used, what was never finished, and what is to go: bytes first, then rows. Returns how many."""
    now = clock.now()
    unused = Q(thread__isnull=True, created_at__lt=now - UNUSED_FOR)
    unfinished = Q(ready=False, created_at__lt=now - UNFINISHED_FOR)
    StoredFile.objects.filter(unused | unfinished, removed_at__isnull=True).update(removed_at=now, thread=None)
    gone = 0
    for file in list(StoredFile.objects.filter(removed_at__isnull=False).order_by("removed_at")[:SWEEP_AT_ONCE]):
        try:
            _storage().delete(file.key)
        except Exception:  # the next sweep tries again
            log.exception("file.not_removed", file=str(file.pk))
            continue
        gone += StoredFile.objects.filter(pk=file.pk).delete()[0]
    return gone
