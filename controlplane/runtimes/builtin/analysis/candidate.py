"""An explanation that a rule puts forward, with all it takes to report it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from controlplane.runtimes.builtin.analysis.facts import distinct
from controlplane.runtimes.builtin.analysis.signs import Sign, SignKind
from controlplane.runtimes.report import ActionItem, Category, Claim, Hypothesis

#: Rules never see everything, so no explanation counts as certain.
MOST_CONFIDENT: Final = 0.95


@dataclass(frozen=True, slots=True)
class Candidate:
    """``kind`` is the sign it is built on, ``explains`` are the kinds of signs that follow from it.

    ``score`` is 0 to 1 before ranking; ``headline`` a few words; ``chain`` runs from the cause to the symptom.
    """

    kind: SignKind | None
    headline: str
    category: Category
    object: str
    mechanism: str
    score: float
    supports: tuple[str, ...]
    chain: tuple[str, ...] = ()
    claims: tuple[Claim, ...] = ()
    actions: tuple[ActionItem, ...] = ()
    contradicts: tuple[str, ...] = ()
    explains: frozenset[SignKind] = frozenset()
    affected: tuple[str, ...] = ()

    def hypothesis(self) -> Hypothesis:
        """Return the candidate as it stands in a report."""
        return Hypothesis(
            category=self.category,
            object=self.object,
            mechanism=self.mechanism,
            confidence=round(min(max(self.score, 0.0), MOST_CONFIDENT), 2),
            supports=self.supports,
            contradicts=self.contradicts,
        )


@dataclass(frozen=True, slots=True)
class Story:
    """How a cause works, as one rule tells it: the mechanism in a sentence, its steps, what shows it, what to do."""

    mechanism: str
    chain: tuple[str, ...]
    claims: tuple[Claim, ...] = ()
    actions: tuple[ActionItem, ...] = ()
    supports: tuple[str, ...] = ()


def seen(text: str, *citations: str) -> Claim:
    """Return an observation: a statement with what it rests on."""
    return Claim(text=text, citations=distinct(citations))


def inferred(text: str, *citations: str) -> Claim:
    """Return an inference."""
    return Claim(text=text, citations=distinct(citations), kind="inference")


def from_signs(signs: Iterable[Sign]) -> tuple[Claim, ...]:
    """Return each sign as an observation."""
    return tuple(seen(f"{sign.text}.", *sign.citations) for sign in signs)


def cited(signs: Iterable[Sign]) -> tuple[str, ...]:
    """Return what signs rest on."""
    return distinct(id_ for sign in signs for id_ in sign.citations)


def act(priority: str, action: str) -> ActionItem:
    """Return an action; ``priority`` is ``immediate``, ``short_term`` or ``long_term``."""
    return ActionItem.model_validate({"priority": priority, "action": action})


def listed(names: Iterable[str], most: int = 4) -> str:
    """Return names as a person lists them: ``a, b and c``, ``a, b, c, d and 3 more``."""
    all_ = list(dict.fromkeys(names))
    if len(all_) > most:
        return f"{', '.join(all_[:most])} and {len(all_) - most} more"
    return " and ".join([", ".join(all_[:-1]), all_[-1]]) if len(all_) > 1 else "".join(all_)
