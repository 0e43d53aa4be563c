"""How runtimes are measured: the scoring rules of each suite, and the command that runs them."""

import io
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st

from controlplane.runtimes.evaluation import CaseResult
from controlplane.runtimes.evaluation.petshop import run_petshop
from controlplane.runtimes.evaluation.running import CaseError
from controlplane.runtimes.evaluation.tracer import MOST_CHARS, report_text, run_tracer, said
from controlplane.runtimes.events import EventType, Result
from controlplane.runtimes.interface import RuntimeEvent, TurnContext
from controlplane.runtimes.models import Evaluation
from controlplane.runtimes.report import Category, Claim, Hypothesis, Report, ReportStatus, Severity
from tests.support.evidence import alert_on, cloudwatch, flat, metric, rds_events, snapshot, write_folder
from tests.support.recordings import Service, alarm, write_shop


def cause(category: str = "resource_exhaustion", object_: str = "db-1", confidence: float = 0.9) -> Hypothesis:
    return Hypothesis(
        category=Category(category), object=object_, mechanism="The volume has no free space.", confidence=confidence
    )


def report(*hypotheses: Hypothesis, claims: Sequence[str] = (), **fields: Any) -> Report:
    values: dict[str, Any] = {
        "title": "db-1 is full",
        "status": ReportStatus.ONGOING,
        "severity": Severity.HIGH,
        "summary": "Storage ran out.",
        "causal_chain": ("WAL is kept.", "The disk fills."),
        "claims": tuple(Claim(text=text, kind="inference") for text in claims),
    }
    return Report(**(values | fields), hypotheses=hypotheses, root_cause=hypotheses[0] if hypotheses else None)


@dataclass
class Says:
    """A runtime that calls some tools and then says what it is told to; a mapping tells by the alert's metric."""

    says: Report | Mapping[str, Report] | None
    tools: Sequence[str] = ("query_metrics",)
    name: ClassVar[str] = "says"
    turns: list[TurnContext] = field(default_factory=list)

    async def run(self, turn: TurnContext) -> AsyncIterator[RuntimeEvent]:
        self.turns.append(turn)
        for tool in self.tools:
            await turn.toolbox.finish(turn.toolbox.start(tool, {}))
        said_ = self.says.get((turn.alert or {}).get("metric", "")) if isinstance(self.says, Mapping) else self.says
        if said_ is not None:
            result = Result(text=said_.title, success=True, subtype="success", report=said_)
            yield RuntimeEvent(EventType.RESULT, result)


ANSWER: dict[str, Any] = {
    "root_cause_category": "resource_exhaustion",
    "required_keywords": ["storage", "free space"],
    "forbidden_categories": ["healthy"],
    "forbidden_keywords": ["cpu saturation"],
    "required_evidence_sources": ["metrics"],
}


def tracer_case(root: Path, name: str = "case-1", **answer: Any) -> Path:
    sources = {
        "metrics": cloudwatch(metric("CPUUtilization", flat(10), of="db-1")),
        "events": rds_events((1, "Backup finished", ["backup"])),
    }
    folder = write_folder(root / name, snapshot(sources, alert=alert_on("db-1", "Storage is low.")))
    (folder / "answer.yml").write_text(yaml.safe_dump(ANSWER | answer))
    return root


def scored(root: Path, says: Report | None, **more: Any) -> CaseResult:
    (case,) = run_tracer(Says(says, **more), root).cases
    return case


def test_tracer__all_conditions_hold__passes(tmp_path: Path) -> None:
    case = scored(tracer_case(tmp_path), report(cause()))
    assert (case.id, case.passed, list(case.reasons)) == ("case-1", True, [])
    assert (case.expected, case.found) == ("resource_exhaustion", "resource_exhaustion")
    assert case.seconds > 0
    assert case.details["calls"] == 1


@pytest.mark.parametrize(
    ("says", "tools", "reason"),
    [
        (report(), ("query_metrics",), "no root cause is stated"),
        (None, ("query_metrics",), "the run ended without a report"),
        (report(cause("infrastructure")), ("query_metrics",), "the category is infrastructure, not resource_exh"),
        (
            report(cause(), summary="It is full.", title="db-1"),
            ("query_metrics",),
            "not said: storage",
        ),
        (
            report(cause(), claims=["It is CPU\n  Saturation."]),
            ("query_metrics",),
            "said although forbidden: cpu saturation",
        ),
        (report(cause(), claims=["x" * 3_000, "x" * 3_000]), ("query_metrics",), "more than 6,000"),
        (report(cause()), ("query_events",), "not read: metrics"),
        (report(cause()), (), "not read: metrics"),
    ],
)  # fmt: skip
def test_tracer__one_condition_broken__fails_for_that_reason_alone(
    tmp_path: Path, says: Report | None, tools: Sequence[str], reason: str
) -> None:
    case = scored(tracer_case(tmp_path), says, tools=tools)
    assert not case.passed
    assert len(case.reasons) == 1
    assert reason in case.reasons[0]


def test_tracer__forbidden_category__fails_even_if_it_is_the_expected_one(tmp_path: Path) -> None:
    case = scored(tracer_case(tmp_path, forbidden_categories=["resource_exhaustion"]), report(cause()))
    assert list(case.reasons) == ["the category resource_exhaustion is forbidden"]


def test_tracer__text__is_at_most_6000_characters(tmp_path: Path) -> None:
    filled = ["y" * 3_000]
    room = MOST_CHARS - len(report_text(report(cause(), claims=[*filled, ""])))
    tracer_case(tmp_path)
    assert scored(tmp_path, report(cause(), claims=[*filled, "x" * room])).passed
    longer = scored(tmp_path, report(cause(), claims=[*filled, "x" * (room + 1)]))
    assert list(longer.reasons) == ["the text has 6,001 characters, more than 6,000"]
    assert longer.details["characters"] == 6_001


def test_report_text__root_cause_claims_and_chain__are_in_it_and_nothing_else(tmp_path: Path) -> None:
    full = report(
        cause(),
        cause("infrastructure", "other"),
        claims=["A claim."],
        lessons=("A lesson.",),
        actions=({"priority": "immediate", "action": "An action."},),
        ruled_out=({"hypothesis": "A hypothesis.", "reason": "A reason."},),
        not_checked=({"what": "A gap.", "why": "No data."},),
    )
    content = report_text(full)
    for part in ("db-1 is full", "Storage ran out.", "no free space", "A claim.", "WAL is kept.", "The disk fills."):
        assert part in content
    for part in ("other", "lesson", "action", "hypothesis", "gap"):
        assert part not in content


@pytest.mark.parametrize(
    ("word", "content", "expected"),
    [
        ("free space", "No FREE\n\t space", True),
        ("space free", "free (space)", True),
        ("write-heavy workload", "a workload heavy on write", True),
        ("wal", "withdrawal", True),
        ("lag wal", "withdrawal lag", False),
        ("max_connections", "max connections", True),
        ("connections", "connection", False),
        ("OOMKilled", "oomkilled", True),
    ],
)
def test_said__substring_or_all_tokens__in_lower_case_and_folded(word: str, content: str, expected: bool) -> None:
    assert said(word, content) is expected


@given(words=st.lists(st.from_regex(r"[a-z0-9]{1,6}", fullmatch=True), min_size=1, max_size=6), data=st.data())
def test_said__any_order_any_case__of_the_text_does_not_matter(words: list[str], data: st.DataObject) -> None:
    mixed = " - ".join(data.draw(st.permutations(words))).upper()
    assert said(" ".join(words), mixed)
    assert not said(f"{' '.join(words)} zzzzzzz", mixed)


def test_tracer__forbidden_words__only_as_a_substring_not_by_tokens(tmp_path: Path) -> None:
    root = tracer_case(tmp_path, forbidden_keywords=["saturation of cpu"])
    assert scored(root, report(cause(), claims=["No cpu saturation of any kind."])).passed


def test_tracer__totals__count_categories_and_healthy_systems_blamed(tmp_path: Path) -> None:
    for name, category in (("a", "healthy"), ("b", "healthy"), ("c", "resource_exhaustion"), ("d", "unknown")):
        tracer_case(tmp_path, name, root_cause_category=category, forbidden_categories=[])
    result = run_tracer(Says(report(cause())), tmp_path)
    assert result.score == 0.25
    assert result.totals == {"right_category": 0.25, "healthy_blamed": 2}
    assert [case.id for case in result.cases if case.passed] == ["c"]


def test_tracer__ruling_out_words__are_told_beside_passing(tmp_path: Path) -> None:
    says = report(cause(), ruled_out=({"hypothesis": "Failover", "reason": "No event tells of one."},))
    case = scored(tracer_case(tmp_path, ruling_out_keywords=["failover", "deadlock"]), says)
    assert case.passed
    assert case.details["ruling_out"] == 0.5


def test_tracer__system_under_test__never_sees_the_answer(tmp_path: Path) -> None:
    runtime = Says(report(cause()))
    run_tracer(runtime, tracer_case(tmp_path, model_response="the secret answer"))
    (turn,) = runtime.turns
    assert "secret" not in repr(turn.alert) + turn.prompt
    assert turn.config == {}
    assert turn.history == ()


SHOP = [Service("front", 0.3, 0.8), Service("cart", 0.1, 0.6), Service("store", 0.05, 0.55)]
CALLS = [("front", "cart"), ("cart", "store")]
ISSUES = {
    "train/issue_0": (alarm("front", "latency"), "store"),
    "test/issue_1": (alarm("front", "availability"), "store"),
}


def ranked(*names: str) -> Report:
    return report(*(cause("dependency_failure", name) for name in names))


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    write_shop(tmp_path / "data" / "low", SHOP, CALLS, ISSUES)
    return tmp_path / "data"


def test_petshop__places__count_as_top_1_and_top_3_for_all_and_each_metric(shop: Path) -> None:
    says = {"latency": ranked("store", "cart"), "availability": ranked("front", "front", "cart", "store")}
    result = run_petshop(Says(says), shop)
    assert [(case.id, case.passed, case.details["rank"]) for case in result.cases[:2]] == [
        ("low/test/issue_1", False, 3),
        ("low/train/issue_0", True, 1),
    ]
    assert list(result.cases[0].reasons) == ["it is number 3"]
    assert (result.score, result.totals["top1"], result.totals["top3"]) == (0.5, 0.5, 1.0)
    assert {name: result.totals[name] for name in ("top1_latency", "top1_availability", "top3_availability")} == {
        "top1_latency": 1.0,
        "top1_availability": 0.0,
        "top3_availability": 1.0,
    }


@pytest.mark.parametrize(
    "says",
    [
        report(),
        None,
        ranked("a", "b", "c", "store"),
        report(cause("healthy", "store")),
        report(cause("unknown", "store", confidence=0.39)),
    ],
)
def test_petshop__not_among_the_first_three_or_only_possible__is_wrong(shop: Path, says: Report | None) -> None:
    result = run_petshop(Says(says), shop)
    assert (result.totals["top1"], result.totals["top3"]) == (0.0, 0.0)


def test_petshop__specificity__is_the_share_of_quiet_windows_in_which_nobody_is_blamed(shop: Path) -> None:
    quiet = run_petshop(Says({"latency": ranked("store")}), shop)
    assert [case.id for case in quiet.cases if "quiet" in case.id] == [
        f"low/quiet-{percent}%" for percent in (50, 60, 70, 80, 90)
    ]
    assert quiet.totals["specificity"] == 1.0
    loud = run_petshop(Says(ranked("store")), shop)
    assert loud.totals["specificity"] == 0.0
    assert loud.totals["top1"] == 1.0, "the quiet windows are no issues"
    assert list(loud.cases[-1].reasons) == ["somebody is blamed in normal operation"]


def test_petshop__quiet_window__is_compared_with_what_lies_before_it(shop: Path) -> None:
    runtime = Says(None, tools=("list_evidence",))
    run_petshop(runtime, shop)
    alerts = [turn.alert for turn in runtime.turns[2:]]
    assert all(alert is not None and alert["node"] == "front" and "metric" not in alert for alert in alerts)
    starts = [alert["timestamp"] for alert in alerts if alert is not None]
    assert starts == sorted(starts)
    assert starts[1] - starts[0] == 4 * 300, "a tenth of forty rows"


@pytest.mark.parametrize(
    ("suite", "prepare", "reason"),
    [
        ("tracer", lambda root: root / "missing", "is no folder"),
        ("tracer", lambda root: root, "holds no case"),
        ("petshop", lambda root: root, "holds no case"),
    ],
)
def test_command__bad_folder__is_a_clear_error(tmp_path: Path, suite: str, prepare: Any, reason: str) -> None:
    with pytest.raises(CommandError, match=reason):
        call_command("evaluate", suite, prepare(tmp_path))


def test_command__broken_answer__names_the_case(tmp_path: Path) -> None:
    (tracer_case(tmp_path) / "case-1" / "answer.yml").write_text("a: [")
    with pytest.raises(CommandError, match=r"case-1/answer\.yml cannot be read"):
        call_command("evaluate", "tracer", tmp_path)


def test_command__case_without_evidence__names_the_case(tmp_path: Path) -> None:
    (tmp_path / "case-1").mkdir()
    (tmp_path / "case-1" / "answer.yml").write_text("{}")
    with pytest.raises(CommandError, match="case-1: The folder holds no evidence"):
        call_command("evaluate", "tracer", tmp_path)


def test_petshop__normal_operation_missing__is_a_clear_error(shop: Path) -> None:
    (shop / "low" / "noissue" / "metrics.csv").write_text("x")
    with pytest.raises(CaseError, match=r"normal operation in .* cannot be read: has no rows"):
        run_petshop(Says(None), shop)


def test_command__unknown_runtime__is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="There is no runtime 'nobody'"):
        call_command("evaluate", "tracer", tracer_case(tmp_path), "--runtime", "nobody")


def ran(*arguments: Any) -> tuple[str, str]:
    out, err = io.StringIO(), io.StringIO()
    call_command("evaluate", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def test_command__json__is_one_object_and_the_result_is_kept(db: None, shop: Path) -> None:
    out, err = ran("petshop", shop, "--json")
    told = json.loads(out)
    assert err == ""
    assert {"suite", "runtime", "cases", "score", "passed", "median_seconds", "top1", "top3", "specificity"} <= set(
        told
    )
    assert (told["suite"], told["runtime"], len(told["cases"])) == ("petshop", "builtin", 7)
    latency = next(case for case in told["cases"] if case["id"] == "low/train/issue_0")
    assert (latency["passed"], latency["found"], latency["rank"]) == (True, "store", 1)
    assert isinstance(latency["seconds"], float)
    assert told["specificity"] == 1.0
    kept = Evaluation.objects.get()
    assert (kept.suite, kept.runtime, kept.score, kept.result) == ("petshop", "builtin", told["score"], told)


def test_command__table__one_line_a_case_then_totals(db: None, tmp_path: Path) -> None:
    tracer_case(tmp_path)
    out, _ = ran("tracer", tmp_path)
    first, *rest = out.splitlines()
    assert first.split()[:2] == ["case-1", "FAIL"]
    assert "expected resource_exhaustion" in first
    assert "tracer, runtime builtin: 0 of 1 cases pass" in rest
    assert any(line.split() == ["score", "0.00"] for line in rest)
    assert Evaluation.objects.get().result["cases"][0]["id"] == "case-1"


def test_command__database_not_set_up__says_so_and_prints_the_result_all_the_same(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Evaluation._meta, "db_table", "not_there_yet")
    out, err = ran("tracer", tracer_case(tmp_path), "--json")
    assert json.loads(out)["suite"] == "tracer"
    assert err == "The result is not kept: the database is not set up yet (make setup).\n"
