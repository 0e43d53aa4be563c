"""What ``bench tokens`` measures, in a process with the settings of its database."""

import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import django

django.setup()

from django.db import connection  # noqa: E402 (after the setup, as everything below)
from django.test.utils import CaptureQueriesContext  # noqa: E402

from controlplane.access import tokens  # noqa: E402
from controlplane.access.actors import actor_for_bearer  # noqa: E402
from controlplane.access.models import AccessToken, Membership, User  # noqa: E402
from controlplane.core import clock  # noqa: E402
from controlplane.core.actor import Channel, Role  # noqa: E402
from tests.factories import make_tree  # noqa: E402

TOKENS: Final = 100_000
FEW: Final = 100
ROUNDS: Final = 7
CALLS: Final = 1000
ADDRESS: Final = "192.0.2.1"

_BARE: Final = "SELECT id, digest, pepper_version FROM access_accesstoken WHERE public_id = %s"


def main() -> None:
    few = _make(FEW)
    among_few = statistics.median(_cost(_authenticate, few["team"])[0] for _ in range(ROUNDS))
    texts = _make(TOKENS - FEW)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    ways: dict[str, tuple[Callable[[str], object], Sequence[str]]] = {
        "bare": (_bare, texts["team"]),
        "team": (_authenticate, texts["team"]),
        "personal": (_authenticate, texts["personal"]),
    }
    rounds: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name, (way, some) in ways.items():
            cost = _cost(way, some)
            if number:
                rounds[name].append(cost)
    cpu = {name: statistics.median(cost[0] for cost in costs) for name, costs in rounds.items()}
    wall = {name: statistics.median(cost[1] for cost in costs) for name, costs in rounds.items()}
    figures = {name: {"cpu_us": round(cpu[name] * 1e6), "wall_us": round(wall[name] * 1e6)} for name in ways}
    result = {
        "tokens": AccessToken.objects.count(),
        "indexes": sorted(_indexes(texts["personal"][0])),
        **figures,
        "cpu_ratio_team": _ratio(rounds, "team"),
        "cpu_ratio_personal": _ratio(rounds, "personal"),
        "size_ratio": round(cpu["team"] / among_few, 2),
    }
    sys.stdout.write(json.dumps(result))


def _make(count: int) -> dict[str, list[str]]:
    """Make so many tokens, one in ten personal, and return the texts of some that are to be asked with."""
    tree = make_tree(f"of-{count}")
    user = User.objects.create(organization=tree.organization, username=f"person-of-{count}")
    for node in (tree.payments, tree.platform):
        Membership.objects.create(user=user, node=node, role=Role.RESPONDER.value)
    texts = [tokens.issue("user" if index % 10 == 0 else "team") for index in range(count)]
    now, pepper = clock.now(), tokens.current_pepper()
    rows = [
        AccessToken(
            kind=text.kind, public_id=text.public_id, digest=tokens.token_digest(text, pepper), pepper_version=pepper,
            name="bench", node=tree.payments, user=user if text.kind == "user" else None, scopes=["runs:read"],
            created_by="system:bench", last_used_at=now,
        )
        for text in texts
    ]  # fmt: skip
    AccessToken.objects.bulk_create(rows, 5000)
    chosen = random.Random(5).sample(texts, min(count, 20_000))  # noqa: S311 (which tokens to ask with)
    return {
        "team": [text.plaintext for text in chosen if text.kind == "team"],
        "personal": [text.plaintext for text in chosen if text.kind == "user"],
    }


def _authenticate(plaintext: str) -> object:
    return actor_for_bearer(plaintext, channel=Channel.API, address=ADDRESS)


def _bare(plaintext: str) -> object:
    text = tokens.parse(plaintext)
    assert text is not None
    with connection.cursor() as cursor:
        cursor.execute(_BARE, [text.public_id])
        row = cursor.fetchone()
    assert tokens.verify(text, digest=row[1], pepper_version=row[2])
    return row


def _cost(way: Callable[[str], object], texts: Sequence[str]) -> tuple[float, float]:
    """Return CPU and wall seconds of one call, over as many as wanted, each with another token."""
    some = random.choices(texts, k=CALLS)  # noqa: S311 (as above)
    # A minute must not pass between making and using them: a note of the use would be measured too.
    AccessToken.objects.filter(public_id__in=[text.split("_")[2] for text in some]).update(last_used_at=clock.now())
    cpu, wall = time.process_time(), time.perf_counter()
    for text in some:
        way(text)
    return (time.process_time() - cpu) / CALLS, (time.perf_counter() - wall) / CALLS


def _ratio(rounds: dict[str, list[tuple[float, float]]], name: str) -> float:
    pairs = zip(rounds[name], rounds["bare"], strict=True)
    return round(statistics.median(one[0] / other[0] for one, other in pairs), 2)


def _indexes(plaintext: str) -> set[str]:
    """Return the indexes that the one query of an authentication uses.

    Raises:
        RuntimeError: it is not one query, or reads the tokens one after the other.
    """
    with CaptureQueriesContext(connection) as seen:
        _authenticate(plaintext)
    if len(seen) != 1:
        raise RuntimeError(f"{len(seen)} queries instead of one")
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (FORMAT JSON) {seen.captured_queries[0]['sql']}")
        found = cursor.fetchone()[0]
    plan = json.loads(found) if isinstance(found, str) else found
    names: set[str] = set()
    _walk(plan[0]["Plan"], names)
    return names


def _walk(node: dict[str, Any], names: set[str]) -> None:
    if node.get("Relation Name") == "access_accesstoken":
        if "Index Name" not in node:
            raise RuntimeError(f"the tokens are read by {node['Node Type']}")
        names.add(node["Index Name"])
    for below in node.get("Plans", []):
        _walk(below, names)


if __name__ == "__main__":
    main()
