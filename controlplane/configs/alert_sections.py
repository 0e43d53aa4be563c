"""The section ``alerts``: where alerts come from, how they are verified and read, and when they start runs."""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from controlplane.configs.pointers import PointerSyntaxError, decode
from controlplane.configs.reference_fields import Reference

ALERT_SOURCES: Final = (
    "alertmanager", "grafana", "pagerduty", "opsgenie", "datadog", "sentry", "cloudwatch", "azure", "incidentio",
    "generic",
)  # fmt: skip
"""Who sends alerts. Parser and verifier of each are in ``controlplane.alerts.vendors``."""

AlertSourceKind = Literal[
    "alertmanager",
    "grafana",
    "pagerduty",
    "opsgenie",
    "datadog",
    "sentry",
    "cloudwatch",
    "azure",
    "incidentio",
    "generic",
]


def _pointer(value: str) -> str:
    try:
        decode(value)
    except PointerSyntaxError:
        message = 'A field is named by a JSON Pointer, for example "/event/title"'
        raise PydanticCustomError("pointer_form", message) from None
    return value


BodyPointer = Annotated[str, Field(max_length=300), AfterValidator(_pointer)]
Words = Annotated[list[Annotated[str, Field(min_length=1, max_length=60)]], Field(max_length=40)]
SourceName = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$")]
TopicArn = Annotated[str, Field(pattern=r"^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_.-]{1,256}$")]
GroupLabel = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,99}$")]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9-]{0,99}$")]


class AlertMapping(BaseModel):
    """``mapping``: where a JSON body has what. Pointers into each alert, or into the body where there is no list."""

    model_config = ConfigDict(extra="forbid", strict=True)

    alerts: BodyPointer | None = Field(None, description="The list of alerts in the body; left out: the body is one.")
    name: BodyPointer | None = Field(None, description="What the alert is called; left out: the usual members.")
    severity: BodyPointer | None = None
    status: BodyPointer | None = Field(None, description="Firing or resolved; left out: every alert fires.")
    resolved_values: Words | None = Field(None, description="Values of status that mean resolved, else usual words do.")
    summary: BodyPointer | None = None
    service: BodyPointer | None = Field(None, description="What the alert is about.")
    host: BodyPointer | None = None
    workload: BodyPointer | None = None
    starts_at: BodyPointer | None = Field(None, description="ISO 8601, or seconds or milliseconds since 1970.")
    url: BodyPointer | None = None
    fingerprint: BodyPointer | None = Field(None, description="Tells alerts apart, the same firing and resolved.")
    group: BodyPointer | None = Field(None, description="Alerts with the same value share one investigation.")
    delivery_id: BodyPointer | None = Field(None, description="In the body: the same when it is sent again.")
    labels: Annotated[dict[Annotated[str, Field(min_length=1, max_length=100)], BodyPointer], Field(max_length=50)] = (
        Field(default_factory=dict, description="Further labels by name.")
    )


class AlertSource(BaseModel):
    """One of ``alerts.sources``: a sender, and how its deliveries are verified.

    One without a kind, or without what its kind is verified by, takes nothing in.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: AlertSourceKind | None = Field(None, description="Who sends; a level above may say it.")
    enabled: bool | None = Field(None, description="Whether deliveries are taken; true when left out.")
    secret: Reference | None = Field(None, description="Reference to the signing secret or token, ${NAME}.")
    previous_secret: Reference | None = Field(None, description="The one before, accepted too while secrets change.")
    signature: Literal["hmac-sha256", "token"] | None = Field(
        None, description="Of grafana and generic: how deliveries prove themselves; hmac-sha256 when left out."
    )
    signature_header: HeaderName | None = Field(None, description="Of grafana and generic: the signature's header.")
    timestamp_header: HeaderName | None = Field(None, description="Of grafana: the header whose time is signed too.")
    topics: Annotated[list[TopicArn], Field(max_length=50)] | None = Field(
        None, description="Of cloudwatch: ARNs of the SNS topics that are accepted."
    )
    mapping: AlertMapping | None = Field(None, description="Of generic: where the body has what.")


class AlertsSection(BaseModel):
    """``alerts``: where alerts come from, and when they start runs."""

    model_config = ConfigDict(extra="allow", strict=True)

    repeat_window_s: Annotated[int, Field(ge=0, le=30 * 86_400)] | None = Field(
        None, description="Seconds after a run's end in which the same alerts start no other run; 14400 when left out."
    )
    debounce_s: Annotated[int, Field(ge=0, le=3_600)] | None = Field(
        None, description="Seconds an alert must keep firing before it starts a run; critical ones wait for nothing; 0."
    )
    runs_per_hour: Annotated[int, Field(ge=1, le=10_000)] | None = Field(
        None, description="Runs that alerts may start in an hour; 30 when left out."
    )
    group_by: Annotated[list[GroupLabel], Field(max_length=5)] | None = Field(
        None, description="Labels: alerts that come one by one and have these alike share one investigation."
    )
    sources: dict[SourceName, AlertSource | None] | None = Field(None, description="Senders by name.")
