"""The known sections of a document and their JSON Schema."""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

MIB = 1024 * 1024


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
        None, description="Name of an installed runtime, for example builtin."
    )


class DocumentSchema(BaseModel):
    """A node's configuration document. Unknown top-level keys are kept, with a warning."""

    model_config = ConfigDict(extra="allow", title="Configuration document")

    agents: Any = Field(None, description="Agents by id.")
    entrance_agent: Any = Field(None, description="Id of the agent that starts.")
    skills: Any = Field(None, description="Skills switched on and off.")
    mcp_servers: Any = Field(None, description="MCP servers by id.")
    integrations: Any = Field(None, description="Data sources and destinations by id.")
    routing: Any = Field(None, description="What the team owns: channels, services, repositories.")
    limits: LimitsSection | None = None
    memory: Any = Field(None, description="How memory is extracted and recalled.")
    runtime: RuntimeSection | None = None
    team_context: Any = Field(None, description="What the agents should know about the team.")
    remote_agents: Any = Field(None, description="Agents on other servers by id.")
    preferences: Any = Field(None, description="State of user interfaces.")


SECTIONS: Final[frozenset[str]] = frozenset(DocumentSchema.model_fields)
