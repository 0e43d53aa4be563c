"""Folders that an evaluation is pointed at by mistake or malice."""

import os
from pathlib import Path

import pytest

from controlplane.runtimes.builtin import BuiltinRuntime
from controlplane.runtimes.evaluation.petshop import run_petshop
from controlplane.runtimes.evaluation.running import CaseError


def test_petshop__folder_of_the_system_itself__is_told_which_to_name(tmp_path: Path) -> None:
    case = tmp_path / "issue_0"
    case.mkdir()
    (case / "answer.json").write_text("{}")
    with pytest.raises(CaseError, match="is too deep"):
        run_petshop(BuiltinRuntime(), tmp_path)


def test_petshop__answer_that_is_a_pipe__is_refused_and_not_waited_for(tmp_path: Path) -> None:
    case = tmp_path / "low" / "test" / "issue_0"
    case.mkdir(parents=True)
    os.mkfifo(case / "answer.json")
    with pytest.raises(CaseError, match="not an ordinary file"):
        run_petshop(BuiltinRuntime(), tmp_path)
