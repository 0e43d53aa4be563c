"""The JSON forms of what the selectors and services of configuration return."""

from datetime import datetime
from typing import Any

from django.http.response import HttpResponseBase
from rest_framework import status
from rest_framework.response import Response

from controlplane.configs.credentials import CredentialReport, ResolvedConfig
from controlplane.configs.foreseeing import progress_response
from controlplane.configs.merge import Shadowed, Source
from controlplane.configs.models import ConfigVersion
from controlplane.configs.pointers import MISSING, Document, Tokens, encode, get
from controlplane.configs.selectors import Effective, Link, StoredDocument, VersionDetail
from controlplane.configs.services import WriteResult
from controlplane.core.clock import rfc3339
from controlplane.core.errors import NotFound
from controlplane.reviews.api import review_url
from controlplane.reviews.models import ReviewRequest

NO_STORE = {"Cache-Control": "no-store"}


def document(stored: StoredDocument) -> dict[str, Any]:
    """Return a node's document with its version, time and author; both are ``null`` at version 0."""
    return {
        "document": stored.document,
        "version": stored.version,
        "leaf_versions": stored.leaf_versions,
        "updated_at": rfc3339(stored.updated_at) if stored.updated_at else None,
        "updated_by": stored.updated_by or None,
    }


def written(result: WriteResult, *, stream: bool = False) -> HttpResponseBase:
    """Return the answer of a write. Its ETag is that of the stored document, so of a dry run the one still valid.

    202 with the review when the change waits for approval: nothing was written. With ``stream`` a dry run says on its
    way how far it is.
    """
    if result.review is not None:
        return _queued(result, result.review)
    if stream and result.search is not None:
        return progress_response(result.search, lambda: _written(result))
    return Response(_written(result), headers={"ETag": result.stored.etag})


def _written(result: WriteResult) -> dict[str, Any]:
    answer = document(result.stored) | {
        "changed": result.changed,
        "diff": result.operations,
        "warnings": [warning.as_dict() for warning in result.warnings],
        "dry_run": result.dry_run,
    }
    if result.impact is not None:
        answer["affected"] = result.impact.as_dict()
    return answer


def _queued(result: WriteResult, review: ReviewRequest) -> Response:
    url = review_url(review)
    answer = {
        "review": {"id": review.pk, "url": url, "state": str(review.state), "expires_at": rfc3339(review.expires_at)},
        "version": result.stored.version,
        "changed": False,
        "diff": result.operations,
        "warnings": [warning.as_dict() for warning in result.warnings],
        "dry_run": False,
    }
    headers = {"ETag": result.stored.etag, "Location": url}
    return Response(answer, status=status.HTTP_202_ACCEPTED, headers=headers)


def effective(found: Effective, tokens: Tokens, report: CredentialReport, *, provenance: bool) -> dict[str, Any]:
    """Return an effective configuration or its part at ``tokens``, with the credentials and sources of that part.

    Raises:
        NotFound: ``pointer_not_found``.
    """
    value = get(found.document, tokens)
    if value is MISSING:
        raise NotFound("The effective configuration has nothing at this pointer.", code="pointer_not_found")
    return _effective(found, value, tokens, report, provenance)


def resolved(result: ResolvedConfig, tokens: Tokens, *, provenance: bool) -> Response:
    """Return the answer with the values in place: stored nowhere on its way (RFC 9111, section 5.2.2.5), no ETag."""
    answer = _effective(result.found, result.document, tokens, result.report, provenance)
    return Response(answer, headers=NO_STORE)


def own_resolved(result: ResolvedConfig, computed_at: datetime) -> Response:
    """Return the same in OpenSRE's form, with ``credentials`` beside it."""
    answer = own_effective(result.found, computed_at) | {"effective_config": result.document}
    return Response(answer | {"credentials": result.report.within(())}, headers=NO_STORE)


def _effective(
    found: Effective, value: Any, tokens: Tokens, report: CredentialReport, provenance: bool
) -> dict[str, Any]:
    answer: dict[str, Any] = {"effective": value, "version": found.version}
    if found.references:
        answer["credentials"] = report.within(tokens)
    if provenance:
        at = encode(tokens)
        inside = {pointer: source for pointer, source in found.sources.items() if _concerns(pointer, at)}
        answer["sources"] = {pointer: _source(source) for pointer, source in sorted(inside.items())}
    return answer


def version_summary(row: ConfigVersion | VersionDetail) -> dict[str, Any]:
    """Return what a list of versions says of one."""
    return {
        "version": row.version,
        "at": rfc3339(row.at),
        "by": row.by,
        "approved_by": row.approved_by or None,
        "review": str(row.review_id) if row.review_id else None,
        "reason": row.reason,
    }


def version(detail: VersionDetail) -> dict[str, Any]:
    """Return one version with its document and its difference to the one before."""
    return version_summary(detail) | {"document": detail.document, "diff": detail.operations}


def own_effective(found: Effective, computed_at: datetime) -> dict[str, Any]:
    """Return an effective configuration in OpenSRE's form; nodes are named by slug."""
    return {
        "node_id": found.lineage[-1].node,
        "effective_config": found.document,
        "computed_at": rfc3339(computed_at),
        "hierarchy": [link.node for link in found.lineage],
    }


def own_raw(chain: list[tuple[Link, Document]]) -> dict[str, Any]:
    """Return the documents of a chain in OpenSRE's form; nodes are named by slug, root first."""
    return {"lineage": [link.node for link, _ in chain], "configs": {link.node: document for link, document in chain}}


def _concerns(leaf: str, pointer: str) -> bool:
    """Whether a leaf is at or below ``pointer``, or is the list that ``pointer`` enters."""
    return leaf == pointer or leaf.startswith(f"{pointer}/") or pointer.startswith(f"{leaf}/")


def _source(source: Source) -> dict[str, Any]:
    answer = _origin(source)
    if source.shadowed:
        answer["shadowed"] = [_origin(hidden) | {"value": hidden.value} for hidden in source.shadowed]
    return answer


def _origin(origin: Source | Shadowed) -> dict[str, Any]:
    return {
        "node": origin.node,
        "version": origin.version,
        "by": origin.by,
        "at": rfc3339(origin.at),
        "level": origin.level,
    }
