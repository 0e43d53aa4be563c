"""The port to the apps that own a kind of review: they register it in ``AppConfig.ready()``."""

from dataclasses import dataclass, field
from typing import Any, Protocol

from controlplane.core.actor import Actor
from controlplane.core.permissions import Action
from controlplane.reviews.models import ReviewRequest, ReviewState


@dataclass(frozen=True, slots=True)
class Verdict:
    """What re-validation found. ``moved``: what the review was made against has changed since where it matters.

    ``diff`` holds the operations as they would be now.
    """

    moved: bool = False
    diff: list[Any] = field(default_factory=list)


class ReviewKind(Protocol):
    """What one kind of review does."""

    name: str
    #: What an author must still be allowed to do on the node to see its own request.
    read_action: Action

    def describe(self, review: ReviewRequest) -> str:
        """Return one line that says what the request is about; no value that may be secret."""

    def may_decide(self, actor: Actor, review: ReviewRequest) -> bool:
        """Return whether ``actor``, who is in the role and not the author, may decide this one."""

    def lock(self, review: ReviewRequest, *, applying: bool) -> None:
        """Lock what the end of the review touches, until the transaction ends: of one that is applied all that applying
        touches, so that nothing moves after re-validation; of another what :meth:`settle` does."""

    def revalidate(self, review: ReviewRequest) -> Verdict:
        """Judge the request against the present, writing nothing.

        Raises:
            AppError: it may not be applied as things are (a rule forbids it now); it stays pending.
        """

    def apply(self, review: ReviewRequest, actor: Actor) -> dict[str, Any]:
        """Do what was approved, in the caller's transaction, and return a JSON object that says what became of it."""

    def settle(self, review: ReviewRequest, state: ReviewState) -> None:
        """Do what follows when it is rejected, withdrawn or expires, in the caller's transaction.

        ``review`` is as it is now, with who ended it and why.
        """


_kinds: dict[str, ReviewKind] = {}


def register_kind(kind: ReviewKind) -> None:
    """Make ``kind`` known under its name. Called in ``AppConfig.ready()``."""
    _kinds[kind.name] = kind


def kind_of(name: str) -> ReviewKind:
    """Return a registered kind.

    Raises:
        RuntimeError: no app registered it: an error of the installation, not of a request.
    """
    if name not in _kinds:
        raise RuntimeError(f"no app has registered the kind of review {name!r}")
    return _kinds[name]


def kinds() -> tuple[ReviewKind, ...]:
    """Return every registered kind."""
    return tuple(_kinds.values())
