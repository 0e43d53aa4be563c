"""A recorded run, ``replay/1``: what one run said and when, as a file that can be played again anywhere."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import Field, ValidationError

from controlplane.core.errors import FieldError, InvalidInput, invalid
from controlplane.core.text import shown_token
from controlplane.runtimes.events import EVENT_DATA, EventType
from controlplane.runtimes.evidence import Frozen, JsonValue

FORMAT: Final = "replay/1"
#: As large as evidence that is given inline may be.
MAX_BYTES: Final = 8 * 1024 * 1024
MAX_EVENTS: Final = 20_000
MAX_AT_MS: Final = 7 * 24 * 3_600_000
#: Of an event that its reader may not see, a recording has the place and nothing else.
WITHHELD: Final = {"withheld": True}

_NOT_RECORDED: Final = frozenset({EventType.RUN_STARTED, EventType.RUN_ENDED})
_MOST_ERRORS: Final = 20


class RecordedEvent(Frozen):
    """One event of the run. ``at_ms`` counts from the run's acceptance; ``data`` is that of the event's type."""

    type: EventType
    at_ms: Annotated[int, Field(ge=0, le=MAX_AT_MS)]
    data: dict[str, JsonValue]

    @property
    def is_withheld(self) -> bool:
        """Whether who recorded it did not see it."""
        return self.data == WITHHELD


class Recording(Frozen):
    """A run from its first event to its last; how it began and ended is beside the events.

    ``turn`` is the run's number in its thread, which its ids begin with (``t2-1``). ``speed`` is for playing it: 1 as
    it was, 2 twice as fast, 0 without any pause.
    """

    format: Literal["replay/1"]
    prompt: Annotated[str, Field(max_length=32_000)]
    alert: dict[str, JsonValue] | None = None
    runtime: Annotated[str, Field(max_length=63)] = ""
    turn: Annotated[int, Field(ge=1, le=10**9)] = 1
    started_at: datetime | None = None
    status: Annotated[str, Field(max_length=12)] = ""
    reason: Annotated[str, Field(max_length=200)] = ""
    speed: Annotated[float, Field(ge=0, le=1_000)] = 1.0
    events: Annotated[tuple[RecordedEvent, ...], Field(max_length=MAX_EVENTS)]


def is_recording(value: object) -> bool:
    """Return whether evidence says of itself that it is a recording."""
    return isinstance(value, Mapping) and value.get("format") == FORMAT


def recording_validate(value: object) -> dict[str, Any]:
    """Return a recording that was given inline as evidence, as JSON.

    Raises:
        InvalidInput: ``evidence_too_large`` beyond 8 MiB of JSON, else ``invalid_evidence`` with an error, at its JSON
            Pointer, for each rule broken (twenty at most).
    """
    if not isinstance(value, Mapping):
        raise invalid("/evidence", "evidence_not_inline", "A recording is an object, given inline.")
    size = len(orjson.dumps(value))
    if size > MAX_BYTES:
        detail = f"The recording has {size:,} bytes of JSON; at most {MAX_BYTES:,} are accepted."
        raise invalid("/evidence", "evidence_too_large", detail)
    try:
        recording = Recording.model_validate(value)
    except ValidationError as error:
        raise _invalid(list(_rules(error, "/evidence"))) from None
    errors = [broken for index, event in enumerate(recording.events) for broken in _broken(index, event)]
    if errors:
        raise _invalid(errors)
    return recording.model_dump(mode="json")


def _invalid(errors: list[FieldError]) -> InvalidInput:
    return InvalidInput(
        f"The recording breaks the rules of {FORMAT}.", code="invalid_evidence", errors=errors[:_MOST_ERRORS]
    )


def _broken(index: int, event: RecordedEvent) -> Iterator[FieldError]:
    pointer = f"/evidence/events/{index}"
    if event.type in _NOT_RECORDED:
        yield FieldError(f"{pointer}/type", "not_recorded", "The beginning and the end of a run are no events of it.")
    elif not event.is_withheld:
        try:
            EVENT_DATA[event.type].model_validate(event.data)
        except ValidationError as error:
            yield from _rules(error, f"{pointer}/data")


def _rules(error: ValidationError, pointer: str) -> Iterator[FieldError]:
    for item in error.errors(include_input=False, include_url=False, include_context=False):
        place = "".join(f"/{shown_token(str(part))}" for part in item["loc"])
        yield FieldError(f"{pointer}{place}"[:300], item["type"], f"{item['msg']}.")
