"""Whole cases under other names and at other times: the verdict stays the same.

What is built here and the shipped sample always run; ``OPENSRE_EVALUATION_DATA`` names a folder whose cases (folders
with ``evidence`` and ``alert.json``, however deep) run too. Names are replaced wherever they stand in a text of alert,
scenario and evidence.
"""

import asyncio
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from controlplane.runtimes import samples
from controlplane.runtimes.builtin.analysis.facts import facts_from
from controlplane.runtimes.loose_json import items, mapping, moment
from controlplane.runtimes.report import Report
from controlplane.runtimes.sources import snapshot_from_folder
from tests.runtimes.test_builtin_metamorphic import CASES as SMALL_CASES
from tests.support.evidence import Ran, run_turn
from tests.support.recordings import Service, alarm, shop_snapshot

Snapshot = Mapping[str, Any]

_SHOP = [Service("front", 0.3, 0.8), Service("cart", 0.1, 0.6), Service("search"), Service("store", 0.05, 0.55)]
_FAILING = [Service("front", failing_now=0.1), Service("cart", failing_now=0.1), Service("store", failing_now=0.1)]
_CALLS = [("front", "cart"), ("front", "search"), ("cart", "store"), ("search", "store")]
_EPOCH = range(1_000_000_000, 4_000_000_000)
_ISO = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_BY = timedelta(days=37, hours=5, seconds=11)


def _recorded() -> Iterator[tuple[str, Callable[[], Snapshot]]]:
    root = os.environ.get("OPENSRE_EVALUATION_DATA", "")
    folders = sorted(found.parent for found in Path(root).rglob("evidence")) if root else []
    for folder in folders:
        if (folder / "alert.json").is_file():
            yield folder.relative_to(root).as_posix(), lambda folder=folder: snapshot_from_folder(folder)  # type: ignore[misc]  # the default binds


BUILT: dict[str, Callable[[], Snapshot]] = {
    "sample": lambda: snapshot_from_folder(Path(samples.__file__).parent / "checkout_storage"),
    "database-storage": lambda: SMALL_CASES["storage"],
    "cluster-crash": lambda: SMALL_CASES["crash"],
    "tables-latency": lambda: shop_snapshot(_SHOP, _CALLS, alarm("front")),
    "tables-failures": lambda: shop_snapshot(_FAILING, [("front", "cart"), ("cart", "store")], alarm("front", "error")),
    "tables-quiet": lambda: shop_snapshot([Service("front"), Service("cart")], [("front", "cart")], alarm("front")),
}
RECORDED = dict(_recorded())
CASES = BUILT | RECORDED


@cache
def plain(name: str) -> tuple[Snapshot, Ran]:
    """Return a case and what the runtime says of it."""
    taken = CASES[name]()
    return taken, asyncio.run(run_turn(taken))


def objects_of(ran: Ran) -> list[str]:
    """Return the names found in the facts that stand for things somebody has named, longest first."""
    facts = facts_from(ran.observations.values())
    kinds = {name for state in facts.sources for name in (state.object, state.source)}
    parts = {text for pod in facts.of_type("pod") for text in (pod.facts.get("owner"), pod.facts.get("node"))}
    known = {*facts.objects(), *(str(part) for part in parts if part)} - kinds
    return sorted((name for name in known if len(name) > 2), key=lambda name: (-len(name), name))


def new_names(ran: Ran, words: Sequence[str] = ("zq",)) -> dict[str, str]:
    """Return another name for each object: alike where names are alike (a pod of a deployment, a replica)."""
    made: dict[str, str] = {}
    for number, name in enumerate(sorted(objects_of(ran), key=lambda name: (len(name), name))):
        stem = max((known for known in made if name.startswith(f"{known}-")), key=len, default=None)
        made[name] = f"{made[stem]}{name[len(stem) :]}" if stem else f"{words[number % len(words)]}{number}x"
    return made


def replaced(taken: Snapshot, names: Mapping[str, str]) -> dict[str, Any]:
    """Return a case with each name replaced where it stands as a whole name, keys of objects included."""
    change = renaming(names)
    changed = _texts({key: taken.get(key) for key in ("alert", "scenario")}, change)
    # The names of the sources and of their members are the vendor's, so the content alone is changed.
    sources = {name: _texts(value, change) for name, value in taken["sources"].items()}
    return {**taken, **changed, "sources": sources}


def renaming(names: Mapping[str, str]) -> Callable[[str], str]:
    """Return what replaces the names in a text, the longest first and only where they stand as whole words."""
    longest = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    pattern = re.compile(rf"(?<![A-Za-z0-9_])(?:{longest})(?![A-Za-z0-9_])")
    return lambda text: pattern.sub(lambda match: names[match[0]], text)


def _texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        return {key: _texts(item, change) for key, item in value.items()}
    return [_texts(item, change) for item in items(value)] if isinstance(value, list | tuple) else value


def moved(value: Any, by: timedelta) -> Any:
    """Return JSON with every time moved: ISO 8601 within texts, and Unix seconds."""
    if isinstance(value, str):
        return _ISO.sub(lambda match: _later(match[0], by), value)
    if isinstance(value, Mapping):
        return {key: moved(item, by) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [moved(item, by) for item in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and int(value) in _EPOCH:
        return value + by.total_seconds()
    return value


def _later(text: str, by: timedelta) -> str:
    at = moment(text)
    return text if at is None else (at + by).isoformat().replace("+00:00", "Z")


def verdict(report: Report, change: Callable[[str], str] = str) -> list[tuple[str, str, float]]:
    """Return category, object and confidence of each hypothesis; objects as they are called after renaming."""
    return [(one.category.value, change(one.object), one.confidence) for one in report.hypotheses]


#: Names that say what may be wrong: they must not be taken for evidence.
_MISLEADING: Final = ("oom-", "cpu-error-", "disk-full-", "timeout-", "failover-", "latency-")


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("words", [("zq-",), _MISLEADING], ids=["plain", "misleading"])
def test_verdict__every_object_renamed__same_category_object_and_confidence(name: str, words: Sequence[str]) -> None:
    taken, before = plain(name)
    names = new_names(before, words)
    changed = replaced(taken, names)
    assert not [old for old in names if f'"{old}"' in json.dumps(changed["sources"])], "a name is left"
    after = asyncio.run(run_turn(changed))
    assert before.report.root_cause is not None
    assert verdict(after.report) == verdict(before.report, renaming(names))


@pytest.mark.parametrize("name", CASES)
def test_verdict__moved_in_time__same_category_object_and_confidence(name: str) -> None:
    taken, before = plain(name)
    changed = moved(taken, _BY)
    assert changed["sources"] != taken["sources"], "a time was moved"
    after = asyncio.run(run_turn(changed))
    assert verdict(after.report) == verdict(before.report)
    assert [entry.at - _BY for entry in after.report.timeline] == [entry.at for entry in before.report.timeline]


def test_new_names__parts_of_a_thing__stay_parts_of_it() -> None:
    _, ran = plain("cluster-crash")
    names = new_names(ran)
    assert len(set(names.values())) == len(names)
    assert not set(names) & set(names.values())
    assert mapping(names)  # something is renamed at all
    for name, new in names.items():
        stem = next((known for known in names if known != name and name.startswith(f"{known}-")), None)
        assert stem is None or new.startswith(names[stem])


@pytest.mark.skipif(not os.environ.get("OPENSRE_EVALUATION_DATA"), reason="OPENSRE_EVALUATION_DATA names no folder")
def test_recorded_cases__folder_given__has_some() -> None:
    assert RECORDED
