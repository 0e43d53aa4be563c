"""Which addresses may be fetched."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from controlplane.core.outbound.errors import OutboundError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Addresses that hand out an instance's credentials although they are no link-local ones. Sources: the providers' pages
#: on instance metadata (Alibaba Cloud, AWS over IPv6, Oracle Cloud, Azure's wire server, Google over IPv6).
METADATA: Final = tuple(
    ipaddress.ip_address(text)
    for text in ("100.100.100.200", "fd00:ec2::254", "192.0.0.192", "168.63.129.16", "fd20:ce::254")
)
#: Prefixes in which an IPv4 address hides in an IPv6 one: NAT64 (RFC 6052) and 6to4 (RFC 3056).
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")
#: Special although Python's tables say nothing of them: relays of 6to4 (RFC 7526), documentation (RFC 9637).
_SPECIAL: Final = (ipaddress.ip_network("192.88.99.0/24"), ipaddress.ip_network("3fff::/20"))
_SHARED: Final = ipaddress.IPv4Network("100.64.0.0/10")  # RFC 6598, neither private nor global to Python


@dataclass(frozen=True, slots=True)
class OutboundPolicy:
    """Public addresses are open; private ones only inside ``private_allow``; special ones never.

    Loopback counts as private: a monitoring server on the same machine is named by the operator like any other.
    """

    private_allow: tuple[Network, ...] = ()

    def check(self, address: Address, host: str) -> None:
        """Accept the address that ``host`` resolved to.

        Raises:
            OutboundError: ``address_denied`` or ``address_private``.
        """
        real = _unwrapped(address)
        if real in METADATA or real.is_link_local or real.is_multicast or real.is_unspecified or _is_reserved(real):
            raise OutboundError("address_denied", host)
        if _is_private(real) and not any(real in network for network in self.private_allow):
            raise OutboundError("address_private", host)


def policy_from_settings() -> OutboundPolicy:
    """Return the installation's policy, from ``OUTBOUND_PRIVATE_ALLOW``."""
    return OutboundPolicy(private_allow=parse_networks(settings.OUTBOUND_PRIVATE_ALLOW))


def parse_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    """Return networks in CIDR notation; a bare address is a network of one.

    Raises:
        ValueError: naming the text that is none.
    """
    return tuple(ipaddress.ip_network(text, strict=False) for text in texts)


def _unwrapped(address: Address) -> Address:
    """Return the IPv4 address inside a mapped, 6to4 or NAT64 one, so that no spelling of an address slips by."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def _is_private(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and address.is_site_local:  # fec0::/10, deprecated by RFC 3879
        return True
    return address.is_private or address.is_loopback or (address.version == 4 and address in _SHARED)


def _is_reserved(address: Address) -> bool:
    return (address.is_reserved and not address.is_loopback) or any(address in network for network in _SPECIAL)
