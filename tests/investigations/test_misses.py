"""Missed answers as cases of an evaluation."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from controlplane.core.actor import Role
from controlplane.core.errors import Conflict, NotFound
from controlplane.investigations.feedback import feedback_give
from controlplane.investigations.misses import miss_case
from controlplane.investigations.starting import Started
from controlplane.runtimes import samples
from controlplane.runtimes.evaluation.running import CaseError
from controlplane.runtimes.evaluation.suites import run_suite
from controlplane.runtimes.sources.snapshot import snapshot_from_folder
from tests.factories import Tree, actor_for_user, api_client, make_user
from tests.web.support import Person, finish, start

SAMPLE = Path(samples.__file__).parent / "checkout_storage"


@pytest.fixture
def ended(tree: Tree) -> Started:
    person = Person.signed_in(make_user(tree.payments))
    return finish(start(person, tree.payments, visibility="team", evidence=snapshot_from_folder(SAMPLE)))


def rated(tree: Tree, ended: Started, verdict: str = "wrong", **fields: Any) -> dict[str, Any]:
    actor = actor_for_user(make_user(tree.payments, Role.RESPONDER))
    feedback_give(actor=actor, thread_id=ended.thread.pk, verdict=verdict, **fields)
    return miss_case(actor=actor, thread_id=ended.thread.pk, run_id=ended.run.pk)


def evaluate(folder: Path, case: dict[str, Any]) -> Any:
    (folder / "case.json").write_bytes(orjson.dumps(case))
    return run_suite("misses", folder, runtime="builtin")


def test_case__own_rating__exported_and_run(tree: Tree, ended: Started, tmp_path: Path) -> None:
    case = rated(tree, ended, miss="reasoning_gap", reason="It was the disk.")
    assert (case["format"], case["verdict"], case["miss"], case["reason"]) == (
        "miss/1", "wrong", "reasoning_gap", "It was the disk.",
    )  # fmt: skip
    assert case["prompt"] == ended.run.prompt
    first = evaluate(tmp_path, case)
    assert first.totals == {"cases_reasoning_gap": 1.0}
    assert first.cases[0].details["calls"] > 0


def test_case__expected_filled_in__decides(tree: Tree, ended: Started, tmp_path: Path) -> None:
    case = rated(tree, ended)
    found = evaluate(tmp_path, case | {"expected": {"category": "no-such", "object": None}})
    assert (found.score, found.cases[0].passed) == (0, False)
    category = found.cases[0].found.split()[0]
    assert evaluate(tmp_path, case | {"expected": {"category": category}}).score == 1
    object_ = found.cases[0].found.removeprefix(f"{category} ")
    repeated = evaluate(tmp_path, case | {"answered": {"category": category, "object": object_}})
    assert list(repeated.cases[0].reasons) == ["it is the answer that was rated wrong"]


def test_case__partial_without_expected__cannot_pass(tree: Tree, ended: Started, tmp_path: Path) -> None:
    assert evaluate(tmp_path, rated(tree, ended, "partial")).score == 0


def test_case__rating_of_somebody_else_or_correct__not_found(tree: Tree, ended: Started) -> None:
    rated(tree, ended)
    other = actor_for_user(make_user(tree.payments))
    with pytest.raises(NotFound):
        miss_case(actor=other, thread_id=ended.thread.pk, run_id=ended.run.pk)
    with pytest.raises(NotFound):
        rated(tree, ended, "correct")


def test_case__live_sources__conflict(tree: Tree) -> None:
    live = finish(start(Person.signed_in(make_user(tree.payments)), tree.payments, visibility="team"))
    with pytest.raises(Conflict) as caught:
        rated(tree, live)
    assert caught.value.code == "no_recorded_evidence"


def test_api__miss__own_alone(tree: Tree, ended: Started) -> None:
    mine, other = make_user(tree.payments), make_user(tree.payments)
    thread = f"/api/v1/threads/{ended.thread.pk}"
    api_client(user=mine).post(f"{thread}/feedback", {"verdict": "wrong"})
    path = f"{thread}/runs/{ended.run.pk}/miss"
    assert api_client(user=mine).get(path).json()["miss"] == "unknown"
    assert api_client(user=other).get(path).status_code == 404


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "holds no case"),
        (b"{", "cannot be read"),
        (b"[]", "not in the form"),
        (b'{"format": "miss/1"}', "Evidence"),
    ],
)
def test_misses__folder_that_cannot_be_read__says_why(tmp_path: Path, content: bytes | None, words: str) -> None:
    if content is not None:
        (tmp_path / "case.json").write_bytes(content)
    with pytest.raises(CaseError, match=words):
        run_suite("misses", tmp_path, runtime="builtin")
