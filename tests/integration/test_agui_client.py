"""The official AG-UI client against the real server: it rebuilds messages, tool calls, state and interrupts.

The client is a package of npm and no part of a set-up: ``npm ci --prefix tests/support/agui`` installs it, into that
folder. Where it or Node is missing the test is skipped; ``.ci/run`` installs it and then sets ``AGUI_CLIENT=required``.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.factories import make_team_token, make_tree
from tests.support.runs import script, working
from tests.support.server import Server, serving

pytestmark = pytest.mark.django_db(transaction=True)

FOLDER = Path(__file__).parent.parent / "support" / "agui"
INSTALLED = (FOLDER / "node_modules" / "@ag-ui" / "client").is_dir()


@pytest.fixture(autouse=True)
def client_installed() -> None:
    missing = "Node" if shutil.which("node") is None else "" if INSTALLED else "the client (npm ci --prefix …)"
    if missing and os.environ.get("AGUI_CLIENT") == "required":
        pytest.fail(f"{missing} is missing")
    if missing:
        pytest.skip(f"{missing} is missing")


def play(server: Server, token: str, *calls: dict[str, Any]) -> list[dict[str, Any]]:
    """Have the client make ``calls`` on one thread and return what it saw at each."""
    told = {"url": f"{server.url}/api/v1/agui/agent/payments/run", "token": token, "threadId": "t-1", "calls": calls}
    done = subprocess.run(
        ["node", "client.mjs", json.dumps(told)], cwd=FOLDER, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    seen: list[dict[str, Any]] = json.loads(done.stdout)
    return seen


def test_client__runs_resumes_and_joins__same_conversation(settings: Any) -> None:
    settings.DEFAULT_RUNTIME = "scripted"
    token = make_team_token(make_tree().payments)
    question = {"ask": "Which?", "options": ["eu"]}
    first = script({"thought": "hm"}, {"tool": "nothing_such"}, question, {"result": "It was DNS."})
    with serving() as server, working():
        asked, answered, more, joined = play(
            server,
            token,
            {"runId": "r1", "say": first},
            {"runId": "r2", "answer": {"question_0": "eu"}},
            {"runId": "r3", "say": script({"result": "Two."})},
            {"runId": "r4", "connect": True},
        )

    assert [one["error"] for one in (asked, answered, more, joined)] == [None] * 4
    assert [interrupt["message"] for interrupt in asked["interrupts"]] == ["Which?"]
    assert (answered["interrupts"], answered["types"][-1]) == ([], "RUN_FINISHED")
    roles = [message["role"] for message in more["messages"]]
    assert roles == ["user", "reasoning", "assistant", "tool", "reasoning", "assistant", "user", "assistant"]
    assert more["messages"][-1]["content"] == "Two."
    assert more["state"] == {"report": None, "files": []}
    assert [message["role"] for message in joined["messages"]] == roles
    assert joined["messages"][-1]["content"] == "Two."
    assert joined["messages"][2]["toolCalls"][0]["function"]["name"] == "nothing_such"


def test_client__run_that_fails__sees_the_error(settings: Any) -> None:
    settings.DEFAULT_RUNTIME = "scripted"
    token = make_team_token(make_tree().payments)
    with serving() as server, working():
        (seen,) = play(server, token, {"runId": "r1", "say": script({"error": "no model", "code": "no_model"})})
    assert seen["types"][-1] == "RUN_ERROR"
