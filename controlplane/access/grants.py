"""What grants of credentials come to: which node holds which name, and to which hosts it may be sent. Pure."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final, Protocol
from uuid import UUID

MAX_HOST_LENGTH: Final = 253
_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_PATTERN: Final = re.compile(rf"\*|(?:\*\.)?{_LABEL}(?:\.{_LABEL})*")

#: Tells from a grant's hosts whether the grant is enough.
Enough = Callable[[Sequence[str]], bool]


def host_pattern(text: str) -> str | None:
    """Return a pattern of hosts as it is compared, ``None`` when it is none.

    Patterns are a host (a name, an IPv4 or an IPv6 address without brackets), ``*.domain`` for every host below a
    domain, or ``*`` for every host. Names with other letters are written in their ASCII form (``xn--…``).
    """
    pattern = canonical_host(text.strip())
    good = _is_address(pattern) or (len(pattern) <= MAX_HOST_LENGTH and _PATTERN.fullmatch(pattern))
    return pattern if good else None


def canonical_host(host: str) -> str:
    """Return a host in the one spelling in which hosts are compared: lower case, addresses in their short form."""
    host = host.lower().removeprefix("[").removesuffix("]").removesuffix(".")
    try:
        return ip_address(host).compressed
    except ValueError:
        return host


def host_matches(pattern: str, host: str) -> bool:
    """Return whether a host is one of those that ``pattern`` stands for; both in their canonical spelling."""
    if pattern == "*" or not pattern.startswith("*."):
        return bool(host) and pattern in ("*", host)
    return host.endswith(pattern[1:]) and host != pattern[1:]


def host_covers(pattern: str, other: str) -> bool:
    """Return whether every host that ``other`` stands for is one that ``pattern`` stands for."""
    if other == "*":
        return pattern == "*"
    if other.startswith("*."):
        return pattern == "*" or (pattern.startswith("*.") and other[1:].endswith(pattern[1:]))
    return host_matches(pattern, other)


def any_hosts(_hosts: Sequence[str]) -> bool:
    """Enough for resolving: a grant for no host at all is a grant."""
    return True


def sends_to(host: str) -> Enough:
    """Return what is enough for sending a credential to ``host``."""
    canonical = canonical_host(host)
    return lambda hosts: any(host_matches(pattern, canonical) for pattern in hosts)


def passes_on(pattern: str) -> Enough:
    """Return what is enough for granting a pattern of hosts further."""
    return lambda hosts: any(host_covers(held, pattern) for held in hosts)


class GrantRow(Protocol):
    """What counts of a grant."""

    @property
    def id(self) -> UUID: ...
    @property
    def node_id(self) -> UUID | None: ...
    @property
    def given_from_id(self) -> UUID | None: ...
    @property
    def name(self) -> str: ...
    @property
    def hosts(self) -> Sequence[str]: ...
    @property
    def inherited(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Held:
    """The live grants of one chain of nodes.

    ``lineage`` holds the ids from the root to the node; ``grants`` all live ones of these nodes and of the
    organization. A grant counts at a node only if the one it was given from is above, and holds the name for the same
    host itself: so what is revoked above, or left behind by a move, is gone below at once.
    """

    lineage: tuple[UUID, ...]
    grants: tuple[GrantRow, ...]

    def names(self) -> frozenset[str]:
        """Return the names that the last node of the chain holds."""
        return frozenset(name for name in {grant.name for grant in self.grants} if self.holds(name))

    def holds(self, name: str, enough: Enough = any_hosts) -> bool:
        """Return whether the last node of the chain holds ``name`` by a grant that is ``enough``."""
        return bool(self.lineage) and self.lineage[-1] in self.holders(name, enough)

    def holders(self, name: str, enough: Enough = any_hosts) -> frozenset[UUID]:
        """Return the nodes of the chain that hold ``name`` by a grant that is ``enough`` all the way from the root."""
        able = [grant for grant in self.grants if grant.name == name and enough(grant.hosts)]
        found: set[UUID] = set()
        passed_down = False
        for depth, node_id in enumerate(self.lineage):
            here = [grant for grant in able if _place(grant, self.lineage) == node_id]
            given = [grant for grant in here if grant.given_from_id is None or grant.given_from_id in found]
            if passed_down or given:
                found.add(node_id)
            # A grant from a node to itself adds nothing but that the nodes below hold the name too.
            own = [grant for grant in here if grant.given_from_id == self.lineage[depth] and node_id in found]
            passed_down = passed_down or any(grant.inherited for grant in (*given, *own))
        return frozenset(found)

    def counts(self, grant: GrantRow) -> bool:
        """Return whether a grant on a node of the chain is still good for anything."""
        return grant.given_from_id is None or grant.given_from_id in self.holders(grant.name)


def givers(held: Held, name: str, hosts: Collection[str]) -> list[UUID]:
    """Return the nodes of the chain, the root first, that hold ``name`` for all of ``hosts``."""
    able = [held.holders(name), *(held.holders(name, passes_on(pattern)) for pattern in hosts)]
    return [node_id for node_id in held.lineage if all(node_id in nodes for nodes in able)]


def lost(grants: Iterable[GrantRow], lineages: dict[UUID, tuple[UUID, ...]]) -> list[UUID]:
    """Return the ids of the grants that do not count.

    Args:
        grants: all live ones of an organization, or all of one name.
        lineages: of every node that has one of them, root first.
    """
    listed = tuple(grants)
    return [
        grant.id
        for grant in listed
        if grant.node_id is not None and not Held(lineages[grant.node_id], listed).counts(grant)
    ]


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _place(grant: GrantRow, lineage: tuple[UUID, ...]) -> UUID:
    return lineage[0] if grant.node_id is None else grant.node_id
