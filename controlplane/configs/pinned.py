"""The effective configuration as it was: what a run that pinned its versions goes by, whatever is written meanwhile."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import Q

from controlplane.configs.merge import merge
from controlplane.configs.models import ConfigVersion
from controlplane.configs.pointers import Document
from controlplane.core.errors import NotFound


def config_pinned(chain: Sequence[tuple[UUID, int]]) -> Document:
    """Return the merge of exactly these versions of these nodes' documents.

    Args:
        chain: ``(node id, version)`` root first; version 0 is the empty document. One query.

    Raises:
        NotFound: ``unknown_version``: one of them does not exist.
    """
    wanted = [(node_id, version) for node_id, version in chain if version]
    if not wanted:
        return {}
    condition = reduce(or_, (Q(node_id=node_id, version=version) for node_id, version in wanted))
    found = {row.node_id: row.document for row in ConfigVersion.objects.filter(condition)}
    if len(found) != len(wanted):
        raise NotFound("A pinned version of the configuration is gone.", code="unknown_version")
    empty: Document = {}
    return reduce(merge, (found[node_id] for node_id, _ in wanted), empty)
