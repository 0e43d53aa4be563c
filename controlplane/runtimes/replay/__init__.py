"""Recordings of runs, and the runtime that plays them."""

from controlplane.runtimes.replay.recording import (
    FORMAT,
    MAX_BYTES,
    RecordedEvent,
    Recording,
    is_recording,
    recording_validate,
)
from controlplane.runtimes.replay.runtime import ReplayRuntime

__all__ = ["FORMAT", "MAX_BYTES", "RecordedEvent", "Recording", "ReplayRuntime", "is_recording", "recording_validate"]
