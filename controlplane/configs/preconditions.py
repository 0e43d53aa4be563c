"""``If-Match`` and ``If-None-Match`` (RFC 9110, sections 13.1.1 and 13.1.2) on configuration."""

from controlplane.configs.models import ConfigVersion
from controlplane.configs.pointers import diff
from controlplane.configs.selectors import StoredDocument
from controlplane.core.errors import PreconditionFailed


def tags_of(header: str) -> frozenset[str]:
    """Return the opaque tags of a header, or ``{"*"}``.

    ``W/`` is dropped: our tags name versions, which stay exact although a compressing proxy marks them weak. A tag
    without its quotes is understood too.
    """
    tags = (tag.strip().removeprefix("W/") for tag in header.split(","))
    return frozenset(tag.strip('"') for tag in tags if tag)


def matches(header: str | None, etag: str) -> bool:
    """Return whether a header of entity tags names ``etag``; an absent one names nothing."""
    if header is None:
        return False
    tags = tags_of(header)
    return "*" in tags or etag.strip('"') in tags


def require_match(stored: StoredDocument, if_match: str | None) -> None:
    """Let a write pass when the document is at a version that ``if_match`` names, or when there is no condition.

    Raises:
        PreconditionFailed: with ``current_version`` and, where the header named one version of the history, ``changes``
            from that version to the current one: an editor rebases on them.
    """
    if if_match is None or matches(if_match, stored.etag):
        return
    extra: dict[str, object] = {"current_version": stored.version}
    base = _version_named(if_match)
    if base is not None and base < stored.version:
        row = ConfigVersion.objects.filter(node=stored.node, version=base).only("document").first()
        if row is not None or base == 0:
            extra["changes"] = diff(row.document if row else {}, stored.document)
    raise PreconditionFailed(
        f"The document has changed: it is at version {stored.version} now.", extra=extra, headers={"ETag": stored.etag}
    )


def _version_named(header: str) -> int | None:
    tags = tags_of(header)
    tag = next(iter(tags)) if len(tags) == 1 else ""
    return int(tag) if tag.isascii() and tag.isdigit() and len(tag) < 19 else None
