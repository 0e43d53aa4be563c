"""How much of an answer is kept: whatever a server sends, the rest is left out and counted."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

from controlplane.runtimes.loose_json import items, mapping, text
from controlplane.runtimes.sources.live.source import Reading

MOST_LABELS: Final = 64  # of one series or alert
LABEL_CHARS: Final = 200  # of a label's name, and of its value
MOST_SAMPLES: Final = 2_000  # of an answer at one time
MOST_POINTS_KEPT: Final = 1_000  # of one series; far fewer are asked for
MOST_SERIES_KEPT: Final = 500  # of an answer over time
MOST_NAMES: Final = 20_000  # of families; each is weighed before the first is asked for
MOST_NAMED: Final = 5_000  # labels, or values of one
MOST_STATES: Final = 2_000
MOST_LINKS: Final = 20_000
MOST_WARNINGS: Final = 20  # of one answer
END_OF_TIME_S: Final = 253_402_300_800  # the year 10000, which no datetime holds

T = TypeVar("T")


def first_of(found: Sequence[T], most: int, what: str, reading: Reading | None) -> Sequence[T]:
    """Return the first ``most`` of ``found``; how many of ``what`` were left out is noted as a problem."""
    if reading is not None and len(found) > most:
        reading.problem(f"{what} left out, at most {most:,} are read", len(found) - most)
    return found[:most]


def labels_of(raw: Any, reading: Reading | None, *, first: Iterable[str] = ()) -> dict[str, str]:
    """Return the labels of a series or an alert: at most 64, with values of at most 200 characters.

    Args:
        raw: an object of names and values; anything else has no labels.
        reading: where it is noted what was left out.
        first: names of those that are kept before all others.
    """
    there = mapping(raw)
    names = [str(name) for name in there if len(str(name)) <= LABEL_CHARS]
    if len(names) > MOST_LABELS:
        wanted = dict.fromkeys(name for name in first if name in there)
        # Sorted, so that a series keeps the same ones in each answer.
        names = [*wanted, *sorted(name for name in names if name not in wanted)][:MOST_LABELS]
    labels = {name: text(there[name]) for name in names}
    long = [name for name, value in labels.items() if len(value) > LABEL_CHARS]
    for name in long:
        labels[name] = labels[name][:LABEL_CHARS]
    if reading is not None and len(labels) < len(there):
        problem = f"label left out, at most {MOST_LABELS} of one series are read, with names up to {LABEL_CHARS} long"
        reading.problem(problem, len(there) - len(labels))
    if reading is not None and long:
        reading.problem(f"value of a label cut after {LABEL_CHARS} characters", len(long))
    return labels


def texts_of(raw: Any, most: int, what: str, reading: Reading | None) -> list[str]:
    """Return the texts of a list, at most ``most``; those of more than 200 characters are left out and counted."""
    texts = [one for one in items(raw) if isinstance(one, str)]
    fitting = [one for one in texts if len(one) <= LABEL_CHARS]
    if reading is not None and len(fitting) < len(texts):
        reading.problem(f"{what} left out that is longer than {LABEL_CHARS} characters", len(texts) - len(fitting))
    return list(first_of(fitting, most, what, reading))
