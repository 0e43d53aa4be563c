"""Writing configuration: replace, patch, unset, roll back. Each is one transaction; as a dry run it writes nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db import transaction

from controlplane.configs.changes import change_open
from controlplane.configs.impact import Impact, ImpactSearch
from controlplane.configs.judging import approval_warnings
from controlplane.configs.locks import lock_document, lock_organization
from controlplane.configs.merge import patch_deep, patch_rfc7396
from controlplane.configs.models import ConfigVersion
from controlplane.configs.pointers import Document, Operation, PointerSyntaxError, Tokens, decode, unset
from controlplane.configs.policies import Policy
from controlplane.configs.routes import claims_check
from controlplane.configs.selectors import StoredDocument, document_of
from controlplane.configs.validation import ConfigWarning, check_form
from controlplane.configs.writing import Edit, Outcome, commit, outcome_of, stored_in
from controlplane.core.actor import Actor
from controlplane.core.errors import FieldError, InvalidInput, invalid
from controlplane.core.permissions import Action
from controlplane.core.redaction import redact_text
from controlplane.core.text import single_line
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_require
from controlplane.reviews.models import ReviewRequest

MAX_POINTERS: Final = 1000
MAX_REASON: Final = 500


@dataclass(frozen=True, slots=True)
class _Request:
    """What every write is given. ``reason`` has been cleaned."""

    action: str
    actor: Actor
    node: Node
    if_match: str | None
    reason: str
    dry_run: bool


@dataclass(frozen=True, slots=True)
class WriteResult:
    """What a write did or, as a dry run, would do.

    ``stored`` is the document after it, in a dry run with the version and author it still has. ``operations`` is the
    difference to the document before; where it is empty there is no new version. ``search`` is for dry runs alone: it
    has not begun, so that whoever waits for it can be told how far it is; ``impact`` completes it.
    With ``review`` nothing was written: the change waits for somebody else to approve it.
    """

    stored: StoredDocument
    operations: list[Operation]
    warnings: list[ConfigWarning]
    dry_run: bool = False
    search: ImpactSearch | None = None
    review: ReviewRequest | None = None

    @property
    def changed(self) -> bool:
        return bool(self.operations) and self.review is None

    @property
    def impact(self) -> Impact | None:
        return self.search.run() if self.search else None


def config_replace(
    *, actor: Actor, node: Node, document: Any, if_match: str | None = None, reason: str = "", dry_run: bool = False
) -> WriteResult:
    """Replace the node's document by ``document``.

    Args:
        actor: who writes; needs ``config.write`` on the node.
        node: whose document.
        document: a JSON object; nesting ≤ 64, ≤ 256 KiB as JSON.
        if_match: the value of an ``If-Match`` header: the write happens only at that version.
        reason: one line for the history, ≤ 500 characters; redacted.
        dry_run: answer what would change, and write nothing.

    Raises:
        NotFound, PermissionDenied: the actor may not write the node's configuration.
        MalformedRequest, InvalidInput, PayloadTooLarge: see :mod:`controlplane.configs.validation`.
        PermissionDenied, InvalidInput: a policy or a cross-reference forbids it, see
            :mod:`controlplane.configs.policies` and :mod:`controlplane.configs.dependencies`.
        Conflict: see :mod:`controlplane.configs.routes`.
        PreconditionFailed: ``precondition_failed`` with the current version and what changed since the one named.
    """
    check_form(document)
    return _write(_Request("config.replace", actor, node, if_match, _clean_reason(reason), dry_run), lambda _: document)


def config_patch(
    *,
    actor: Actor,
    node: Node,
    patch: Any,
    merge_patch: bool = False,
    if_match: str | None = None,
    reason: str = "",
    dry_run: bool = False,
) -> WriteResult:
    """Change the paths that ``patch`` names and leave all others as they are.

    A deep merge by default, which stores ``null``; with ``merge_patch`` a JSON Merge Patch (RFC 7396), where ``null``
    removes the override. Arguments and errors otherwise as :func:`config_replace`.
    """
    check_form(patch, what="patch")
    apply = patch_rfc7396 if merge_patch else patch_deep
    return _write(
        _Request("config.patch", actor, node, if_match, _clean_reason(reason), dry_run),
        lambda document: apply(document, patch),
    )


def config_unset(
    *,
    actor: Actor,
    node: Node,
    pointers: Sequence[Any],
    if_match: str | None = None,
    reason: str = "",
    dry_run: bool = False,
) -> WriteResult:
    """Remove overrides, so that their values are inherited again, with the parents that this empties. Idempotent.

    Arguments and errors as :func:`config_replace`; of ``pointers`` (1 to 1,000 JSON Pointers of the document):
    ``pointers``, ``malformed_pointer``, ``whole_document`` or ``pointer_into_list``, pointing at ``/pointers/<index>``.
    """
    paths = _paths(pointers)

    def edit(document: Document) -> Document:
        for index, path in enumerate(paths):
            _require_no_list_on(document, path, index)
        return unset(document, paths)

    return _write(_Request("config.unset", actor, node, if_match, _clean_reason(reason), dry_run), edit)


def config_rollback(
    *, actor: Actor, node: Node, version: Any, if_match: str | None = None, reason: str = "", dry_run: bool = False
) -> WriteResult:
    """Write the document of an earlier version as a new version, under the rules of any write.

    Arguments and errors as :func:`config_replace`, and ``unknown_version`` at ``/version``. Version 0 is the empty
    document that every node begins with.
    """
    if not isinstance(version, int) or isinstance(version, bool):
        raise invalid("/version", "not_an_integer", "The version must be an integer.")
    return _write(
        _Request("config.rollback", actor, node, if_match, _clean_reason(reason), dry_run),
        lambda _: _document_at(node, version),
    )


def _write(request: _Request, edit: Edit) -> WriteResult:
    return _foresee(request, edit) if request.dry_run else _change(request, edit)


def _foresee(request: _Request, edit: Edit) -> WriteResult:
    node = request.node
    node_require(actor=request.actor, action=Action.CONFIG_WRITE, node=node)
    before = document_of(node)
    outcome = outcome_of(before, edit, request.if_match)
    claims_check(actor=request.actor, node=node, document=outcome.document, operations=outcome.operations)
    warnings = [*outcome.warnings, *approval_warnings(_awaits(request, outcome))]
    search = ImpactSearch(node, before.document, outcome.document)
    after = replace(before, document=outcome.document)
    return WriteResult(after, outcome.operations, warnings, dry_run=True, search=search)


@transaction.atomic
def _change(request: _Request, edit: Edit) -> WriteResult:
    node, actor = request.node, request.actor
    lock_organization(node)
    node_require(actor=actor, action=Action.CONFIG_WRITE, node=node)
    row = lock_document(node)
    before = stored_in(node, row)
    outcome = outcome_of(before, edit, request.if_match)
    awaits = _awaits(request, outcome)
    if awaits:
        claims_check(actor=actor, node=node, document=outcome.document, operations=outcome.operations)
        review = change_open(
            actor=actor, stored=before, outcome=outcome, awaits=awaits, action=request.action, reason=request.reason
        )
        return WriteResult(before, outcome.operations, outcome.warnings, review=review)
    commit(node=node, row=row, outcome=outcome, author=actor, action=request.action, reason=request.reason)
    return WriteResult(stored_in(node, row), outcome.operations, outcome.warnings)


def _awaits(request: _Request, outcome: Outcome) -> list[tuple[Policy, Tokens]]:
    return outcome.judgement.awaits(request.actor) if outcome.judgement else []


def _clean_reason(reason: str) -> str:
    return (
        redact_text(single_line(reason, pointer="/reason", max_length=MAX_REASON))[:MAX_REASON]
        if reason.strip()
        else ""
    )


def _paths(pointers: Any) -> list[Tokens]:
    if not isinstance(pointers, list) or not 1 <= len(pointers) <= MAX_POINTERS:
        raise invalid("/pointers", "pointers", f"This must be a list of 1 to {MAX_POINTERS} JSON Pointers.")
    paths: list[Tokens] = []
    errors: list[FieldError] = []
    for index, pointer in enumerate(pointers):
        place = f"/pointers/{index}"
        try:
            path = decode(pointer) if isinstance(pointer, str) else None
        except PointerSyntaxError as error:
            errors.append(FieldError(place, "malformed_pointer", f"No JSON Pointer (RFC 6901): {error}."))
            continue
        if path is None:
            errors.append(FieldError(place, "malformed_pointer", "A JSON Pointer is a string."))
        elif not path:
            errors.append(FieldError(place, "whole_document", "This is the whole document; replace it by {} instead."))
        else:
            paths.append(path)
    if errors:
        raise InvalidInput(errors[0].detail, code=errors[0].code, errors=errors[:20])
    return paths


def _require_no_list_on(document: Document, path: Tokens, index: int) -> None:
    value: Any = document
    for token in path:
        if isinstance(value, list):
            raise invalid(
                f"/pointers/{index}", "pointer_into_list", "This points into a list; a list is set or unset as a whole."
            )
        if not isinstance(value, Mapping) or token not in value:
            return
        value = value[token]


def _document_at(node: Node, version: int) -> Document:
    if version == 0:
        return {}
    row = ConfigVersion.objects.filter(node=node, version=version).only("document").first() if version > 0 else None
    if row is None:
        raise invalid("/version", "unknown_version", "The node's history has no such version.")
    document: Document = row.document
    return document
