"""The suite ``alerts``: bodies as monitoring tools send them, and what intake must make of each.

A folder with ``expected.jsonl`` and ``payloads/``. Each body goes through the door that a delivery of an unknown
sender goes through, into an organization that is rolled back: read, taken in twice, and what is stored compared field
by field. Nothing here looks at a file's name but to find it.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import orjson
from django.db import DatabaseError, connection, transaction

from controlplane.alerts.intake import TakenIn, parsed, taken_in
from controlplane.alerts.models import Alert
from controlplane.alerts.normalised import time_of
from controlplane.alerts.vendors import VENDORS
from controlplane.core.actor import Actor, ActorKind, Channel, system_actor
from controlplane.core.errors import AppError
from controlplane.core.ids import new_id
from controlplane.investigations.models import Run
from controlplane.orgs.models import NodeKind
from controlplane.orgs.services import node_create, organization_create
from controlplane.runtimes.evaluation.results import CaseResult, SuiteResult
from controlplane.runtimes.evaluation.running import CaseError
from controlplane.runtimes.interface import AgentRuntime
from controlplane.runtimes.loose_json import items, mapping, text

EXPECTED: Final = "expected.jsonl"


def run_alerts(_runtime: AgentRuntime, path: Path) -> SuiteResult:
    """Return how many fields of the bodies below ``path`` intake gets right. No runtime is involved.

    Raises:
        CaseError: there is no ``expected.jsonl``, a body is missing or cannot be read, or the database is not set up.
    """
    expected = _expected(path)
    if Alert._meta.db_table not in _tables():  # noqa: SLF001 (Django's public name for it)
        raise CaseError("The suite alerts needs the database: make setup")
    cases = [_case(path, one) for one in expected]
    fields = sum(case.details["fields"] for case in cases)
    right = sum(case.details["right"] for case in cases)
    return SuiteResult(
        "alerts",
        "intake",
        cases,
        right / fields if fields else 0.0,
        {
            "fields": fields,
            "right_fields": right,
            "whole_payloads": sum(case.passed for case in cases),
            "twice_one_incident": sum(case.details["once"] for case in cases),
        },
    )


def _tables() -> Sequence[str]:
    try:
        return connection.introspection.table_names()
    except DatabaseError:
        return ()


def _expected(path: Path) -> list[Mapping[str, Any]]:
    try:
        lines = (path / EXPECTED).read_bytes().splitlines()
        found = [mapping(orjson.loads(line)) for line in lines if line.strip()]
    except (OSError, orjson.JSONDecodeError) as error:
        raise CaseError(f"{path}/{EXPECTED} cannot be read ({type(error).__name__})") from None
    if not found or not all(text(one.get("file")) for one in found):
        raise CaseError(f"{path}/{EXPECTED} names no payload, or not in every line")
    return found


def _case(path: Path, expected: Mapping[str, Any]) -> CaseResult:
    name = Path(text(expected["file"])).name
    try:
        raw = (path / "payloads" / name).read_bytes()
    except OSError as error:
        raise CaseError(f"payloads/{name} cannot be read ({type(error).__name__})") from None
    began = time.perf_counter()
    with transaction.atomic():
        scored = list(_scored(expected, raw))
        transaction.set_rollback(True)
    seconds = time.perf_counter() - began
    once = next((right for field, right, _, _ in scored if field == "once"), False)
    fields = [one for one in scored if one[0] != "once"]
    wrong = [f"{field} is {found}, not {wanted}" for field, right, found, wanted in fields if not right]
    if not once:
        wrong.append("the same body twice is not one incident")
    return CaseResult(
        Path(name).stem,
        passed=not wrong,
        seconds=seconds,
        expected=" | ".join(text(one) for one in items(expected.get("name_any"))),
        found=next((found for field, _, found, _ in fields if field == "name"), "nothing"),
        reasons=wrong,
        details={"fields": len(fields), "right": sum(right for _, right, _, _ in fields), "once": int(once)},
    )


def _scored(expected: Mapping[str, Any], raw: bytes) -> Iterator[tuple[str, bool, str, str]]:
    """Yield the scored fields: name, whether it is right, what was found, what is expected."""
    alerts, kept, once, problem = _stored(raw)
    first = alerts[0] if alerts else None
    names = [text(one) for one in items(expected.get("name_any"))]
    found = first.name if first else problem
    yield "name", found in names, found, " or ".join(names)
    for field in ("severity", "status"):
        if (wanted := expected.get(field)) is not None:
            value = getattr(first, field) if first else problem
            yield field, value == wanted, value, text(wanted)
    yield "alerts", len(alerts) == expected.get("alerts"), str(len(alerts)), text(expected.get("alerts"))
    if (began := expected.get("starts_at")) is not None:
        value = time_of(first.starts_at.isoformat()) if first and first.starts_at else "none"
        yield "starts_at", value == time_of(began), value, text(began)
    about = (first.service, first.host, first.workload) if first else ()
    objects = [text(one) for one in items(expected.get("object_any"))]
    yield "object", any(one in about for one in objects), ", ".join(filter(None, about)), " or ".join(objects)
    missing = [text(one) for one in items(expected.get("must_keep")) if not any(text(one) in part for part in kept)]
    yield "kept", not missing, f"without {', '.join(missing)}" if missing else "all", "all"
    yield "once", once, "", ""


def _stored(raw: bytes) -> tuple[list[Alert], list[str], bool, str]:
    """Take a body in twice; return its alerts, all texts stored of it, whether it is one incident, or else why not."""
    actor = _team()
    try:
        taken = [_deliver(actor, raw) for _ in range(2)]
    except AppError as error:
        return [], [], False, f"refused ({error.code})"
    groups = {one.group.pk for delivery in taken for one in delivery.ingested}
    alerts = list(Alert.objects.filter(group__in=groups).order_by("first_at", "id"))
    runs = list(Run.objects.filter(thread__alert_groups__in=groups))
    texts = [
        *(part for run in runs for part in _texts(run.alert)),
        *(part for one in alerts for part in _texts(one.details)),
    ]
    return alerts, texts, len(groups) == len(runs) == 1, ""


def _deliver(actor: Actor, raw: bytes) -> TakenIn:
    return taken_in(actor, VENDORS["generic"].read(parsed(raw), None))


def _team() -> Actor:
    """Return a sender for a team of an organization that is made for this and rolled back after it."""
    installation = Actor(ActorKind.SYSTEM, "system:evaluation", "evaluation", channel=Channel.CLI)
    slug = f"evaluation-{new_id().hex[-12:]}"
    organization = organization_create(actor=installation, slug=slug, name="Evaluation")
    root = organization.nodes.get(parent__isnull=True)
    system = system_actor(name="evaluation", organization_id=organization.pk, root_id=root.pk)
    team = node_create(
        actor=system, organization=organization, parent=root, slug="team", name="Team", kind=NodeKind.TEAM
    )
    return Actor(
        kind=ActorKind.SYSTEM,
        principal="system:evaluation",
        label="evaluation",
        organization_id=organization.pk,
        scopes=frozenset({"alerts:ingest"}),
        token_node_id=team.pk,
        channel=Channel.ALERT,
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
