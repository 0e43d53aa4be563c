"""The integrations of the catalogue, by kind."""

from collections.abc import Mapping
from typing import Final

from controlplane.configs.catalogue.definitions import IntegrationDefinition
from controlplane.configs.catalogue.observability import OBSERVABILITY
from controlplane.configs.catalogue.platforms import PLATFORMS

INTEGRATIONS: Final[Mapping[str, IntegrationDefinition]] = {one.kind: one for one in (*OBSERVABILITY, *PLATFORMS)}


def integration_definition(kind: str) -> IntegrationDefinition | None:
    """Return the definition of a kind, ``None`` for one that the catalogue does not know."""
    return INTEGRATIONS.get(kind)
