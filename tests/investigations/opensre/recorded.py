"""Requests as OpenSRE's clients send them, and how those clients read the answer."""

import json
from collections.abc import Iterator
from typing import Any

import httpx

#: The January Slack bot: https://github.com/incidentfox/incidentfox; the thread's time with dashes for dots.
SLACK = {"prompt": "Why is checkout slow?", "thread_id": "slack-C0123456789-1764547200-000100"}
#: The Teams bot: a lower-cased conversation id, and where the message came from.
TEAMS = {
    "prompt": "Why is checkout slow?",
    "thread_id": "teams-19-abcdef0123456789-thread-tacv2-messageid-1764547200000",
    "trigger_source": "teams",
    "trigger_actor": "Ada Lovelace",
    "trigger_actor_teams_id": "29:1abc",
    "conversation_ref": {
        "conversation_id": "19:abcdef0123456789@thread.tacv2;messageid=1764547200000",
        "service_url": "https://smba.trafficmanager.net/emea/",
        "channel_id": "19:abcdef0123456789@thread.tacv2",
        "tenant_id": "11111111-2222-3333-4444-555555555555",
        "more": "ignored",
    },
}
#: The web UI: no thread id, the session to resume, members of times to come.
WEB = {"prompt": "Why is checkout slow?", "images": [], "file_attachments": None, "resume_session_id": "s", "new": [1]}


def headers_of(client: str, token: str) -> dict[str, str]:
    """Return the headers with which a client sends its token; the web UI sends both."""
    both = {"Authorization": f"Bearer {token}", "X-OpenSRE-Team-Token": token}
    names = {"teams": ["Authorization"], "header": ["X-OpenSRE-Team-Token"], "web": list(both)}
    return {"Content-Type": "application/json"} | {name: both[name] for name in names[client]}


def read(response: httpx.Response) -> Iterator[dict[str, Any]]:
    """Yield the events as the bots do: lines that begin with ``data: ``, one JSON each, until the stream ends."""
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))
