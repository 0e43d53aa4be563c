"""Rules for services of any kind: what their logs say, with the symptoms beside it."""

from collections.abc import Iterator, Sequence
from typing import Final

from controlplane.runtimes.builtin.analysis.candidate import Candidate, act, cited, from_signs
from controlplane.runtimes.builtin.analysis.case import Case
from controlplane.runtimes.builtin.analysis.facts import distinct
from controlplane.runtimes.builtin.analysis.signs import SYMPTOMS, Sign, SignKind
from controlplane.runtimes.loose_json import text
from controlplane.runtimes.report import Category

_CATEGORY: Final = {
    SignKind.DEPENDENCY: Category.DEPENDENCY_FAILURE,
    SignKind.CODE_FAULT: Category.CODE_DEFECT,
    SignKind.BAD_DATA: Category.DATA_QUALITY,
    SignKind.BAD_CONFIG: Category.CONFIGURATION_ERROR,
    SignKind.CONNECTIONS_FULL: Category.RESOURCE_EXHAUSTION,
    SignKind.STORAGE_FULL: Category.RESOURCE_EXHAUSTION,
    SignKind.OOM_KILLED: Category.RESOURCE_EXHAUSTION,
}
_WORDS: Final = {
    SignKind.DEPENDENCY: "cannot reach what it depends on",
    SignKind.CODE_FAULT: "fails in its own code",
    SignKind.BAD_DATA: "fails on data it cannot read",
    SignKind.BAD_CONFIG: "is not configured as it needs to be",
    SignKind.CONNECTIONS_FULL: "runs out of connections",
    SignKind.STORAGE_FULL: "runs out of disk space",
    SignKind.OOM_KILLED: "runs out of memory",
}
_ACTIONS: Final = {
    SignKind.DEPENDENCY: "Check the dependency: is it up, resolvable and reachable?",
    SignKind.CODE_FAULT: "Roll back to the last release that ran; fix the fault the log names.",
    SignKind.BAD_DATA: "Set the offending input aside; find who wrote it.",
    SignKind.BAD_CONFIG: "Correct the setting the log names, or roll back the change that brought it.",
    SignKind.CONNECTIONS_FULL: "Find who holds the connections; end idle ones.",
    SignKind.STORAGE_FULL: "Free or add disk space.",
    SignKind.OOM_KILLED: "Raise the memory limit or lower the load until the cause is known.",
}


def service_candidates(case: Case) -> Iterator[Candidate]:
    """Yield one explanation for each kind of fault that logs of running services report now."""
    symptoms = [sign for sign in case.signs.of(*SYMPTOMS, current=True) if sign.kind is not SignKind.LOG_ERRORS]
    for kind, category in _CATEGORY.items():
        signs = [
            sign for sign in case.signs.of(kind, current=True) if "log" in sign.details and "pod" not in sign.details
        ]
        if signs:
            yield _candidate(kind, category, signs, symptoms)


def _candidate(kind: SignKind, category: Category, signs: Sequence[Sign], symptoms: Sequence[Sign]) -> Candidate:
    lead = signs[0]
    dependency = text(lead.details.get("dependency"))
    object_ = dependency if kind is SignKind.DEPENDENCY and dependency else lead.object
    several = 0.1 if len({sign.object for sign in signs}) > 1 else 0.0
    named = f" ({dependency})" if dependency else ""
    return Candidate(
        kind,
        f"{lead.object} {_WORDS[kind]}{named}",
        category,
        object_,
        f"{lead.object} {_WORDS[kind]}{named}: {lead.text}.",
        min(lead.strength + several + (0.2 if symptoms else 0.0), 0.9),
        distinct([*cited(signs[:6]), *cited(symptoms[:3])]),
        (f"{lead.object} {_WORDS[kind]}{named}.", *(f"{sign.text}." for sign in symptoms[:1])),
        from_signs([*signs[:4], *symptoms[:3]]),
        (act("immediate", _ACTIONS[kind]),),
        explains=frozenset({kind, *SYMPTOMS}),
        affected=distinct(sign.object for sign in signs[:20]),
    )
