"""Every event type and the schema of its data: the one vocabulary of the log, the streams and the clients.

Field names are those of OpenSRE's wire protocol; ours add, never rename. Unknown fields are refused on writing, so the
log holds nothing that is not described here; readers ignore what they do not know.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any, Final, Literal

from pydantic import BaseModel

from controlplane.runtimes.evidence import Frozen, JsonValue, Observation
from controlplane.runtimes.report import Report


class EventType(StrEnum):
    RUN_STARTED = "run_started"
    THOUGHT = "thought"
    TOOL_START = "tool_start"
    TOOL_END = "tool_end"
    TASK_STARTED = "task_started"
    TASK_NOTIFICATION = "task_notification"
    BACKGROUND_WAITING = "background_waiting"
    MESSAGE_QUEUED = "message_queued"
    QUESTION = "question"
    QUESTION_ANSWERED = "question_answered"
    QUESTION_TIMEOUT = "question_timeout"
    APPROVAL = "approval"
    APPROVAL_DECIDED = "approval_decided"
    RESULT = "result"
    ERROR = "error"
    RUN_ENDED = "run_ended"


class FileRef(Frozen):
    """A file of the thread, read at ``/api/v1/threads/{thread}/files/{id}``."""

    id: str
    name: str
    media_type: str
    size_bytes: int


class RunStarted(Frozen):
    """Appended once, when the run is accepted."""

    run_id: str
    prompt: str
    by: str
    runtime: str
    agent: str = ""
    sample: bool = False
    attachments: tuple[FileRef, ...] = ()


class Thought(Frozen):
    text: str
    parent_tool_use_id: str | None = None


class Attribution(Frozen):
    """Which agent acted; ``depth`` 0 is the root agent."""

    tool_use_id: str
    parent_tool_use_id: str | None = None
    agent_id: str | None = None
    agent_type: str | None = None
    parent_agent_id: str | None = None
    parent_agent_type: str | None = None
    depth: int = 0


class ToolStart(Attribution):
    name: str
    input: dict[str, JsonValue] = {}
    description: str | None = None


#: The summary of a call that was closed from outside.
CUT_OFF: Final = "interrupted"


class ToolEnd(Attribution):
    name: str
    success: bool
    summary: str = ""
    error: str | None = None
    output: str | None = None
    truncated: bool = False
    observations: tuple[Observation, ...] = ()
    duration_ms: int | None = None

    @property
    def cut_off(self) -> bool:
        """Whether the call did not end by itself: the log was closed because its worker stopped or was lost."""
        return not self.success and self.summary == CUT_OFF


class TaskStarted(Frozen):
    task_id: str
    description: str
    tool_use_id: str | None = None
    task_type: str | None = None


class TaskNotification(Frozen):
    task_id: str
    status: str
    summary: str = ""


class BackgroundWaiting(Frozen):
    pending_count: int
    pending_task_ids: tuple[str, ...] = ()
    label: str = ""


class MessageQueued(Frozen):
    """A message was accepted (``run_id`` of the envelope is null when nothing runs)."""

    message_id: str
    text: str
    by: str
    pending_count: int
    attachments: tuple[FileRef, ...] = ()


class QuestionOption(Frozen):
    label: str
    description: str = ""


class QuestionItem(Frozen):
    question: str
    header: str = ""
    options: tuple[QuestionOption, ...] = ()
    multiSelect: bool = False  # noqa: N815 (the wire protocol's name)


class Question(Frozen):
    request_id: str
    questions: tuple[QuestionItem, ...]
    expires_at: datetime | None = None


class QuestionAnswered(Frozen):
    request_id: str
    answers: dict[str, str]
    by: str


class QuestionTimeout(Frozen):
    request_id: str
    message: str


class Approval(Frozen):
    """A person is asked whether a call may be made: exactly this one, as ``digest`` binds it (SHA-256)."""

    request_id: str
    tool: str
    input: dict[str, JsonValue]
    digest: str
    expires_at: datetime | None = None
    tool_use_id: str = ""
    side_effect: str = ""


class ApprovalDecided(Frozen):
    request_id: str
    decision: Literal["approved", "rejected", "expired"]
    by: str
    reason: str = ""


class Usage(Frozen):
    """What the turn cost; ``None`` where the runtime cannot know."""

    turns: int | None = None
    tool_calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None


class Result(Frozen):
    """The answer. ``subtype`` is ``success``, ``interrupted`` or ``error_*``."""

    text: str
    success: bool
    subtype: str = "success"
    report: Report | None = None
    usage: Usage | None = None
    files: tuple[FileRef, ...] = ()


class Error(Frozen):
    code: str
    message: str
    recoverable: bool = False


class RunEnded(Frozen):
    """The only end marker: exactly one for each run."""

    status: Literal["completed", "failed", "interrupted", "timeout"]
    reason: str = ""
    duration_ms: int = 0


EVENT_DATA: Final[dict[EventType, type[BaseModel]]] = {
    EventType.RUN_STARTED: RunStarted,
    EventType.THOUGHT: Thought,
    EventType.TOOL_START: ToolStart,
    EventType.TOOL_END: ToolEnd,
    EventType.TASK_STARTED: TaskStarted,
    EventType.TASK_NOTIFICATION: TaskNotification,
    EventType.BACKGROUND_WAITING: BackgroundWaiting,
    EventType.MESSAGE_QUEUED: MessageQueued,
    EventType.QUESTION: Question,
    EventType.QUESTION_ANSWERED: QuestionAnswered,
    EventType.QUESTION_TIMEOUT: QuestionTimeout,
    EventType.APPROVAL: Approval,
    EventType.APPROVAL_DECIDED: ApprovalDecided,
    EventType.RESULT: Result,
    EventType.ERROR: Error,
    EventType.RUN_ENDED: RunEnded,
}

#: What a runtime may emit; the rest belongs to the log's own services.
RUNTIME_EVENTS: Final[frozenset[EventType]] = frozenset(
    {
        EventType.THOUGHT, EventType.TOOL_START, EventType.TOOL_END, EventType.TASK_STARTED,
        EventType.TASK_NOTIFICATION, EventType.BACKGROUND_WAITING, EventType.QUESTION, EventType.APPROVAL,
        EventType.RESULT, EventType.ERROR,
    }
)  # fmt: skip


def event_schemas() -> dict[str, dict[str, Any]]:
    """Return the JSON Schema (draft 2020-12) of each type's ``data``, by type."""
    return {str(kind): model.model_json_schema() for kind, model in EVENT_DATA.items()}
