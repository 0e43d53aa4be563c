"""Moving a node below rules that others set: what it holds is judged as if it were written there.

Else whoever may write in two places would take a node to where nothing binds it, write, and bring it back.
"""

from collections.abc import Collection, Sequence
from itertools import takewhile
from uuid import UUID

from controlplane.configs.merge import merge_all
from controlplane.configs.models import ConfigDocument, ConfigPolicy
from controlplane.configs.patterns import ANY
from controlplane.configs.pointers import Document
from controlplane.configs.policies import (
    Policy,
    check_policies,
    policies_judged,
    shown_pointer,
    touched_approvals,
)
from controlplane.configs.reach import touching
from controlplane.configs.selectors import chain_documents
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, Conflict, FieldError
from controlplane.core.permissions import Action, allows
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_lineage


def check_moved(actor: Actor, node: Node, above_before: Collection[UUID]) -> None:
    """Judge the documents of a subtree by the policies that bind it only since it was moved.

    Policies of levels that the actor may configure do not count: it could as well set them afterwards, and what is
    there then stays. One query where none are left, two where they set nothing, else one more per document concerned.

    Raises:
        PermissionDenied, InvalidInput: see :func:`controlplane.configs.policies.check_policies`.
        Conflict: ``approval_required``: a document holds what those above would have to approve.
    """
    lineage = node_lineage(node.pk)
    levels = [
        level
        for end, level in enumerate(lineage[:-1], start=1)
        if level not in above_before and not allows(actor, Action.CONFIG_WRITE, lineage[:end])
    ]
    rows = ConfigPolicy.objects.filter(node_id__in=levels).order_by("node__slug", "pointer", "kind")
    policies = policies_judged(rows) if levels else []
    if not policies:
        return
    own = ConfigDocument.objects.filter(node__above__ancestor_id=node.pk, version__gt=0)
    certain = [tuple(takewhile(lambda token: token != ANY, policy.pattern)) for policy in policies]
    concerned = own.filter(touching(certain)).order_by("node__slug").values_list("node_id", "node__slug")
    above = merge_all(document for _, document in chain_documents(node.pk)[:-1])
    for node_id, slug in concerned:
        effective = merge_all(document for _, document in chain_documents(node_id))
        try:
            check_policies(policies, above, effective)
            _check_approvals(actor, policies, lineage, above, effective)
        except AppError as error:
            detail = f"{slug} holds what the rules of its new place forbid: {error.detail}"
            raise type(error)(detail, code=error.code, errors=error.errors, extra=error.extra) from None


def _check_approvals(
    actor: Actor, policies: Sequence[Policy], lineage: Sequence[UUID], before: Document, after: Document
) -> None:
    errors = [
        FieldError(shown_pointer(path), "approval_required", f"{policy.node} has this approved.")
        for policy, path in touched_approvals(policies, before, after)
        if not allows(actor, Action.REVIEW_DECIDE, lineage[: lineage.index(policy.node_id) + 1])
    ]
    if errors:
        detail = f"{errors[0].pointer} takes an approval: {errors[0].detail}"
        raise Conflict(detail, code="approval_required", errors=errors)
