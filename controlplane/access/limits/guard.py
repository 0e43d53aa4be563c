"""Limits at the edge: what views, streams and hot routes call before anything costs anything."""

import hashlib
import ipaddress
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Final

import structlog

from controlplane.access import metrics
from controlplane.access.actors import actor_for_bearer
from controlplane.access.limits.limiter import Verdict, limiter
from controlplane.core.actor import Actor, ActorKind, Channel
from controlplane.core.errors import NotAuthenticated, TooManyRequests

log = structlog.get_logger(__name__)

MOST_KNOWN: Final = 8192


def limit_actor(rule: str, actor: Actor) -> None:
    """Count one call of ``actor`` under ``rule``; the installation's own processes are not counted.

    Raises:
        TooManyRequests: ``rate_limited``, with ``Retry-After``.
    """
    if actor.kind is not ActorKind.SYSTEM:
        require(limiter.spend(rule, actor_subject(actor)))


def limit_address(rule: str, address: str | None, *, account: object = "") -> None:
    """Count one attempt from ``address`` under ``rule``, for each ``account`` apart.

    Raises:
        TooManyRequests: as above.
    """
    require(limiter.spend(rule, f"{address_subject(address)} {account}".rstrip()))


def limit_account(rule: str, account: object) -> None:
    """Count one attempt on ``account``, from wherever.

    Raises:
        TooManyRequests: as above.
    """
    require(limiter.spend(rule, f"account:{account}"))


def require(verdict: Verdict) -> None:
    """Let an allowed request pass.

    Raises:
        TooManyRequests: ``rate_limited``; headers after RFC 9110, section 10.2.3 (``Retry-After``) and
            draft-ietf-httpapi-ratelimit-headers-10 (``RateLimit``, ``RateLimit-Policy``).
    """
    if verdict.allowed or verdict.rule is None:
        return
    rule, wait_s = verdict.rule, verdict.retry_after_s
    metrics.rate_limited_total.labels(rule.name).inc()
    log.warning("limits.refused", rule=rule.name)
    raise TooManyRequests(
        f"Too many {rule.what}: {rule.rate} are allowed. Try again in {wait_s} s.",
        code="rate_limited",
        extra={"rule": rule.name, "retry_after_s": wait_s},
        headers={
            "Retry-After": str(wait_s),
            "RateLimit-Policy": f'"{rule.name}";q={rule.permits};w={rule.period_s}',
            "RateLimit": f'"{rule.name}";r=0;t={wait_s}',
        },
    )


def bearer_actor(plaintext: str, *, channel: Channel, address: str | None = None) -> Actor:
    """Return the actor of a token as :func:`actor_for_bearer` does, and count the refused ones by address.

    An address that has presented too many bad tokens is refused before anything is looked up. Tokens that were good in
    this process before stay good meanwhile: one broken client behind a shared address must not stop the others.

    Raises:
        NotAuthenticated: as :func:`actor_for_bearer`.
        TooManyRequests: ``rate_limited``.
    """
    subject = address_subject(address)
    known = _Known.name_of(plaintext)
    verdict = limiter.is_used_up("failed_tokens", subject)
    if not verdict.allowed and known not in _known:
        require(verdict)
    try:
        actor = actor_for_bearer(plaintext, channel=channel, address=address)
    except NotAuthenticated:
        _known.forget(known)
        require(limiter.spend("failed_tokens", subject))
        raise
    _known.add(known)
    return actor


@contextmanager
def guesses_limited(address: str | None, target: str) -> Iterator[None]:
    """Count the refused tries within by address and target, and refuse what comes after too many of them.

    By target, since vendors send for all their customers from the same addresses.

    Raises:
        TooManyRequests: ``rate_limited``.
    """
    subject = f"{address_subject(address)} {target}"
    require(limiter.is_used_up("failed_tokens", subject))
    try:
        yield
    except NotAuthenticated:
        require(limiter.spend("failed_tokens", subject))
        raise


def actor_subject(actor: Actor) -> str:
    """Return by what an actor's calls are counted: its token, else the person or process."""
    return actor.principal if actor.credential_id is None else token_subject(actor.credential_id)


def token_subject(public_id: str) -> str:
    """Return by what the calls of a token are counted."""
    return f"token:{public_id}"


@lru_cache(maxsize=4096)
def address_subject(address: str | None) -> str:
    """Return by what attempts from an address are counted: IPv6 by its /64, which is what one customer gets."""
    try:
        parsed = ipaddress.ip_address(address or "")
    except ValueError:
        return "address:unknown"
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return f"address:{parsed.ipv4_mapped}"
        return f"address:{ipaddress.ip_network((int(parsed), 64), strict=False)}"
    return f"address:{parsed}"


class _Known:
    """Tokens that were good lately, by a hash under a key of this process alone."""

    _key: Final = secrets.token_bytes(32)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: dict[bytes, None] = {}

    @classmethod
    def name_of(cls, plaintext: str) -> bytes:
        return hashlib.blake2b(plaintext.encode("utf-8", "surrogatepass"), key=cls._key, digest_size=16).digest()

    def __contains__(self, name: bytes) -> bool:
        return name in self._names

    def add(self, name: bytes) -> None:
        if name in self._names:
            return
        with self._lock:
            self._names[name] = None
            if len(self._names) > MOST_KNOWN:
                del self._names[next(iter(self._names))]

    def forget(self, name: bytes) -> None:
        with self._lock:
            self._names.pop(name, None)


_known: Final = _Known()
