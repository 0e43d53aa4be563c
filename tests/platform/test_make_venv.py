"""``scripts/make-venv.sh``: which Python it takes, and what it says when there is none that will do."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "make-venv.sh"

#: A Python that answers the script's question for its version and writes down how it was used.
FAKE = """#!/bin/sh
case "$1" in
    -c) [ -n "{answer}" ] || exit 1; echo "{answer}" ;;
    -m) echo "$0 $*" >> "{log}"; mkdir -p "$4/bin"; exit {code} ;;
esac
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH of our own, with the few programs the script itself needs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for program in ("sh", "rm", "mkdir"):
        (folder / program).symlink_to(f"/bin/{program}")
    return folder


def fake(path: Path, name: str, answer: str, code: int = 0) -> None:
    program = path / name
    program.write_text(FAKE.format(answer=answer, log=path.parent / "log", code=code))
    program.chmod(0o755)


def run(path: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [path / "sh", SCRIPT, path.parent / "venv"],
        env={"PATH": str(path), **environ}, text=True, capture_output=True, timeout=30, check=False,
    )  # fmt: skip


def used(path: Path) -> str:
    log = path.parent / "log"
    return Path(log.read_text().split()[0]).name if log.exists() else ""


def test_make_venv__suitable_python3__is_taken(path: Path) -> None:
    fake(path, "python3", "suitable 3.13")
    fake(path, "python3.12", "suitable 3.12")
    done = run(path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Python 3.13 (python3)" in done.stdout
    assert used(path) == "python3"


@pytest.mark.parametrize("first", ["unsuitable 3.9", "unsuitable 3.15", "no-venv 3.11", ""])
def test_make_venv__python3_that_will_not_do__the_next_is_taken(path: Path, first: str) -> None:
    fake(path, "python3", first)
    fake(path, "python3.11", "suitable 3.11")
    fake(path, "python3.12", "suitable 3.12")
    assert run(path).returncode == 0
    assert used(path) == "python3.12"


def test_make_venv__named_python__is_taken_even_with_a_blank_in_its_path(path: Path) -> None:
    fake(path, "python3", "suitable 3.13")
    fake(path, "my python", "suitable 3.12")
    assert run(path, PYTHON=str(path / "my python")).returncode == 0
    assert "my python" in (path.parent / "log").read_text()


def test_make_venv__only_old_ones__names_what_was_found(path: Path) -> None:
    fake(path, "python3", "unsuitable 3.9")
    fake(path, "python3.11", "unsuitable 3.10")
    done = run(path)
    assert done.returncode == 1
    assert "needs Python 3.11, 3.12, 3.13 or 3.14" in done.stderr
    assert "Found: python3 is 3.9; python3.11 is 3.10." in done.stderr
    assert "make PYTHON=" in done.stderr


def test_make_venv__named_python_too_old__is_not_passed_over(path: Path) -> None:
    fake(path, "python3", "suitable 3.12")
    fake(path, "python3.9", "unsuitable 3.9")
    done = run(path, PYTHON="python3.9")
    assert done.returncode == 1
    assert "python3.9 is 3.9" in done.stderr
    assert used(path) == ""


def test_make_venv__named_python_missing__is_said(path: Path) -> None:
    done = run(path, PYTHON="/nowhere/python")
    assert done.returncode == 1
    assert "PYTHON=/nowhere/python is no working Python" in done.stderr


def test_make_venv__none_at_all__says_what_to_install(path: Path) -> None:
    done = run(path)
    assert done.returncode == 1
    assert "no python3 was found" in done.stderr
    assert "apt-get install python3" in done.stderr


def test_make_venv__without_ensurepip__names_the_package(path: Path) -> None:
    fake(path, "python3", "no-venv 3.12")
    done = run(path)
    assert done.returncode == 1
    assert "apt-get install python3.12-venv" in done.stderr


def test_make_venv__that_fails_halfway__leaves_nothing_behind(path: Path) -> None:
    fake(path, "python3", "suitable 3.12", code=1)
    done = run(path)
    assert done.returncode == 1
    assert "could not make the virtual environment" in done.stderr
    assert not (path.parent / "venv").exists()


def test_make_venv__its_question__is_answered_by_a_real_python() -> None:
    question = SCRIPT.read_text().split("-c '\n", 1)[1].split("' 2>", 1)[0]
    import sys

    answer = subprocess.run([sys.executable, "-c", question], text=True, capture_output=True, check=True)
    assert answer.stdout == f"suitable {sys.version_info[0]}.{sys.version_info[1]}\n"


def test_make__without_a_target__lists_every_target() -> None:
    listed = subprocess.run(
        ["make", "-C", ROOT, "--no-print-directory"], text=True, capture_output=True, check=True
    ).stdout
    assert [line.split()[1] for line in listed.splitlines()] == [
        "help",
        "setup",
        "dev",
        "test",
        "faults",
        "lint",
        "bench",
        "clean",
    ]
