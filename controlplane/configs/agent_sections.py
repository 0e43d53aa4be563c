"""The sections that say which agents there are, what they use and what they know."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

_TYPES: Final[dict[str, type | tuple[type, ...]]] = {"string": str, "boolean": bool, "array": list}


@dataclass(frozen=True, slots=True)
class ObjectOr:
    """The annotated object, or ``null``, or one of these JSON types; without any, whatever is no object is let be.

    Unlike a union, an error inside the object keeps its place.
    """

    types: tuple[str, ...] = ()

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        accepted = tuple(_TYPES[name] for name in self.types)

        def check(value: Any, validate: Callable[[Any], Any]) -> Any:
            plain = value is None or (isinstance(value, accepted) if accepted else not isinstance(value, Mapping))
            return value if plain else validate(value)

        return core_schema.no_info_wrap_validator_function(check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [handler(schema), {"type": [*self.types, "null"]}]}


class _Section(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


Text = Annotated[str, Field(max_length=100_000)]
Name = Annotated[str, Field(max_length=200)]


class SwitchSection(_Section):
    """Something that is switched on and off: ``true``, ``false`` or an object with ``enabled``."""

    enabled: bool | None = Field(None, description="true when left out.")


#: Names to switches; also ``{"enabled": […], "disabled": […]}`` and a list of names.
Switches = Annotated[
    dict[Name, Annotated[SwitchSection, ObjectOr(("boolean", "array"))]],
    ObjectOr(("array",)),
    Field(description='Names to true, false or {"enabled": …}; or {"enabled": […], "disabled": […]}.'),
]


class PromptSection(_Section):
    """``prompt`` in parts."""

    system: Text | None = None
    prefix: Text | None = None
    suffix: Text | None = None


class ModelSection(_Section):
    """``model`` with its settings."""

    name: Name | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None


class AgentSection(SwitchSection):
    """One of ``agents``."""

    name: Name | None = Field(None, description="For people; the id is the key.")
    description: Text | None = Field(None, description="When other agents should delegate to it.")
    prompt: Annotated[PromptSection, ObjectOr(("string",))] | None = None
    model: Annotated[ModelSection, ObjectOr(("string",))] | None = None
    max_turns: Annotated[int, Field(ge=1, le=10_000)] | None = None
    tools: Switches | None = None
    skills: Switches | None = None
    mcps: Switches | None = Field(None, description="MCP servers; mcp_servers means the same.")
    mcp_servers: Switches | None = None
    integrations: Switches | None = None
    sub_agents: Switches | None = Field(None, description="Agents it may delegate to.")


class ToolSection(SwitchSection):
    """One of ``tools`` or ``skills``."""

    requires_integration: Name | None = Field(None, description="Id of an integration it cannot work without.")
    required_integrations: list[Name] | None = None


class McpServerSection(SwitchSection):
    """One of ``mcp_servers``."""

    type: Name | None = None
    command: Annotated[str, Field(max_length=2_000)] | None = None
    args: list[str | int | float] | None = None
    env: dict[str, Any] | None = Field(None, description="Secrets are references, ${NAME}.")
    url: Annotated[str, Field(max_length=2_000)] | None = None
    enabled_tools: list[str] | None = None


class MemorySection(SwitchSection):
    """``memory``: how it is extracted and recalled."""

    store_all: bool | None = None
    strategy_window: Annotated[int, Field(ge=1, le=1000)] | None = None
    max_similar_episodes: Annotated[int, Field(ge=0, le=100)] | None = None
    redact_personal: Annotated[list[Literal["email", "phone", "payment-card"]], Field(max_length=3)] | None = Field(
        None,
        description="Personal data of others that is replaced before anything is remembered; all kinds when unset.",
    )


class ContextPart(_Section):
    """One of ``team_context.sections``."""

    id: Name | None = None
    title: Name | None = None
    content: Text | None = None


class TeamContextSection(_Section):
    """``team_context``: what the agents should know about the team."""

    sections: list[ContextPart] | None = Field(None, description="An empty list hides what is inherited.")


class RemoteAgentSection(SwitchSection):
    """One of ``remote_agents``: an agent on another server."""

    type: Name | None = Field(None, description="For example a2a.")
    url: Annotated[str, Field(max_length=2_000)] | None = None


Agents = Annotated[dict[str, Annotated[AgentSection, ObjectOr()]], ObjectOr()]
Tools = Annotated[dict[str, Annotated[ToolSection, ObjectOr(("boolean", "array"))]], ObjectOr(("array",))]
McpServers = Annotated[dict[str, Annotated[McpServerSection, ObjectOr()]], ObjectOr()]
Memory = Annotated[MemorySection, ObjectOr()]
TeamContext = Annotated[TeamContextSection, ObjectOr(("string",))]
RemoteAgents = Annotated[dict[str, Annotated[RemoteAgentSection, ObjectOr()]], ObjectOr()]
