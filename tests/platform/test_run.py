"""``tests/run.py``: what it counts, what it skips, when it fails."""

import io
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typing_extensions import override

from tests.run import (
    MONITORING as PROGRAMS,
)
from tests.run import (
    Outcome,
    Service,
    find_browser,
    find_monitoring,
    find_postgres,
    find_redis,
    missing,
    parse_arguments,
    read_outcome,
    run_phases,
    summarise,
)

Call = tuple[str, list[str], dict[str, str], bool]

POSTGRES = Service("PostgreSQL", "postgres://example/x")
REDIS = Service("Redis", "redis://example")
CHROMIUM = Service("Chromium", "/usr/bin/chromium")
MONITORING = Service("Prometheus", "")


def junit(path: Path, *suites: tuple[int, int, int, int]) -> Path:
    """Write a result file of suites given as tests, failures, errors, skipped."""
    rows = [f'<testsuite tests="{t}" failures="{f}" errors="{e}" skipped="{s}"/>' for t, f, e, s in suites]
    file = path / "results.xml"
    file.write_text(f"<testsuites>{''.join(rows)}</testsuites>")
    return file


# ---- counting ------------------------------------------------------------------------------------------------------


def test_read_outcome__mixed_results__adds_up_failures_and_errors(tmp_path: Path) -> None:
    file = junit(tmp_path, (10, 1, 2, 3), (5, 0, 0, 0))
    assert read_outcome("SQLite", 1, file, 1.5, narrowed=False) == Outcome("SQLite", 9, 3, 3, 1.5)


def test_read_outcome__all_green__has_no_note(tmp_path: Path) -> None:
    assert read_outcome("SQLite", 0, junit(tmp_path, (4, 0, 0, 1)), 1.0, narrowed=False) == Outcome(
        "SQLite", 3, 0, 1, 1.0
    )


@pytest.mark.parametrize("code", [1, 2, 3, 4, -9])
def test_read_outcome__failure_without_results__is_one_failure(tmp_path: Path, code: int) -> None:
    outcome = read_outcome("SQLite", code, tmp_path / "none.xml", 1.0, narrowed=False)
    assert (outcome.passed, outcome.failed, outcome.note) == (0, 1, f"pytest ended with code {code}")


def test_read_outcome__bad_exit_after_green_tests__is_a_failure(tmp_path: Path) -> None:
    outcome = read_outcome("SQLite", 3, junit(tmp_path, (4, 0, 0, 0)), 1.0, narrowed=False)
    assert (outcome.passed, outcome.failed) == (4, 1)


def test_read_outcome__no_test_found__fails_unless_arguments_chose_some(tmp_path: Path) -> None:
    file = junit(tmp_path, (0, 0, 0, 0))
    assert read_outcome("Browser", 5, file, 1.0, narrowed=False).failed == 1
    narrowed = read_outcome("Browser", 5, file, 1.0, narrowed=True)
    assert (narrowed.failed, narrowed.note) == (0, "no test matches the arguments")


# ---- the table -----------------------------------------------------------------------------------------------------


def test_summarise__several_phases__ends_with_the_totals_alone() -> None:
    out = io.StringIO()
    code = summarise([Outcome("SQLite", 10, 0, 2, 3.25), Outcome("Chromium", note="none on PATH")], out)
    lines = out.getvalue().splitlines()
    assert lines[-1] == "10 passed, 0 failed, 2 skipped"
    assert lines[-2].split() == ["Chromium", "0", "0", "0", "0.0", "skipped:", "none", "on", "PATH"]
    assert lines[-3].split() == ["SQLite", "10", "0", "2", "3.2"]
    assert code == 0


@pytest.mark.parametrize(
    "outcomes",
    [
        [Outcome("SQLite", 10, 1)],
        [Outcome("SQLite", 10), Outcome("Redis", failed=1, note="no answer")],
        [],
        [Outcome("a")],
    ],
)
def test_summarise__failure_or_nothing_run__exits_with_1(outcomes: list[Outcome]) -> None:
    assert summarise(outcomes, io.StringIO()) == 1


# ---- phases --------------------------------------------------------------------------------------------------------


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Record the phases instead of running them."""
    calls: list[Call] = []

    def record(phase: str, arguments: list[str], extra: dict[str, str], *, narrowed: bool) -> Outcome:
        calls.append((phase, arguments, extra, narrowed))
        return Outcome(phase, passed=1)

    monkeypatch.setattr("tests.run.run_pytest", record)
    return calls


def test_phases__everything_there__run_on_both_databases_and_in_the_browser(started: list[Call]) -> None:
    outcomes = run_phases([POSTGRES, REDIS, CHROMIUM, MONITORING], [], required=True)
    assert [outcome.failed for outcome in outcomes] == [0, 0, 0]
    assert [(phase, extra.get("TEST_DATABASE_URL")) for phase, _, extra, _ in started] == [
        ("SQLite", ""), ("PostgreSQL", "postgres://example/x"), ("Browser", ""),
    ]  # fmt: skip
    assert started[0][1] == ["-n", "3", "--dist", "worksteal", "-m", "not browser"]
    assert started[1][1] == ["-n", "3", "--dist", "worksteal", "-m", "not browser"]
    assert started[2][1] == ["-m", "browser", "tests/browser"]
    assert started[2][2]["DJANGO_ALLOW_ASYNC_UNSAFE"] == "true"
    assert started[2][2]["CHROMIUM"] == "/usr/bin/chromium"


def test_phases__services_missing__are_skipped_here_and_failures_where_required(started: list[Call]) -> None:
    gone = [Service(service.name, "", "not there") for service in (POSTGRES, REDIS, CHROMIUM, MONITORING)]
    skipped = run_phases(gone, [], required=False)
    assert [(outcome.phase, outcome.failed, outcome.note) for outcome in skipped[1:]] == [
        ("PostgreSQL", 0, "not there"), ("Chromium", 0, "not there"),
    ]  # fmt: skip
    failed = run_phases(gone, [], required=True)
    assert [(outcome.phase, outcome.failed) for outcome in failed[1:]] == [
        ("PostgreSQL", 1),
        ("Chromium", 1),
        ("Redis", 1),
        ("Prometheus", 1),
    ]
    assert summarise(failed, io.StringIO()) == 1
    assert [phase for phase, *_ in started] == ["SQLite", "SQLite"]


def test_phases__arguments__reach_every_phase(started: list[Call]) -> None:
    run_phases([POSTGRES, REDIS, CHROMIUM, MONITORING], ["tests/core", "-k", "health"], required=False)
    assert all(arguments[-3:] == ["tests/core", "-k", "health"] and narrowed for _, arguments, _, narrowed in started)


def test_arguments__not_our_own__are_for_pytest_in_their_order() -> None:
    options, rest = parse_arguments(["--require-services", "-x", "tests/core", "-k", "a or b", "--lf"])
    assert options.require_services
    assert rest == ["-x", "tests/core", "-k", "a or b", "--lf"]


def test_missing__where_required__is_a_failure_with_its_reason() -> None:
    service = Service("Redis", "redis://example", "no answer")
    assert missing(service, required=True) == Outcome("Redis", failed=1, note="no answer")
    assert missing(service, required=False) == Outcome("Redis", failed=0, note="no answer")


# ---- services ------------------------------------------------------------------------------------------------------


@contextmanager
def server(answers: dict[bytes, bytes]) -> Iterator[int]:
    """Serve on a port of loopback: each line that is a key is answered with its value."""

    class Handler(socketserver.StreamRequestHandler):
        @override
        def handle(self) -> None:
            for line in self.rfile:
                if line.strip() in answers:
                    self.wfile.write(answers[line.strip()])

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as tcp:
        thread = threading.Thread(target=tcp.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield tcp.server_address[1]
        tcp.shutdown()
        thread.join()


def test_find_redis__that_answers_ping__is_ready() -> None:
    with server({b"PING": b"+PONG\r\n"}) as port:
        assert find_redis({"REDIS_URL": f"redis://127.0.0.1:{port}"}).ready


def test_find_redis__with_a_password__sends_it_first() -> None:
    with server({b"p@ss": b"+OK\r\n", b"PING": b"+PONG\r\n"}) as port:
        assert find_redis({"REDIS_URL": f"redis://:p%40ss@127.0.0.1:{port}"}).ready


def test_find_redis__something_else_on_its_port__is_not_ready() -> None:
    with server({b"PING": b"-NOAUTH\r\n"}) as port:
        service = find_redis({"REDIS_URL": f"redis://127.0.0.1:{port}"})
    assert service.problem == f"what answers at 127.0.0.1:{port} does not say PONG"


@pytest.mark.parametrize("find", [find_redis, find_postgres])
def test_find_service__nothing_there__is_said_without_the_password(find: object) -> None:
    assert callable(find)
    service = find(
        {"REDIS_URL": "redis://:hunter2@127.0.0.1:1", "TEST_DATABASE_URL": "postgres://u:hunter2@127.0.0.1:1/x"}
    )
    assert "no answer at 127.0.0.1:1" in service.problem
    assert "hunter2" not in service.problem


def test_find_browser__named_one__must_exist(tmp_path: Path) -> None:
    browser = tmp_path / "chromium"
    assert "CHROMIUM=" in find_browser({"CHROMIUM": str(browser), "PATH": ""}).problem
    browser.write_text("#!/bin/sh\n")
    browser.chmod(0o755)
    assert find_browser({"CHROMIUM": str(browser), "PATH": ""}) == Service("Chromium", str(browser))
    assert find_browser({"PATH": str(tmp_path)}) == Service("Chromium", str(browser))
    assert "none of chromium" in find_browser({"PATH": str(tmp_path / "empty")}).problem


def test_find_monitoring__programs_missing__are_all_named(tmp_path: Path) -> None:
    assert find_monitoring({"PATH": str(tmp_path)}).problem == f"not on PATH: {', '.join(PROGRAMS)}"


def test_find_monitoring__programs_there__is_ready(tmp_path: Path) -> None:
    for name in PROGRAMS:
        program = tmp_path / name
        program.write_text("")
        program.chmod(0o755)
    assert find_monitoring({"PATH": str(tmp_path)}).ready
