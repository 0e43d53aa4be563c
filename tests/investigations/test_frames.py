"""The two forms in which an event is sent: whole to its audience, withheld to the others."""

from uuid import uuid4

import orjson
import pytest

from controlplane.core import clock
from controlplane.investigations.envelope import LoggedEvent
from controlplane.investigations.frames import Frame
from controlplane.investigations.models import Audience


def frame_for(audience: Audience) -> Frame:
    event = LoggedEvent(uuid4(), 7, None, "thought", clock.now(), audience, '{"text":"only mine"}')
    return Frame.of(event)


@pytest.mark.parametrize("order", [(True, False, True), (False, True, False)], ids=["starter-first", "other-first"])
def test_envelope__of_the_starter__is_never_anybody_elses(order: tuple[bool, ...]) -> None:
    frame = frame_for(Audience.STARTER)

    for starter in order:
        data = orjson.loads(frame.envelope_for(starter=starter))["data"]
        assert data == ({"text": "only mine"} if starter else {"withheld": True})


def test_envelope__of_the_thread__is_made_once_for_all_viewers() -> None:
    frame = frame_for(Audience.THREAD)

    first = frame.envelope_for(starter=True)

    assert orjson.loads(first)["seq"] == 7
    assert frame.envelope_for(starter=False) is first
