"""The known sections of a document and their JSON Schema."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ModelWrapValidatorHandler, model_validator

from controlplane.configs.action_sections import Actions
from controlplane.configs.agent_sections import Agents, McpServers, Memory, RemoteAgents, TeamContext, Tools
from controlplane.configs.alert_sections import AlertsSection
from controlplane.configs.endpoint_sections import AuthSection, BaseUrl, Headers
from controlplane.configs.reference_fields import Reference
from controlplane.configs.webhook_sections import Webhooks

MIB = 1024 * 1024
#: Kinds of integrations whose fields are checked; documents may hold others, which are kept as they are.
INTEGRATION_KINDS: Final = ("prometheus", "alertmanager", "loki")


class LimitsSection(BaseModel):
    """``limits``: where a run ends. ``null`` hides an inherited value and leaves the built-in default."""

    model_config = ConfigDict(extra="allow", strict=True)

    wall_clock_s: Annotated[int, Field(ge=1, le=86_400)] | None = Field(None, description="Seconds a run may take.")
    max_turns: Annotated[int, Field(ge=1, le=10_000)] | None = Field(None, description="Turns of the root agent.")
    max_tokens: Annotated[int, Field(ge=1, le=10**12)] | None = Field(None, description="Tokens, in and out, of a run.")
    max_cost_usd: Annotated[float, Field(gt=0, le=10**6)] | None = Field(None, description="Cost of a run, US dollars.")
    tool_output_bytes: Annotated[int, Field(ge=1024, le=16 * MIB)] | None = Field(
        None, description="Bytes of one tool's output that are kept."
    )
    concurrent_runs: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Runs of the team at a time."
    )


class RuntimeSection(BaseModel):
    """``runtime``: what executes a run."""

    model_config = ConfigDict(extra="allow", strict=True)

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")] | None = Field(
        None, description="Name of an installed runtime, for example builtin or remote."
    )
    url: BaseUrl | None = Field(None, description="Of kind remote: address of the agent server.")
    token: Reference | None = Field(None, description="Of kind remote: reference to its bearer token, ${NAME}.")
    idle_timeout_s: Annotated[float, Field(ge=1, le=3_600)] | None = Field(
        None, description="Of kind remote: seconds without a byte after which the server counts as stalled; 300."
    )


LabelName = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,99}$")]


class LabelsSection(BaseModel):
    """``labels``: which labels of the source say what."""

    model_config = ConfigDict(extra="allow", strict=True)

    object: LabelName | None = Field(None, description="Label that names the object a series or line is about.")


class IntegrationSection(BaseModel):
    """One of ``integrations``: a data source or destination.

    Of an unknown ``kind``, or none (which a level above may set), the other fields are not checked.
    """

    model_config = ConfigDict(extra="allow", strict=True)

    kind: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")] | None = Field(
        None, description=f"{', '.join(INTEGRATION_KINDS)}, or another, which is kept."
    )
    enabled: bool | None = Field(None, description="Whether runs read it; true when left out.")
    url: BaseUrl | None = Field(None, description="Address of the API, for example https://prometheus.example.com.")
    auth: AuthSection | None = None
    headers: Headers | None = Field(None, description="Further headers; values of secret ones are references.")
    labels: LabelsSection | None = None
    timeout_s: Annotated[float, Field(gt=0, le=30)] | None = Field(None, description="Seconds one request may take.")
    tenant: Annotated[str, Field(pattern=r"^[\x21-\x7e]{1,150}$")] | None = Field(
        None, description="Tenant of Loki or Mimir, sent as X-Scope-OrgID."
    )

    @model_validator(mode="wrap")
    @classmethod
    def _check_known_kinds(
        cls, value: Any, handler: ModelWrapValidatorHandler["IntegrationSection"]
    ) -> "IntegrationSection":
        kind = value.get("kind") if isinstance(value, Mapping) else None
        if isinstance(value, Mapping) and kind not in INTEGRATION_KINDS:
            handler({key: value[key] for key in ("kind", "enabled") if key in value})
            return cls.model_construct(**value)
        return handler(value)


class AlertRule(BaseModel):
    """One of ``routing.alerts``: alerts whose shared labels match go to a team below the node."""

    model_config = ConfigDict(extra="forbid", strict=True)

    match: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=200)], Annotated[str, Field(max_length=200)]],
        Field(max_length=20),
    ] = Field(description="Label to value; * and ? stand for any characters. All must match.")
    team: Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$")] = Field(
        description="Slug of the team."
    )


RouteKey = Annotated[str, Field(max_length=200, pattern=r"^[^\s\x00-\x1f](?:[^\x00-\x1f]*[^\s\x00-\x1f])?$")]
RouteKeys = Annotated[list[RouteKey], Field(max_length=500)]
RepositoryKeys = Annotated[
    list[Annotated[str, Field(max_length=200, pattern=r"^[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+$")]], Field(max_length=500)
]


class RoutingSection(BaseModel):
    """``routing``: what the team owns, each unique in the organization, and which team alerts are for."""

    model_config = ConfigDict(extra="allow", strict=True)

    alerts: Annotated[list[AlertRule], Field(max_length=200)] | None = Field(
        None, description="Which team an alert is for; the first match counts."
    )
    services: RouteKeys | None = Field(None, description="Services the node owns; case does not matter.")
    github_repos: RepositoryKeys | None = Field(None, description="owner/name; case does not matter.")
    slack_channel_ids: RouteKeys | None = Field(None, description="For example C0123456789.")
    slack_workspace_ids: RouteKeys | None = Field(None, description="For example T0123456789.")
    teams_channel_ids: RouteKeys | None = Field(None, description="For example 19:…@thread.tacv2.")
    google_chat_space_ids: RouteKeys | None = None
    pagerduty_service_ids: RouteKeys | None = None
    incidentio_team_ids: RouteKeys | None = None
    incidentio_alert_source_ids: RouteKeys | None = None
    coralogix_team_names: RouteKeys | None = None
    vercel_project_ids: RouteKeys | None = None


class DocumentSchema(BaseModel):
    """A node's configuration document. Unknown top-level keys are kept, with a warning."""

    model_config = ConfigDict(extra="allow", title="Configuration document")

    agents: Agents | None = Field(None, description="Agents by id.")
    entrance_agent: Annotated[str, Field(max_length=200)] | None = Field(
        None, description="Id of the agent that starts."
    )
    tools: Tools | None = Field(None, description="Tools switched on and off, and what they require.")
    skills: Tools | None = Field(None, description="Skills switched on and off, and what they require.")
    mcp_servers: McpServers | None = Field(None, description="MCP servers by id.")
    integrations: dict[str, IntegrationSection | None] | None = Field(
        None, description="Data sources and destinations by id."
    )
    actions: Actions | None = Field(None, description="What agents may propose to do, each approved by a person.")
    routing: RoutingSection | None = None
    alerts: AlertsSection | None = None
    webhooks: Webhooks | None = Field(None, description="Who is told when runs end, by name.")
    limits: LimitsSection | None = None
    memory: Memory | None = Field(None, description="How memory is extracted and recalled.")
    runtime: RuntimeSection | None = None
    team_context: TeamContext | None = Field(None, description="What the agents should know about the team.")
    remote_agents: RemoteAgents | None = Field(None, description="Agents on other servers by id.")
    preferences: Any = Field(None, description="State of user interfaces.")


SECTIONS: Final[frozenset[str]] = frozenset(DocumentSchema.model_fields)
