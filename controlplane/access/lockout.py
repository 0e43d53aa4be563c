"""Lock-out after wrong passwords: what django-axes is told, and how an operator lifts a lock.

A lock holds for one username *and* one address. The username is the one that was typed, whether it exists or not, so a
lock says nothing about accounts; it is stored hashed, since people type passwords into the wrong field.
"""

import hashlib
import hmac
import ipaddress
from collections.abc import Mapping
from datetime import timedelta
from math import ceil
from typing import Any, Final

from axes.helpers import get_client_username
from axes.models import AccessAttempt
from axes.utils import reset
from django.conf import settings
from django.http import HttpRequest

from controlplane.core import clock

#: What axes calls the attribute it sets on a request that it has refused.
_LOCKED: Final = "axes_locked_out"


def address_of(request: HttpRequest) -> str | None:
    """Return the address a request comes from, of IPv6 its /64: one customer has all of it."""
    try:
        parsed = ipaddress.ip_address(request.META.get("REMOTE_ADDR") or "")
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped is None:
        return str(ipaddress.ip_network((int(parsed), 64), strict=False).network_address)
    return str(getattr(parsed, "ipv4_mapped", None) or parsed)


def name_of(request: HttpRequest | None, credentials: Mapping[str, Any] | None = None) -> str:
    """Return the name under which attempts on a username are counted."""
    found = credentials or {}
    typed = str(found.get("username") or (request.POST.get("username") if request is not None else "") or "")
    return hashed_name(typed)


def hashed_name(username: str) -> str:
    """Return the stored form of a username."""
    text = username.strip().encode("utf-8", "surrogatepass")
    return hmac.new(settings.SECRET_KEY.encode(), b"lockout:" + text, hashlib.sha256).hexdigest()


def is_locked(request: HttpRequest) -> bool:
    """Return whether ``authenticate()`` has just refused this request for its address's many failures."""
    return bool(getattr(request, _LOCKED, False))


def lock_rest_s(request: HttpRequest) -> int:
    """Return after how many seconds the lock that this request met ends."""
    last = (
        AccessAttempt.objects.filter(username=get_client_username(request), ip_address=address_of(request))
        .order_by("-attempt_time")
        .values_list("attempt_time", flat=True)
        .first()
    )
    if last is None:
        return 1
    rest: timedelta = last + timedelta(seconds=settings.SIGN_IN_LOCK_SECONDS) - clock.now()
    return max(1, ceil(rest.total_seconds()))


def locks_lift(username: str) -> int:
    """Forget every failed attempt on ``username``, from whatever address; return how many records that were."""
    lifted: int = reset(username=hashed_name(username))
    return lifted
