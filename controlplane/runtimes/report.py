"""The report of an investigation, ``report/1``: the same for every runtime."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, model_validator

from controlplane.runtimes.evidence import Frozen


class Category(StrEnum):
    """Kinds of root cause; ``healthy`` is a false alarm or a recovered system, ``unknown`` that nothing explains it."""

    CONFIGURATION_ERROR = "configuration_error"
    CODE_DEFECT = "code_defect"
    DATA_QUALITY = "data_quality"
    RESOURCE_EXHAUSTION = "resource_exhaustion"
    DEPENDENCY_FAILURE = "dependency_failure"
    INFRASTRUCTURE = "infrastructure"
    HEALTHY = "healthy"
    UNKNOWN = "unknown"


class Severity(StrEnum):
    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"
    INFO = "info"


class ReportStatus(StrEnum):
    RESOLVED = "resolved"
    MITIGATED = "mitigated"
    ONGOING = "ongoing"
    INCONCLUSIVE = "inconclusive"


Text = Annotated[str, Field(max_length=4000)]
Citations = tuple[str, ...]


class Impact(Frozen):
    """``affected`` names the services or objects; ``user_facing`` is ``None`` when the evidence does not say."""

    summary: Text = ""
    affected: tuple[str, ...] = ()
    user_facing: bool | None = None


class TimelineEntry(Frozen):
    at: datetime
    text: Text
    citations: Citations = ()


class Hypothesis(Frozen):
    """One explanation. ``confidence`` is 0–1; ``supports`` and ``contradicts`` are observation ids."""

    category: Category
    object: str
    mechanism: Text
    confidence: Annotated[float, Field(ge=0, le=1)]
    supports: Citations = ()
    contradicts: Citations = ()


class Claim(Frozen):
    """A statement of fact with the observations it rests on; one without citations is an inference and says so."""

    text: Text
    citations: Citations = ()
    kind: Literal["observation", "inference"] = "observation"

    @model_validator(mode="after")
    def _observations_cite(self) -> "Claim":
        if self.kind == "observation" and not self.citations:
            raise ValueError("an observation cites at least one observation id")
        return self


class RuledOut(Frozen):
    hypothesis: Text
    reason: Text
    citations: Citations = ()


class NotChecked(Frozen):
    what: Text
    why: Text


class ActionItem(Frozen):
    priority: Literal["immediate", "short_term", "long_term"]
    action: Text


class Report(Frozen):
    """``root_cause`` is the first hypothesis, or ``None`` when there is none to state.

    ``causal_chain`` tells the steps from the cause to the symptom, in order.
    """

    format: Literal["report/1"] = "report/1"
    title: Text
    status: ReportStatus
    severity: Severity
    summary: Text
    impact: Impact = Impact()
    timeline: tuple[TimelineEntry, ...] = ()
    causal_chain: tuple[Text, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    root_cause: Hypothesis | None = None
    claims: tuple[Claim, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    actions: tuple[ActionItem, ...] = ()
    lessons: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _root_cause_is_first(self) -> "Report":
        if self.root_cause is not None and (not self.hypotheses or self.root_cause != self.hypotheses[0]):
            raise ValueError("root_cause must be the first hypothesis")
        return self

    def cited(self) -> frozenset[str]:
        """Return every observation id the report refers to."""
        groups: list[Citations] = [claim.citations for claim in self.claims]
        groups += [entry.citations for entry in self.timeline] + [item.citations for item in self.ruled_out]
        groups += [ids for hypothesis in self.hypotheses for ids in (hypothesis.supports, hypothesis.contradicts)]
        return frozenset(id_ for ids in groups for id_ in ids)
