import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from controlplane.core.errors import InvalidInput
from controlplane.runtimes.sources import missing_sources, snapshot_from_folder
from controlplane.runtimes.sources.folders import MAX_FILE_BYTES, MAX_FILES
from tests.support.evidence import alert_on, cloudwatch, metric, snapshot, write_folder

GOOD = {"metrics": cloudwatch(metric("CPUUtilization", [1.0, 2.0, 3.0]))}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    taken = snapshot(GOOD, alert=alert_on("db", "slow"), scenario={"available_evidence": ["metrics", "logs"]})
    return write_folder(tmp_path / "case", taken)


def evidence(folder: Path) -> Path:
    return folder / "evidence"


def test_snapshot_from_folder__good_folder__holds_its_parts(folder: Path) -> None:
    taken = snapshot_from_folder(folder)
    assert taken["format"] == "snapshot/1"
    assert taken["alert"]["title"] == "Alert on db"
    assert taken["sources"] == GOOD
    assert taken["unreadable"] == {}
    assert missing_sources(taken) == {"logs": "is announced as available, but is not there"}


def test_snapshot_from_folder__answer_keys_beside_it__are_not_even_opened(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("answer.yml", "labels.json", "answer.json"):
        (folder / name).write_text('{"root_cause": "leaked"}')
    opened: list[str] = []
    real = os.open

    def watched(path: Any, *args: Any, **kwargs: Any) -> int:
        opened.append(os.fspath(path) if not isinstance(path, int) else str(path))
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", watched)
    taken = snapshot_from_folder(folder)
    assert not any("answer" in name or "labels" in name for name in opened)
    assert "leaked" not in json.dumps(taken)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"metric_data_results": [', "not JSON"),
        (b"", "not JSON"),
        (b'{"a": NaN}', "NaN is not JSON"),
        (b'{"a": 1e999}', "out of range"),
        (b'\xff\xfe{"a": 1}', "not UTF-8 at byte 0"),
        (b'{"a": "\xe2\x28\xa1"}', "not UTF-8 at byte"),
        (b"[" * 100_000, "nested deeper than"),
        (b'{"a": 1, "a": 2}', "appears twice"),
        (b'{"a": "\\ud800"}', "unpaired surrogate"),
    ],
)
def test_snapshot_from_folder__broken_file__is_named_with_the_reason_and_the_rest_is_read(
    folder: Path, content: bytes, reason: str
) -> None:
    (evidence(folder) / "broken.json").write_bytes(content)
    taken = snapshot_from_folder(folder)
    assert taken["sources"] == GOOD
    assert reason in taken["unreadable"]["evidence/broken.json"]


@pytest.mark.parametrize("name", ["alert.json", "scenario.json"])
def test_snapshot_from_folder__alert_or_scenario_no_object__is_named(folder: Path, name: str) -> None:
    (folder / name).write_text("[1, 2]")
    taken = snapshot_from_folder(folder)
    assert taken[name.removesuffix(".json")] is None
    assert taken["unreadable"][name] == "is not a JSON object"


def test_snapshot_from_folder__links__are_refused_whatever_they_lead_to(folder: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.json"
    secret.write_text('{"root": "password"}')
    (evidence(folder) / "file.json").symlink_to(secret)
    (evidence(folder) / "relative.json").symlink_to("../alert.json")
    (evidence(folder) / "dangling.json").symlink_to(tmp_path / "nowhere")
    (evidence(folder) / "folder.json").symlink_to(tmp_path)
    (folder / "scenario.json").unlink()
    (folder / "scenario.json").symlink_to(secret)
    taken = snapshot_from_folder(folder)
    refused = {"evidence/file.json", "evidence/relative.json", "evidence/dangling.json", "evidence/folder.json"}
    assert set(taken["unreadable"]) == {*refused, "scenario.json"}
    assert set(taken["unreadable"].values()) == {"is a link; links are not followed"}
    assert "password" not in json.dumps(taken)


def test_snapshot_from_folder__evidence_itself_a_link__is_refused(folder: Path, tmp_path: Path) -> None:
    evidence(folder).rename(tmp_path / "elsewhere")
    evidence(folder).symlink_to(tmp_path / "elsewhere")
    taken = snapshot_from_folder(folder)
    assert taken["sources"] == {}
    assert taken["unreadable"] == {"evidence": "is a link; links are not followed"}


def test_snapshot_from_folder__special_files__are_refused_without_blocking(folder: Path) -> None:
    os.mkfifo(evidence(folder) / "pipe.json")
    (folder / "alert.json").unlink()
    os.mkfifo(folder / "alert.json")
    (evidence(folder) / "sub.json").mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        previous = Path.cwd()
        os.chdir(evidence(folder))  # the path of a socket may have some hundred bytes only
        try:
            listener.bind("socket.json")
        finally:
            os.chdir(previous)
        taken = snapshot_from_folder(folder)
    assert taken["unreadable"]["evidence/pipe.json"] == "is not an ordinary file"
    assert taken["unreadable"]["evidence/socket.json"] == "is not an ordinary file"
    assert taken["unreadable"]["alert.json"] == "is not an ordinary file"
    assert taken["unreadable"]["evidence/sub.json"] == "is a folder"
    assert taken["sources"] == GOOD


def test_snapshot_from_folder__name_swapped_for_a_pipe_after_the_look__does_not_block(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = evidence(folder) / "race.json"
    target.write_text("{}")
    real = os.open

    def swap(path: Any, *args: Any, **kwargs: Any) -> int:
        if path == "race.json":
            target.unlink()
            os.mkfifo(target)
        return real(path, *args, **kwargs)

    monkeypatch.setattr(os, "open", swap)
    taken = snapshot_from_folder(folder)
    assert taken["unreadable"]["evidence/race.json"] == "is not an ordinary file"


def test_snapshot_from_folder__huge_file__is_refused_by_its_size_alone(folder: Path) -> None:
    with (evidence(folder) / "huge.json").open("wb") as file:
        file.truncate(100 * 1024 * 1024)  # sparse: no bytes on the disk, and none are read
    taken = snapshot_from_folder(folder)
    assert taken["unreadable"]["evidence/huge.json"] == "has 104,857,600 bytes; at most 8,388,608 are read"


def test_snapshot_from_folder__file_that_grows_while_it_is_read__is_cut_off(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "read", lambda _, size: b" " * size)
    with pytest.raises(InvalidInput) as caught:
        snapshot_from_folder(folder)
    assert caught.value.code == "evidence_empty"
    assert "has more than 8,388,608 bytes" in caught.value.detail


def test_snapshot_from_folder__too_much_together__keeps_what_fits(folder: Path) -> None:
    text = json.dumps("x" * (MAX_FILE_BYTES // 2))
    for name in ("a", "b"):
        (evidence(folder) / f"{name}.json").write_text(text)
    taken = snapshot_from_folder(folder)
    assert len(taken["sources"]) == 2
    (left_out,) = taken["unreadable"].values()
    assert left_out == "is left out: the folder's files have more than 8,388,608 bytes together"
    assert "metrics" in taken["sources"], "what the scenario announces is read first"


def test_snapshot_from_folder__too_many_files__are_counted(folder: Path) -> None:
    for number in range(MAX_FILES + 30):
        (evidence(folder) / f"s{number:03}.json").write_text("{}")
    taken = snapshot_from_folder(folder)
    assert len(taken["sources"]) == MAX_FILES
    assert taken["unreadable"]["evidence/…"] == "31 files are left out: at most 200 are read"


def test_snapshot_from_folder__odd_names__are_refused_and_printable(folder: Path) -> None:
    names = [b"UPPER.json", b"sp ace.json", b"bad\xff.json", b"new\nline.json", b"x" * 80 + b".json", b"notes.txt"]
    for name in names:
        (Path(os.fsdecode(os.fsencode(evidence(folder)) + b"/" + name))).write_text("{}")
    (evidence(folder) / ".DS_Store").write_text("")
    taken = snapshot_from_folder(folder)
    assert taken["sources"] == GOOD
    assert len(taken["unreadable"]) == len(names)
    assert taken["unreadable"]["evidence/notes.txt"] == "is not read: only .json files are"
    assert all(name.isprintable() for name in taken["unreadable"])
    json.dumps(taken).encode()


def test_snapshot_from_folder__without_evidence_folder__alert_is_enough(folder: Path) -> None:
    for file in evidence(folder).iterdir():
        file.unlink()
    evidence(folder).rmdir()
    taken = snapshot_from_folder(folder)
    assert taken["alert"] is not None
    assert taken["unreadable"] == {"evidence": "does not exist"}


@pytest.mark.parametrize("path", ["missing", "nul\0byte", "x" * 5_000])
def test_snapshot_from_folder__no_such_folder__is_a_clear_error(tmp_path: Path, path: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        snapshot_from_folder(tmp_path / path)
    assert caught.value.code == "evidence_not_found"
    assert caught.value.errors[0].pointer == "/evidence"


def test_snapshot_from_folder__a_file_or_a_pipe__is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("{}")
    os.mkfifo(tmp_path / "pipe")
    for name in ("file", "pipe"):
        with pytest.raises(InvalidInput) as caught:
            snapshot_from_folder(tmp_path / name)
        assert caught.value.code == "evidence_not_a_folder"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_snapshot_from_folder__not_permitted__is_a_clear_error(folder: Path) -> None:
    folder.chmod(0)
    try:
        with pytest.raises(InvalidInput) as caught:
            snapshot_from_folder(folder)
    finally:
        folder.chmod(0o700)
    assert caught.value.code == "evidence_not_found"


def test_snapshot_from_folder__nothing_readable__says_why(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as caught:
        snapshot_from_folder(tmp_path)
    assert caught.value.code == "evidence_empty"
    write_folder(tmp_path, snapshot({}))
    (tmp_path / "evidence" / "a.json").write_text("{")
    with pytest.raises(InvalidInput) as caught:
        snapshot_from_folder(tmp_path)
    assert "evidence/a.json the file is not JSON" in caught.value.detail


def test_snapshot_from_folder__many_broken_files__are_summed_up(folder: Path) -> None:
    for number in range(150):
        (evidence(folder) / f"n{number}.txt").write_text("")
    taken = snapshot_from_folder(folder)
    assert len(taken["unreadable"]) == 101
    assert taken["unreadable"]["…"] == "further files could not be read"


def test_snapshot_from_folder__any_outcome__leaves_no_descriptor_open(folder: Path, tmp_path: Path) -> None:
    (evidence(folder) / "broken.json").write_text("{")
    os.mkfifo(evidence(folder) / "pipe.json")
    before = len(os.listdir("/proc/self/fd"))
    snapshot_from_folder(folder)
    with pytest.raises(InvalidInput):
        snapshot_from_folder(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before
