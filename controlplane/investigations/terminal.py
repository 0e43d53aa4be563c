"""A run as lines of a terminal: what happens while it happens, the report at the end."""

from collections.abc import Mapping
from typing import Any, Final, Protocol
from uuid import UUID

from controlplane.investigations.starting import Started

_BOLD: Final = "1"
_DIM: Final = "2"
_RED: Final = "31"
_GREEN: Final = "32"
_YELLOW: Final = "33"
_CYAN: Final = "36"
_STATUS_COLOR: Final = {"completed": _GREEN, "failed": _RED, "timeout": _YELLOW, "interrupted": _YELLOW}


class Output(Protocol):
    def write(self, msg: str = "", /) -> Any: ...
    def flush(self) -> Any: ...


class TerminalView:
    """Writes one line per event and the report as sections. Text of agents and tools loses its control characters."""

    def __init__(self, output: Output, *, color: bool) -> None:
        self._output = output
        self._color = color
        self._quotes: dict[str, str] = {}

    def opening(self, started: Started) -> None:
        thread: UUID = started.thread.pk
        self._line(self._paint(f"Investigation {thread}", _BOLD))
        self._line(self._paint(f"/app/threads/{thread}", _DIM))

    def show(self, event: Mapping[str, Any]) -> None:
        """Write one envelope."""
        handler = getattr(self, f"_on_{event['type']}", None)
        if handler is not None:
            handler(event["data"])
        self._output.flush()

    def _on_run_started(self, data: Mapping[str, Any]) -> None:
        self._line(f"{self._paint('?', _CYAN)} {_clean(data['prompt'])}")
        self._line(self._paint(f"  runtime {data['runtime']}, asked by {_clean(data['by'])}", _DIM))

    def _on_thought(self, data: Mapping[str, Any]) -> None:
        self._line(f"{self._paint('·', _DIM)} {_clean(data['text'])}")

    def _on_tool_start(self, data: Mapping[str, Any]) -> None:
        what = data.get("description") or ", ".join(f"{key}={value}" for key, value in data["input"].items())
        self._line(f"{self._paint('→', _CYAN)} {data['name']} {self._paint(_clean(str(what))[:160], _DIM)}")

    def _on_tool_end(self, data: Mapping[str, Any]) -> None:
        mark = self._paint("✓", _GREEN) if data["success"] else self._paint("✗", _RED)
        self._line(f"  {mark} {_clean(data.get('error') or data['summary'])}")
        for item in data["observations"]:
            self._quotes[item["id"]] = f"{item['source']} · {item['object']}: {item['quote']}"

    def _on_question(self, data: Mapping[str, Any]) -> None:
        for item in data["questions"]:
            self._line(f"{self._paint('The agent asks:', _YELLOW)} {_clean(item['question'])}")
        self._line(self._paint("  Answer it on the thread's page or over the API.", _DIM))

    def _on_message_queued(self, data: Mapping[str, Any]) -> None:
        if data["text"]:
            self._line(f"{self._paint('+', _CYAN)} {_clean(data['by'])}: {_clean(data['text'])}")

    def _on_error(self, data: Mapping[str, Any]) -> None:
        self._line(f"{self._paint('!', _RED)} {_clean(data['message'])} ({data['code']})")

    def _on_result(self, data: Mapping[str, Any]) -> None:
        self._line("")
        if data.get("report"):
            self._report(data["report"])
        else:
            self._line(_clean(data["text"]))

    def _on_run_ended(self, data: Mapping[str, Any]) -> None:
        status = self._paint(data["status"], _STATUS_COLOR[data["status"]])
        reason = f" ({_clean(data['reason'])})" if data["reason"] else ""
        self._line(f"\n{status}{reason} after {data['duration_ms'] / 1000:.1f} s")

    def _report(self, report: Mapping[str, Any]) -> None:
        self._line(self._paint(_clean(report["title"]), _BOLD))
        self._line(f"{report['status']}, severity {report['severity']}\n")
        self._line(_clean(report["summary"]))
        cause = report["root_cause"]
        if cause:
            self._heading("Root cause")
            confidence = f"{cause['confidence']:.0%}"
            self._line(f"{cause['category']} · {_clean(cause['object'])} · confidence {confidence}")
            self._line(_clean(cause["mechanism"]))
        self._items("Evidence", [(item["text"], item["citations"]) for item in report["claims"]])
        others = [item for item in report["hypotheses"] if item != cause]
        self._items("Other hypotheses", [(f"{h['category']} · {h['mechanism']}", h["supports"]) for h in others])
        self._items("Ruled out", [(f"{r['hypothesis']}: {r['reason']}", r["citations"]) for r in report["ruled_out"]])
        self._items("Not checked", [(f"{item['what']}: {item['why']}", []) for item in report["not_checked"]])
        self._items("Actions", [(f"{a['priority'].replace('_', ' ')}: {a['action']}", []) for a in report["actions"]])
        self._citations(report)

    def _items(self, title: str, items: list[tuple[str, list[str]]]) -> None:
        if not items:
            return
        self._heading(title)
        for text, citations in items:
            cited = "".join(f" [{id_}]" for id_ in citations)
            self._line(f"- {_clean(text)}{self._paint(cited, _DIM)}")

    def _citations(self, report: Mapping[str, Any]) -> None:
        cited = [id_ for claim in report["claims"] for id_ in claim["citations"]]
        known = [id_ for id_ in dict.fromkeys(cited) if id_ in self._quotes]
        if not known:
            return
        self._heading("Citations")
        for id_ in known:
            self._line(f"[{id_}] {self._paint(_clean(self._quotes[id_])[:300], _DIM)}")

    def _heading(self, text: str) -> None:
        self._line(f"\n{self._paint(text, _BOLD)}")

    def _line(self, text: str) -> None:
        self._output.write(text)

    def _paint(self, text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self._color and text else text


def _clean(text: str) -> str:
    """Return text without control characters: what an agent or tool said must not steer the terminal."""
    return "".join(character for character in text if character in "\n\t" or character.isprintable())
