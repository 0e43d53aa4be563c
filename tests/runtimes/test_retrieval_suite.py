"""The suite ``retrieval``."""

from pathlib import Path

import orjson
import pytest

from controlplane.runtimes.evaluation.running import CaseError
from controlplane.runtimes.evaluation.suites import run_suite


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        file = folder / name.replace("__", "/").replace("_md", ".md").replace("_jsonl", ".jsonl")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder


def line(**row: object) -> str:
    return orjson.dumps(row).decode() + "\n"


PAGES = {
    "pages__node__NodeDiskFull_md": "---\ntitle: x\n---\n# NodeDiskFull\n\nThe disk is full.",
    "pages__etcd__EtcdSlow_md": "# EtcdSlow\n\nCommits of etcd take long.",
}


def test_retrieval__pages_and_queries__figures_by_kind(tmp_path: Path) -> None:
    queries = line(id="1", kind="alert", query="disk full", expected=["nodediskfull"])
    queries += line(id="2", kind="alert", query="etcd commits", expected=["missing", "etcdslow"])
    queries += line(id="3", kind="other", query="disk full", expected=["missing"])
    result = run_suite("retrieval", write(tmp_path, queries_jsonl=queries, **PAGES), runtime="builtin")
    assert (result.totals["hit1_alert"], result.totals["mrr_alert"]) == (1.0, 1.0)
    assert (result.totals["hit1_other"], result.totals["hit3_other"], result.totals["mrr_other"]) == (0, 0, 0)
    assert [case.passed for case in result.cases] == [True, True, False]
    assert result.cases[2].reasons == ("no right page among 10",)
    assert result.score == pytest.approx(2 / 3)


def test_retrieval__incidents_and_runbooks__title_and_summary_are_asked(tmp_path: Path) -> None:
    incidents = line(id="INC-1", title="Disk", summary="it is full", runbook="disk-full", severity="high")
    folder = write(tmp_path, incidents_jsonl=incidents, **{"runbooks__disk-full_md": "# Disk full"})
    result = run_suite("retrieval", folder, runtime="builtin")
    assert result.totals["hit1_incident"] == 1.0


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({}, "neither"),
        ({"queries_jsonl": ""}, "no page or no question"),
        ({"queries_jsonl": "{", **PAGES}, "queries.jsonl, line 1: this is not JSON"),
        ({"queries_jsonl": '{"id": "1"}', **PAGES}, "line 1: expected is missing"),
        ({"queries_jsonl": line(id="1", kind="a", expected=["x"]), **PAGES}, "query is missing"),
    ],
)
def test_retrieval__cannot_be_read__says_what_and_where(tmp_path: Path, files: dict[str, str], words: str) -> None:
    with pytest.raises(CaseError, match=words):
        run_suite("retrieval", write(tmp_path, **files), runtime="builtin")
