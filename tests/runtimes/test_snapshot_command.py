"""``manage.py snapshot``: a folder as what the API takes."""

import io
import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from controlplane.runtimes.samples import load_sample
from controlplane.runtimes.sources.snapshot import snapshot_validate

SAMPLE = Path(__file__).parents[2] / "controlplane" / "runtimes" / "samples" / "checkout_storage"


def test_command__sample__prints_what_the_api_takes() -> None:
    out, err = io.StringIO(), io.StringIO()
    call_command("snapshot", str(SAMPLE), stdout=out, stderr=err)
    printed = json.loads(out.getvalue())
    assert snapshot_validate(printed) == printed
    assert printed["sources"] == load_sample().snapshot["sources"]
    assert err.getvalue() == ""


def test_command__unreadable_file__is_named_beside_the_evidence(tmp_path: Path) -> None:
    (tmp_path / "evidence").mkdir()
    (tmp_path / "evidence" / "logs.json").write_text("{}")
    (tmp_path / "evidence" / "broken.json").write_text("{")
    out, err = io.StringIO(), io.StringIO()
    call_command("snapshot", str(tmp_path), stdout=out, stderr=err)
    assert json.loads(out.getvalue())["sources"] == {"logs": {}}
    assert err.getvalue().startswith("evidence/broken.json: ")


def test_command__no_folder__is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"\(evidence_not_found\)"):
        call_command("snapshot", str(tmp_path / "none"))
