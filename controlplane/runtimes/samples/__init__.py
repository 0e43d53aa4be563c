"""A recorded incident of our own making, for a first look without any data of one's own."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from controlplane.runtimes.sources.snapshot import snapshot_from_folder

_FOLDER: Final = Path(__file__).parent / "checkout_storage"
_PROMPT: Final = "Why is checkout-db running out of storage, and what should we do first?"


@dataclass(frozen=True, slots=True)
class Sample:
    """What starts the sample investigation: the words, the alert, the evidence (``snapshot/1``)."""

    prompt: str
    alert: Mapping[str, Any]
    snapshot: Mapping[str, Any]


def load_sample() -> Sample:
    """Return the shipped sample: a database whose storage fills, with a red herring beside it."""
    snapshot = snapshot_from_folder(_FOLDER)
    return Sample(prompt=_PROMPT, alert=snapshot["alert"] or {}, snapshot=snapshot)
