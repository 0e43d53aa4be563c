"""What every write of a document does once its edit is known: judge it, then store, record and claim; or nothing."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson

from controlplane.audit.services import audit_record
from controlplane.configs import preconditions
from controlplane.configs.catalogue.guard import check_catalogue_secrets
from controlplane.configs.credentials import credential_warnings
from controlplane.configs.judging import Judgement, judge
from controlplane.configs.models import ConfigDocument, ConfigVersion
from controlplane.configs.pointers import MISSING, Document, Operation, diff, leaves, same
from controlplane.configs.references import check_references
from controlplane.configs.routes import claims_store
from controlplane.configs.selectors import StoredDocument
from controlplane.configs.validation import ConfigWarning, check_document, check_secrets, warnings_for
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.ids import new_id
from controlplane.orgs.models import Node

AUDITED_POINTERS: Final = 200
AUDITED_BYTES: Final = 32 * 1024

Edit = Callable[[Document], Document]


@dataclass(frozen=True, slots=True)
class Approval:
    """Who approved a change that somebody else asked for, and in which review."""

    approver: Actor
    review_id: UUID


@dataclass(frozen=True, slots=True)
class Outcome:
    """The document after an edit that nothing forbids, and its difference to the one before.

    ``judgement`` is ``None`` where nothing changes.
    """

    document: Document
    operations: list[Operation]
    warnings: list[ConfigWarning]
    judgement: Judgement | None


def outcome_of(before: StoredDocument, edit: Edit, if_match: str | None = None) -> Outcome:
    """Return what ``edit`` makes of a document, judged by every rule; writes nothing.

    Raises:
        PreconditionFailed, MalformedRequest, InvalidInput, PayloadTooLarge, PermissionDenied: a rule forbids it.
    """
    preconditions.require_match(before, if_match)
    after = edit(before.document)
    operations = diff(before.document, after)
    if not operations:
        return Outcome(after, operations, _warnings(before.node, after, operations), None)
    check_document(after)
    check_secrets(after, operations)
    check_references(operations)
    check_catalogue_secrets(before.node, after, operations)
    judgement = judge(node=before.node, before=before.document, after=after)
    after = judgement.document
    operations = diff(before.document, after)
    return Outcome(after, operations, [*_warnings(before.node, after, operations), *judgement.warnings], judgement)


def _warnings(node: Node, document: Document, operations: list[Operation]) -> list[ConfigWarning]:
    return [*warnings_for(document), *credential_warnings(node, document, operations)]


def stored_in(node: Node, row: ConfigDocument) -> StoredDocument:
    """Return what a document's row says."""
    return StoredDocument(node, row.document, row.version, row.leaf_versions, row.updated_at, row.updated_by)


def commit(
    *,
    node: Node,
    row: ConfigDocument,
    outcome: Outcome,
    author: Actor,
    action: str,
    reason: str,
    approval: Approval | None = None,
) -> None:
    """Write an outcome as the next version of the locked ``row``, into the history, the claims and the audit log.

    ``author`` is whose change it is; with ``approval`` the history and the audit log name both.

    Raises:
        Conflict: see :func:`controlplane.configs.routes.claims_store`.
    """
    if not outcome.operations:
        return
    _store(row, outcome.document, author=author, reason=reason, approval=approval)
    claims_store(
        actor=approval.approver if approval else author,
        node=node,
        document=outcome.document,
        operations=outcome.operations,
    )
    _audit(node, row.version, outcome.operations, author=author, action=action, reason=reason, approval=approval)


def _store(row: ConfigDocument, after: Document, *, author: Actor, reason: str, approval: Approval | None) -> None:
    """Write the next version into the locked row and the history."""
    before_leaves = dict(leaves(row.document))
    at, by = clock.now(), author.label[:200]
    version = row.version + 1
    row.leaf_versions = {
        pointer: row.leaf_versions[pointer] if same(before_leaves.get(pointer, MISSING), value) else version
        for pointer, value in leaves(after)
    }
    authors: dict[str, Any] = row.authors | {str(version): {"by": by, "at": at.isoformat()}}
    used = {str(number) for number in row.leaf_versions.values()}
    row.authors = {number: author for number, author in authors.items() if number in used}
    row.document, row.version, row.revision, row.updated_at, row.updated_by = after, version, new_id(), at, by
    row.save()
    ConfigVersion.objects.create(
        id=row.revision,
        node_id=row.pk,
        version=version,
        document=after,
        at=at,
        by=by,
        principal=author.principal,
        approved_by=approval.approver.label[:200] if approval else "",
        approver=approval.approver.principal if approval else "",
        review_id=approval.review_id if approval else None,
        reason=reason,
    )


def _audit(
    node: Node,
    version: int,
    operations: list[Operation],
    *,
    author: Actor,
    action: str,
    reason: str,
    approval: Approval | None,
) -> None:
    """Record the pointers that changed and, unless they are large, their values; the history holds them in any case."""
    listed = operations[:AUDITED_POINTERS]
    before: dict[str, Any] = {"version": version - 1}
    after: dict[str, Any] = {
        "version": version,
        "changed": len(operations),
        "pointers": [operation["pointer"] for operation in listed],
    }
    if approval is not None:
        after["approved_by"] = approval.approver.principal
        after["review"] = str(approval.review_id)
    old = {operation["pointer"]: operation["before"] for operation in listed if "before" in operation}
    new = {operation["pointer"]: operation["after"] for operation in listed if "after" in operation}
    if len(orjson.dumps([old, new])) <= AUDITED_BYTES:
        before["values"], after["values"] = old, new
    audit_record(
        actor=author,
        organization_id=node.organization_id,
        action=action,
        object_kind="config",
        object_id=str(node.pk),
        node_id=node.pk,
        before=before,
        after=after,
        reason=reason,
    )
