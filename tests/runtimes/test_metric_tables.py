"""Tables of metrics and call graphs: parsing them, and the folders they come in."""

import os
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import InvalidInput
from controlplane.runtimes.sources.folders.files import UnreadableError
from controlplane.runtimes.sources.folders.metric_tables import parse_graph, parse_table
from controlplane.runtimes.sources.formats.tables import read_call_graph, read_metric_table
from controlplane.runtimes.sources.records import Link, Series, Skipped
from controlplane.runtimes.sources.snapshot import snapshot_from_folder
from tests.support.recordings import BEGIN, STEP, Columns, Service, alarm, graph_csv, table_csv, write_shop

KEY = ("cart", "latency", "Average")
COLUMNS: Columns = {KEY: [0.1, None, 0.3], ("cart", "requests", "Sum"): [5.0, 6.0, 7.0]}
SHOP = [Service("front", 0.3, 0.8), Service("cart", 0.1, 0.6)]
CALLS = [("front", "cart")]


@pytest.fixture
def issue(tmp_path: Path) -> Path:
    root = write_shop(tmp_path / "shop", SHOP, CALLS, {"test/issue_0": (alarm("front"), "cart")})
    return root / "test" / "issue_0"


@pytest.mark.parametrize("named_time", [True, False])
def test_parse_table__three_or_four_header_rows__same_table(named_time: bool) -> None:
    table = parse_table(table_csv(COLUMNS, named_time=named_time))
    assert table.columns == COLUMNS
    assert table.times == [(BEGIN + STEP * index).timestamp() for index in range(3)]


def test_parse_table__gaps_and_what_is_no_finite_number__are_none() -> None:
    table = parse_table("o,a,a,a\nm,x,y,z\ns,s,s,s\n1,nan,inf,\n2,1.5,-,1e999\n3,2\n")
    assert [list(values) for values in table.columns.values()] == [[None, 1.5, 2.0], [None] * 3, [None] * 3]


def test_parse_table__columns_without_object_or_metric__are_left_out() -> None:
    table = parse_table("o,a,,b\nm,x,y,\ns,s,s,s\n1,1,2,3\n")
    assert list(table.columns) == [("a", "x", "s")]


def test_parse_table__quoted_names__may_hold_commas_and_line_breaks() -> None:
    table = parse_table('o,"a, b","c\nd"\nm,x,x\ns,s,s\n1,1,2\n')
    assert [object_ for object_, _, _ in table.columns] == ["a, b", "c\nd"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "no rows below"),
        ("o,a\nm,x\ns,s\n", "no rows below"),
        ("o\nm\ns\n1\n", "no column or no row"),
        ("o,a\nm,x\ns,s\nyesterday,1\n", "no column or no row"),
        ("o,a\nm,x\ns,s\n2,1\n1,1\n", "do not ascend"),
        ("o,a\nm,x\ns,s\n1,1\n1,2\n", "do not ascend"),
        ('o,"a\nm,x\ns,s\n1,1\n', "not valid CSV"),
        ('o,"a"b\nm,x\ns,s\n1,1\n', "not valid CSV"),
        ("o,a\x00b\nm,x\ns,s\n1,1\n", "NUL"),
        (f"o,{'x' * 200_000}\nm,x\ns,s\n1,1\n", "not valid CSV"),
        ("o" + ",a" * 2_001 + "\nm" + ",x" * 2_001 + "\ns" + ",s" * 2_001 + "\n1,1\n", "larger than"),
        ("o,a\nm,x\ns,s\n" + "".join(f"{n},1\n" for n in range(20_001)), "larger than"),
        ("o,a\nm,x\ns,s\n" + "1,1\n" * 30_000, "more than 20,000 rows"),
        (
            "\n".join(",".join([head, *(f"{head}{n}" for n in range(1_000))]) for head in "oms")
            + "\n"
            + "".join(f"{n}\n" for n in range(2_001)),
            "2,000,000 cells",
        ),
    ],
)
def test_parse_table__no_table_or_a_hostile_one__is_refused_with_the_reason(content: str, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        parse_table(content)


def test_table__split__parts_together_are_the_whole() -> None:
    table = parse_table(table_csv(COLUMNS))
    before, after = table.split(1)
    assert [*before.times, *after.times] == table.times
    assert [*before.columns[KEY], *after.columns[KEY]] == [0.1, None, 0.3]
    assert after.as_source(before)["normal"]["times"] == before.times


def test_parse_graph__matrix__rows_call_columns() -> None:
    assert parse_graph(graph_csv([("a", "b"), ("b", "c")])) == [
        {"caller": "a", "callee": "b"},
        {"caller": "b", "callee": "c"},
    ]
    assert parse_graph(",a,b\na,0,1.0\n,1,1\nb,x,nan\n") == [{"caller": "a", "callee": "b"}]
    assert parse_graph(",a\na,0\n") == []


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "no adjacency matrix"),
        ("a\nb\n", "no adjacency matrix"),
        ("," + ",".join(map(str, range(2_001))), "no adjacency matrix"),
        (',"a\n', "not valid CSV"),
        (",a\x00\na,1\n", "NUL"),
        ("," + ",".join(map(str, range(500))) + "\n" + ("a" + ",1" * 500 + "\n") * 101, "more than 50,000 calls"),
    ],
)
def test_parse_graph__no_matrix_or_a_hostile_one__is_refused(content: str, reason: str) -> None:
    with pytest.raises(UnreadableError, match=reason):
        parse_graph(content)


def test_folder__tables__are_read_with_what_belongs_to_the_system_above(issue: Path) -> None:
    taken = snapshot_from_folder(issue)
    assert taken["unreadable"] == {}
    assert taken["alert"]["node"] == "front"
    assert taken["sources"]["topology"] == {"calls": [{"caller": "front", "callee": "cart"}]}
    assert len(taken["sources"]["metrics"]["times"]) == 6
    assert len(taken["sources"]["metrics"]["normal"]["times"]) == 40


def test_folder__answer_key__is_not_read(issue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[object] = []
    real = os.open

    def watched(path: Any, *args: Any, **kwargs: Any) -> int:
        opened.append(path)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", watched)
    snapshot_from_folder(issue)
    assert "answer.json" not in opened
    assert {"alert.json", "metrics.csv", "graph.csv"} <= set(opened)


def test_folder__graph_in_the_folder_itself__wins_over_one_above(issue: Path) -> None:
    (issue / "graph.csv").write_text(graph_csv([("cart", "front")]))
    assert snapshot_from_folder(issue)["sources"]["topology"] == {"calls": [{"caller": "cart", "callee": "front"}]}


def test_folder__graph_further_above__is_out_of_reach(issue: Path) -> None:
    shop = issue.parent.parent
    (shop / "graph.csv").rename(shop.parent / "graph.csv")
    taken = snapshot_from_folder(issue)
    assert "topology" not in taken["sources"]
    assert taken["unreadable"] == {"graph.csv": "does not exist"}


def test_folder__normal_operation_missing__is_named_and_the_rest_is_read(issue: Path) -> None:
    (issue.parent.parent / "noissue" / "metrics.csv").unlink()
    taken = snapshot_from_folder(issue)
    assert taken["unreadable"] == {"noissue/metrics.csv": "does not exist"}
    assert "normal" not in taken["sources"]["metrics"]
    assert len(taken["sources"]["metrics"]["columns"]) == 6


def test_folder__link_instead_of_a_file__is_refused(issue: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.csv"
    elsewhere.write_text(graph_csv([("secret", "thing")]))
    (issue / "graph.csv").symlink_to(elsewhere)
    taken = snapshot_from_folder(issue)
    assert taken["unreadable"] == {"graph.csv": "is a link; links are not followed"}
    assert "topology" not in taken["sources"]


def test_folder__linked_folder_of_normal_operation__is_not_followed(issue: Path, tmp_path: Path) -> None:
    noissue = issue.parent.parent / "noissue"
    noissue.rename(tmp_path / "elsewhere")
    noissue.symlink_to(tmp_path / "elsewhere")
    taken = snapshot_from_folder(issue)
    assert "noissue/metrics.csv" in taken["unreadable"]
    assert "normal" not in taken["sources"]["metrics"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"o,a\xff\nm,x\ns,s\n1,1\n", "is not text in UTF-8"),
        (b"o,a\x00\nm,x\ns,s\n1,1\n", "has a NUL character, which no text has"),
        (b"not a table", "has no rows below its three header rows"),
    ],
)
def test_folder__table_that_cannot_be_read__is_named_and_the_alert_stays(issue: Path, raw: bytes, reason: str) -> None:
    (issue / "metrics.csv").write_bytes(raw)
    taken = snapshot_from_folder(issue)
    assert taken["unreadable"] == {"metrics.csv": reason}
    assert "metrics" not in taken["sources"]
    assert taken["alert"]["node"] == "front"


def test_folder__nothing_readable_at_all__is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "deep" / "deeper").mkdir(parents=True)
    (tmp_path / "deep" / "deeper" / "metrics.csv").write_text("")
    with pytest.raises(InvalidInput) as caught:
        snapshot_from_folder(tmp_path / "deep" / "deeper")
    assert caught.value.code == "evidence_empty"
    assert "metrics.csv has no rows below its three header rows" in caught.value.detail


def test_folder__any_outcome__leaves_no_descriptor_open(issue: Path) -> None:
    (issue / "graph.csv").symlink_to("nowhere")
    before = len(os.listdir("/proc/self/fd"))
    snapshot_from_folder(issue)
    assert len(os.listdir("/proc/self/fd")) == before


def test_metric_table__columns__become_series_with_units_gaps_left_out_and_baselines(issue: Path) -> None:
    value = snapshot_from_folder(issue)["sources"]["metrics"]
    value["columns"][0]["values"][1] = None
    found = list(read_metric_table("m", value))
    latency, availability, requests, *_ = found
    assert isinstance(latency, Series)
    assert isinstance(availability, Series)
    assert isinstance(requests, Series)
    assert (latency.object, latency.metric, latency.statistic, latency.unit) == (
        "front",
        "latency",
        "Average",
        "Seconds",
    )
    assert (availability.unit, requests.unit) == ("Percent", "Count")
    assert len(latency.values) == 5
    assert latency.times[1] - latency.times[0] == 2 * STEP
    assert latency.baseline is not None
    assert latency.baseline.median == pytest.approx(0.3)


def test_metric_table__broken_columns__are_skipped_and_unused_ones_left_out() -> None:
    value = {
        "times": [1_700_000_000, "never"],
        "columns": [{"object": "a", "values": [1, 2]}, {"object": "a", "metric": "x", "values": [None, 1]}, 7],
    }
    assert list(read_metric_table("m", value)) == [Skipped("columns without a metric's name")]


def test_metric_table__figures_near_the_end_of_a_float__have_no_baseline() -> None:
    column = {"object": "a", "metric": "latency", "values": [1e308] * 8}
    times = [1_700_000_000 + 60 * n for n in range(8)]
    table = {"times": times, "columns": [column]}
    (series,) = read_metric_table("m", table | {"normal": table})
    assert isinstance(series, Series)
    assert series.baseline is None


def test_call_graph__pairs__become_links_and_halves_are_skipped() -> None:
    found = list(read_call_graph("t", {"calls": [{"caller": "a", "callee": "b"}, {"caller": "a"}, "x"]}))
    assert found == [Link("t", "a", "b"), Skipped("calls without a caller or a callee")]
