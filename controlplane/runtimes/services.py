"""Writes about runtimes: testing an integration's connection, keeping the result of an evaluation."""

import asyncio
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlsplit

from django.db import transaction

from controlplane.audit.services import audit_record
from controlplane.core.actor import Actor
from controlplane.core.permissions import Action
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_require
from controlplane.runtimes.evaluation.results import SuiteResult
from controlplane.runtimes.models import Evaluation
from controlplane.runtimes.selectors import integration_get, integration_probing
from controlplane.runtimes.sources.live.connection import ConnectionResult, connection_test
from controlplane.runtimes.sources.live.endpoint import Integration
from controlplane.runtimes.sources.live.probing import probe


def integration_test(*, actor: Actor, node: Node, name: str) -> ConnectionResult:
    """Ask an integration's server whether it answers, as a run would ask it; takes at most 10 seconds.

    A kind that no run reads is asked by what the catalogue says of it, where a plain GET can tell. What is wrong with
    the server, its address or the credentials is a result, never an error. Nothing is sent where a credential cannot be
    resolved. A disabled integration can be tested. The audit row names the host that was asked (with its port, as it is
    configured), no path and no credential.

    Args:
        actor: who tests; needs ``config.write`` on the node, since the test makes this installation send requests.
        node: whose effective configuration has the integration.
        name: the integration's id.

    Raises:
        NotFound: ``unknown_integration``, or the actor does not see the node.
        PermissionDenied: the actor may not write the node's configuration.
    """
    node_require(actor=actor, action=Action.CONFIG_WRITE, node=node)
    integration = integration_get(actor=actor, node=node, name=name)
    probing = integration_probing(actor=actor, node=node, name=name)
    if isinstance(probing, ConnectionResult):
        result = probing
    else:
        result = _tested(integration) if probing is None else _awaited(probe(probing))
    with transaction.atomic():
        audit_record(
            actor=actor,
            organization_id=node.organization_id,
            action="integration.test",
            object_kind="integration",
            object_id=name,
            node_id=node.pk,
            after={"kind": integration.kind, "host": _host(integration.url), "ok": result.ok, "code": result.code},
        )
    return result


def _host(url: str) -> str:
    """Return host and port of a URL that is fit to be shown, ``""`` of one that comes from a reference."""
    return "" if "${" in url else urlsplit(url).netloc.lower()[:300]


def _tested(integration: Integration) -> ConnectionResult:
    if integration.endpoint is not None:
        return _awaited(connection_test(integration.endpoint))
    code = "credential_unresolved" if integration.credential == "unresolved" else "not_testable"
    return ConnectionResult(False, code, f"This integration {integration.problem}.")


def _awaited(test: Coroutine[Any, Any, ConnectionResult]) -> ConnectionResult:
    # Not asyncio.run(): that would wait for a name lookup that hangs, long after the test has timed out.
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(test)
    finally:
        loop.close()


def evaluation_record(*, result: SuiteResult) -> Evaluation:
    """Keep the result of an evaluation. It belongs to the installation, not to an organization, so nothing is audited.

    Returns:
        The row, whose ``result`` is the result as JSON.
    """
    return Evaluation.objects.create(
        suite=result.suite, runtime=result.runtime, score=result.score, result=result.as_json()
    )
