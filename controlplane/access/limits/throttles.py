"""The limits of REST views."""

from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle
from typing_extensions import override

from controlplane.access.limits.guard import limit_actor
from controlplane.core.actor import Actor


class ActorThrottle(BaseThrottle):
    """Counts every call of a caller, and once more the expensive ones.

    A view that is expensive says so by ``rate_rule``: the name of a rule, or a method that takes the request and
    returns one, or ``None``.
    """

    @override
    def allow_request(self, request: Request, view: Any) -> bool:
        """Return true, or raise our own error: it carries the headers, which REST framework's would lose."""
        actor = request.auth
        if isinstance(actor, Actor):
            limit_actor("requests", actor)
            declared = getattr(view, "rate_rule", None)
            rule = declared(request) if callable(declared) else declared
            if rule is not None:
                limit_actor(rule, actor)
        return True
