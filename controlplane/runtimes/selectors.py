"""Reads about runtimes: which integrations a node has, how the runtimes did when they were measured."""

from collections.abc import Mapping, Sequence

from django.db.models import OuterRef, Subquery

from controlplane.configs.catalogue.integrations import integration_definition
from controlplane.configs.credentials import credentials_of
from controlplane.configs.pointers import get
from controlplane.configs.selectors import config_effective_for
from controlplane.core.actor import Actor
from controlplane.core.errors import NotFound, PermissionDenied
from controlplane.orgs.models import Node
from controlplane.runtimes.models import Evaluation
from controlplane.runtimes.sources.live.connection import ConnectionResult
from controlplane.runtimes.sources.live.endpoint import Integration, integrations_in
from controlplane.runtimes.sources.live.probing import Probing, prepared


def integrations_list(*, actor: Actor, node: Node) -> Sequence[Integration]:
    """Return the integrations of the node's effective configuration, by id.

    Raises:
        NotFound, PermissionDenied: the actor may not read the node's configuration.
    """
    document = config_effective_for(actor=actor, node_id=node.pk).document
    return integrations_in(document, credentials_of(node.pk).resolve)


def integration_get(*, actor: Actor, node: Node, name: str) -> Integration:
    """Return one integration by its id; see :func:`integrations_list`.

    Raises:
        NotFound: ``unknown_integration``.
    """
    found = next((one for one in integrations_list(actor=actor, node=node) if one.name == name), None)
    if found is None:
        raise NotFound("The node's configuration has no such integration.", code="unknown_integration")
    return found


def integration_probing(*, actor: Actor, node: Node, name: str) -> Probing | ConnectionResult | None:
    """Return the connection test that the catalogue knows for an integration, or why there can be none.

    ``None`` where the integration is of a kind that runs read, which its source tests, or that the catalogue does not
    know. Errors as :func:`integrations_list`.
    """
    entry = get(config_effective_for(actor=actor, node_id=node.pk).document, ("integrations", name))
    kind = entry.get("kind") if isinstance(entry, Mapping) else None
    definition = integration_definition(kind) if isinstance(kind, str) else None
    if definition is None or definition.read_by_runs:
        return None
    return prepared(name, entry, definition, credentials_of(node.pk).resolve)


def evaluations_latest(actor: Actor) -> Sequence[Evaluation]:
    """Return the newest result of each suite and runtime, by suite. One query.

    Results tell nothing about an organization: everybody who is signed in may read them.

    Raises:
        PermissionDenied: nobody is signed in.
    """
    if not actor.is_person:
        raise PermissionDenied("Sign in to see how the runtimes were measured.")
    same = Evaluation.objects.filter(suite=OuterRef("suite"), runtime=OuterRef("runtime"))
    newest = same.order_by("-created_at", "-id").values("pk")[:1]
    return list(Evaluation.objects.filter(pk=Subquery(newest)).order_by("suite", "runtime"))
