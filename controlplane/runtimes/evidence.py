"""Evidence in its one typed form, for every source, tool and runtime."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

JsonValue = Any  # a JSON value; pydantic's recursive JsonValue costs more than it tells here


class ObservationKind(StrEnum):
    METRIC = "metric"
    LOG = "log"
    EVENT = "event"
    STATE = "state"
    TRACE = "trace"
    ALERT = "alert"
    CHANGE = "change"
    TOPOLOGY = "topology"


class Frozen(BaseModel):
    """A value that never changes once made and refuses unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class TimeRange(Frozen):
    """From ``start`` to ``end``, both aware; ``end`` equals ``start`` for an instant."""

    start: datetime
    end: datetime


class Observation(Frozen):
    """One thing a tool saw, citable by ``id`` (``{tool_use_id}.{n}``, minted by the toolbox).

    ``source`` is where it was read (``aws_cloudwatch_metrics``), ``object`` what it is about (a service, pod,
    database), ``value`` its measured content as JSON, ``quote`` the words a person reads beside the citation.
    """

    id: str
    source: str
    object: str
    kind: ObservationKind
    at: TimeRange | None = None
    value: JsonValue = None
    quote: Annotated[str, Field(max_length=2000)]


class ToolResult(Frozen):
    """What a tool answered. ``text`` is bounded; ``truncated`` and ``hint`` say how to narrow the query."""

    ok: bool
    observations: tuple[Observation, ...] = ()
    text: str = ""
    truncated: bool = False
    hint: str = ""
    error: str = ""


SideEffect = Literal["read", "write", "destructive"]
