"""The port through which a call with side effects is made: once, if a person has approved exactly it."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import orjson

from controlplane.runtimes.events import ToolEnd
from controlplane.runtimes.evidence import JsonValue


@dataclass(frozen=True, slots=True)
class Permit:
    """Whether an approved call may be made now.

    One of the three is set: ``arguments``, exactly those that were approved; ``done``, how it ended when it was made
    before; ``refusal``, why it may not be made, in words for the agent.
    """

    arguments: Mapping[str, JsonValue] | None = None
    done: ToolEnd | None = None
    refusal: str = ""


class ActionGate(Protocol):
    """Keeps which calls were approved and which were made, durably, so that none is made twice."""

    async def begin(self, request_id: str, *, again: bool) -> Permit:
        """Take the one execution of an approved call.

        Args:
            request_id: of the approval.
            again: whether a call that was begun and has not ended may be made once more.
        """

    async def finish(self, request_id: str, end: ToolEnd) -> None:
        """Record how the call ended."""


def action_digest(tool: str, arguments: Mapping[str, JsonValue]) -> str:
    """Return what an approval is bound to: the SHA-256 of tool and arguments, hexadecimal.

    The order of members does not count (RFC 8785 in spirit: sorted keys, no white space).
    """
    return hashlib.sha256(orjson.dumps({"input": arguments, "tool": tool}, option=orjson.OPT_SORT_KEYS)).hexdigest()
