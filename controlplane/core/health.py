"""Liveness, readiness and metrics: what a supervisor, a load balancer and a scraper ask.

Answers name the checks and their outcome, nothing else: reasons go to the log.
"""

import hmac
import ipaddress
from collections.abc import Callable, Mapping

import structlog
from django.conf import settings
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.migrations.executor import MigrationExecutor
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from controlplane.core import metrics as app_metrics

log = structlog.get_logger(__name__)

#: A probe returns quickly, without waiting for the network: true when its part works in this process.
Probe = Callable[[], bool]

_probes: dict[str, Probe] = {}
_warnings: dict[str, Probe] = {}
_migrated: set[str] = set()


def register(name: str, probe: Probe) -> None:
    """Add a check called ``name`` to ``/readyz``; a later probe of the same name replaces the earlier one.

    Args:
        name: the key in the answer, e.g. ``"hub"``.
        probe: returns whether the part works. One that raises counts as failed and is logged.
    """
    _probes[name] = probe


def register_warning(name: str, probe: Probe) -> None:
    """Add a check called ``name`` to ``/readyz`` that somebody must look at, yet that takes no process out of service.

    It may ask the database once. Its outcome is in ``warnings``, and the status is ``degraded`` while it fails.
    """
    _warnings[name] = probe


def unregister(name: str) -> None:
    """Remove the check or warning called ``name``, if any: a part that was stopped on purpose is no failure."""
    _probes.pop(name, None)
    _warnings.pop(name, None)


@require_safe
@never_cache
def livez(_request: HttpRequest) -> HttpResponse:
    """Answer 200 as long as the process serves requests; asks nothing of the database."""
    return JsonResponse({"status": "ok"})


@require_safe
@never_cache
def readyz(_request: HttpRequest) -> HttpResponse:
    """Answer 200 when every check passes, else 503, with the outcome of each.

    The body is ``{"status", "checks": {name: "ok" | "failed"}, "warnings": {name: …}}``. A warning that fails makes the
    status ``degraded`` and the answer 200 all the same: whoever breaks an audit chain must not stop the service by it.
    """
    checks = {"database": _passes("database", _database_answers)}
    checks["migrations"] = checks["database"] and _passes("migrations", _migrations_applied)
    checks |= {name: _passes(name, probe) for name, probe in list(_probes.items())}
    ready = all(checks.values())
    warnings = {name: ready and _passes(name, probe) for name, probe in list(_warnings.items())}
    body = {
        "status": ("ok" if all(warnings.values()) else "degraded") if ready else "unavailable",
        "checks": _outcomes(checks),
        "warnings": _outcomes(warnings) if ready else {},
    }
    return JsonResponse(body, status=200 if ready else 503)


@require_safe
@never_cache
def metrics(request: HttpRequest) -> HttpResponse:
    """Answer the metrics to a client on this machine, or to one that sends ``Authorization: Bearer METRICS_TOKEN``.

    Raises:
        Http404: for everybody else, so that the page cannot be told from one that does not exist.
    """
    if not (_is_local(request) or _has_metrics_token(request)):
        raise Http404
    return HttpResponse(app_metrics.render(), content_type=app_metrics.CONTENT_TYPE)


def _outcomes(checks: Mapping[str, bool]) -> dict[str, str]:
    return {name: "ok" if passed else "failed" for name, passed in checks.items()}


def _passes(name: str, probe: Probe) -> bool:
    try:
        return bool(probe())
    except Exception:  # a probe that raises, in whichever way, is a failed probe
        log.warning("health.probe_failed", check=name, exc_info=True)
        return False


def _database_answers() -> bool:
    with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
        cursor.execute("SELECT 1")
        return cursor.fetchone() is not None


def _migrations_applied() -> bool:
    # Loading every migration from disk takes tens of milliseconds, so a database found complete is not asked again.
    name = str(connections[DEFAULT_DB_ALIAS].settings_dict["NAME"])
    if name not in _migrated:
        executor = MigrationExecutor(connections[DEFAULT_DB_ALIAS])
        if executor.migration_plan(executor.loader.graph.leaf_nodes()):
            return False
        _migrated.add(name)
    return True


def _is_local(request: HttpRequest) -> bool:
    # A proxy on this machine connects from loopback for clients of the whole world; its headers give it away.
    if any(header in request.headers for header in ("X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host")):
        return False
    try:
        address = ipaddress.ip_address(request.META.get("REMOTE_ADDR", ""))
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _has_metrics_token(request: HttpRequest) -> bool:
    expected: str = settings.METRICS_TOKEN
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    if not expected or scheme.lower() != "bearer":
        return False
    return hmac.compare_digest(given.strip().encode(), expected.encode())
