"""Networks that a token may be used from, in CIDR notation (RFC 4632 for IPv4, RFC 4291 section 2.3 for IPv6)."""

import ipaddress
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from controlplane.core.errors import FieldError, InvalidInput

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MOST_NETWORKS: Final = 50
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")


def networks_clean(texts: Sequence[str], *, pointer: str) -> list[str]:
    """Return networks as they are stored: each in its one canonical form, sorted, those inside another left out.

    Raises:
        InvalidInput: ``network`` or ``too_many``, with one entry for each text that is no network. Values are not
            quoted: somebody's slip may have put anything there.
    """
    if len(texts) > MOST_NETWORKS:
        detail = f"There are {len(texts)} networks; at most {MOST_NETWORKS} are accepted."
        raise InvalidInput(detail, code="too_many", errors=[FieldError(pointer, "too_many", detail)])
    found: list[Network] = []
    faults: list[FieldError] = []
    for index, text in enumerate(texts):
        try:
            found.append(_network(text.strip()))
        except ValueError as error:
            faults.append(FieldError(f"{pointer}/{index}", "network", _words(error)))
    if faults:
        raise InvalidInput(faults[0].detail, code="network", errors=faults)
    v4 = ipaddress.collapse_addresses(one for one in found if isinstance(one, ipaddress.IPv4Network))
    v6 = ipaddress.collapse_addresses(one for one in found if isinstance(one, ipaddress.IPv6Network))
    return [str(one) for one in (*v4, *v6)]


def address_allowed(address: str | None, networks: Sequence[str]) -> bool:
    """Return whether a token with these networks may be used from ``address``: from anywhere when there are none.

    An address that is unknown or none is in no network. IPv4 as IPv6 writes it (``::ffff:192.0.2.1``) is IPv4.
    """
    if not networks:
        return True
    try:
        found = ipaddress.ip_address(address or "")
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found.version == network.version and found in network for network in _parsed(tuple(networks)))


def networks_within(networks: Sequence[str], ceiling: Sequence[str]) -> bool:
    """Return whether everything that ``networks`` lets in, ``ceiling`` lets in too. Empty lets in everything."""
    if not ceiling:
        return True
    if not networks:
        return False
    above = _parsed(tuple(ceiling))
    return all(any(_inside(one, other) for other in above) for one in _parsed(tuple(networks)))


def _inside(one: Network, other: Network) -> bool:
    if isinstance(one, ipaddress.IPv4Network):
        return isinstance(other, ipaddress.IPv4Network) and one.subnet_of(other)
    return isinstance(other, ipaddress.IPv6Network) and one.subnet_of(other)


def _network(text: str) -> Network:
    if "%" in text:
        raise ValueError("scoped")
    network = ipaddress.ip_network(text)
    if isinstance(network, ipaddress.IPv6Network) and network.subnet_of(_MAPPED):
        raise ValueError("mapped")
    return network


def _words(error: ValueError) -> str:
    if "host bits" in str(error):
        return "This is an address within a network: the bits behind the prefix must be zero, as in 10.0.0.0/8."
    if str(error) == "mapped":
        return "Write an IPv4 network as IPv4."
    return "This is no network such as 192.0.2.0/24, 2001:db8::/32 or a single address."


@lru_cache(maxsize=1024)
def _parsed(networks: tuple[str, ...]) -> tuple[Network, ...]:
    return tuple(ipaddress.ip_network(network) for network in networks)
