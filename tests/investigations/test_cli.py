"""``manage.py investigate`` and ``worker``, as a person at a terminal uses them."""

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from controlplane.configs.services import config_patch
from controlplane.investigations.models import Run, Thread
from controlplane.investigations.terminal import TerminalView
from controlplane.runtimes import samples
from tests.factories import Tree
from tests.support.processes import manage, run_manage
from tests.support.runs import script, types, wait_until

pytestmark = pytest.mark.django_db(transaction=True)


class Screen:
    """What a terminal would show."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write(self, msg: str = "") -> None:
        self.lines.append(msg)

    def flush(self) -> None:
        pass

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def investigate(*arguments: str, **options: Any) -> tuple[int, list[str]]:
    """Call the command in this process; return its exit code and lines."""
    screen = Screen()
    with pytest.raises(SystemExit) as ended:
        call_command("investigate", *arguments, stdout=screen, **options)
    return int(ended.value.code or 0), [line.rstrip("\n") for line in screen.lines]


@pytest.fixture
def scripted(tree: Tree) -> Tree:
    config_patch(actor=tree.system, node=tree.root, patch={"runtime": {"kind": "scripted"}})
    return tree


SAMPLE = Path(samples.__file__).parent / "checkout_storage"


def test_investigate__json__streams_the_log_line_by_line(scripted: Tree) -> None:
    code, lines = investigate(script({"thought": "a"}, {"result": "done"}), json=True)

    log = [json.loads(line) for line in lines]
    assert code == 0
    assert [event["type"] for event in log] == ["run_started", "thought", "result", "run_ended"]
    assert [event["seq"] for event in log] == [1, 2, 3, 4]
    assert types(Thread.objects.get().pk) == [event["type"] for event in log]


def test_investigate__builtin_on_a_folder__report_with_citations_and_the_folders_alert(tree: Tree) -> None:
    code, lines = investigate("why is it running out of storage?", evidence=SAMPLE)

    text = "\n".join(lines)
    assert code == 0
    assert Run.objects.get().alert == json.loads((SAMPLE / "alert.json").read_text())
    assert all(heading in text for heading in ("Root cause", "Evidence", "Citations", "Not checked"))
    assert "[t1-" in text
    assert "completed after" in text


def test_investigate__failing_runtime__exit_code_1(scripted: Tree) -> None:
    code, lines = investigate(script({"raise": "boom"}))

    assert code == 1
    assert "The agent failed on our side" in "\n".join(lines)
    assert not [line for line in lines if "boom" in line and "steps" not in line]


def test_investigate__team_named__that_team(scripted: Tree) -> None:
    investigate(script({"result": "x"}), team="demo/platform")

    assert Thread.objects.get().node_id == scripted.platform.pk


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"team": "demo/nope"}, "no such team"),
        ({"team": "nope/payments"}, "no organization 'nope'"),
        ({"runtime": "nope"}, "no runtime 'nope'; there are: builtin, remote, replay, scripted"),
        ({"evidence": Path("/nonexistent-folder")}, "evidence_not_found"),
        ({"alert": Path("/nonexistent.json")}, "cannot be read"),
    ],
)
def test_investigate__bad_option__says_what_and_stores_nothing(tree: Tree, options: dict[str, Any], words: str) -> None:
    with pytest.raises(CommandError, match=words):
        call_command("investigate", "why?", **options)

    assert not Thread.objects.exists()


def test_investigate__alert_file_that_is_no_json__named(tree: Tree, tmp_path: Path) -> None:
    (tmp_path / "alert.json").write_text("{nope")

    with pytest.raises(CommandError, match=r"alert\.json.*not JSON"):
        call_command("investigate", "why?", alert=tmp_path / "alert.json")


def test_investigate__empty_prompt__refused(tree: Tree) -> None:
    with pytest.raises(CommandError, match="must not be empty"):
        call_command("investigate", "  ")


def test_investigate__no_organization_yet__says_how_to_make_one(db: None) -> None:
    with pytest.raises(CommandError, match="bootstrap"):
        call_command("investigate", "why?")


def test_investigate__interrupted_at_the_terminal__run_stops_and_code_says_so(scripted: Tree) -> None:
    with manage("investigate", script({"thought": "a"}, {"block": True}), "--json") as process:
        wait_until(lambda: Run.objects.filter(status="running").exists(), what="the run to start", patience_s=60)
        thread_id = Thread.objects.get().pk
        wait_until(lambda: "thought" in types(thread_id), what="the first thought")
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130

    assert Run.objects.get().status == "interrupted"


def test_investigate__another_worker_has_the_run__same_log_is_shown(scripted: Tree) -> None:
    with manage("worker"):
        done = run_manage("investigate", script({"thoughts": 3}, {"result": "x"}), "--json")

    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6


def test_terminal_view__control_characters__never_reach_the_terminal() -> None:
    screen = Screen()
    view = TerminalView(screen, color=False)

    view.show({"type": "thought", "data": {"text": "a\x1b[2Jb\x07\r"}})

    assert screen.text == "· a[2Jb"


def test_terminal_view__unknown_event__ignored() -> None:
    screen = Screen()

    TerminalView(screen, color=False).show({"type": "something_new", "data": {}})

    assert screen.lines == []


def test_follow__leaves_no_threads_behind(scripted: Tree) -> None:
    before = {thread.name for thread in threading.enumerate()}

    investigate(script({"result": "x"}))

    after = {thread.name for thread in threading.enumerate()}
    assert after <= before
