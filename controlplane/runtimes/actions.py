"""The actions of a team's configuration as tools: each call is one request to a server, after a person approved it."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, Field, ValidationError, create_model

from controlplane.configs.action_sections import ActionArgument, ActionSection
from controlplane.core.errors import Unavailable
from controlplane.core.outbound import OutboundClient, OutboundError
from controlplane.runtimes.evidence import SideEffect
from controlplane.runtimes.loose_json import mapping
from controlplane.runtimes.sources.live.endpoint import DEFAULT_TIMEOUT_S, Integration, Resolve, integration
from controlplane.runtimes.sources.live.http import without
from controlplane.runtimes.toolbox import Tool, ToolOutput
from controlplane.runtimes.toolbox.tool import ToolArguments

PREFIX: Final = "action_"
APPROVAL_S: Final = 3_600
_KIND: Final = "action"
_MAX_ANSWER_BYTES: Final = 64 * 1024
_VALUE_CHARS: Final = 2_000


def tool_name(action: str) -> str:
    """Return what an action is called as a tool."""
    return PREFIX + action


def action_tools(document: Mapping[str, Any], resolve: Resolve) -> list[Tool]:
    """Return a tool for each action of an effective document that is switched on, by name.

    Args:
        document: the effective configuration of the run.
        resolve: gives the values of credentials, for the host they are sent to.
    """
    tools = []
    for name, entry in sorted(mapping(document.get("actions")).items()):
        section = _section(entry)
        if section is not None and section.url and section.enabled is not False:
            reached = integration(name, {**mapping(entry), "kind": _KIND}, resolve, kinds=(_KIND,))
            tools.append(_tool(name, section, reached))
    return tools


def _section(entry: Any) -> ActionSection | None:
    try:
        return ActionSection.model_validate(entry)
    except ValidationError:
        return None  # stored by an earlier release, with other rules


def _tool(name: str, section: ActionSection, reached: Integration) -> Tool:
    side_effect: SideEffect = section.side_effect or "write"

    async def act(arguments: ToolArguments, request_id: str) -> ToolOutput:
        return await _request(name, section, reached, arguments, request_id)

    async def run(_arguments: Any) -> ToolOutput:
        raise Unavailable("An action is done under an approval alone.", code="not_approved")

    return Tool(
        tool_name(name),
        section.description or f"The action {name} of this team.",
        _arguments(name, section),
        run,
        side_effect=side_effect,
        timeout_s=(section.timeout_s or DEFAULT_TIMEOUT_S) + 1,  # the client's own limit comes first, with its words
        reads=False,
        act=act,
        idempotent=bool(section.idempotent),
        approval_s=section.approval_s or APPROVAL_S,
    )


def _arguments(name: str, section: ActionSection) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for argument, rules in _rules_of(section):
        allowed = tuple(rules.allowed_values or ())
        kind: Any = Literal[allowed] if allowed else Annotated[str, Field(max_length=_VALUE_CHARS)]
        required = rules.required is not False
        default: Any = ... if required else None
        described = Field(default, description=rules.description or "")
        fields[argument] = (kind if required else kind | None, described)
    model: type[BaseModel] = create_model(f"Arguments of {name}", __base__=ToolArguments, **fields)
    return model


def _rules_of(section: ActionSection) -> Iterator[tuple[str, ActionArgument]]:
    """Yield each argument with its rules; ``null`` hides what a level above set, and leaves a plain text."""
    arguments: Mapping[str, Any] = section.arguments or {}
    for name, given in arguments.items():
        yield name, given if isinstance(given, ActionArgument) else ActionArgument.model_validate({})


async def _request(
    name: str, section: ActionSection, reached: Integration, arguments: ToolArguments, request_id: str
) -> ToolOutput:
    endpoint = reached.endpoint
    if endpoint is None:
        raise Unavailable(f"The action {name} {reached.problem}.", code="action_not_ready")
    body = {"action": name, "arguments": arguments.model_dump(exclude_none=True), "request_id": request_id}
    headers = {"Content-Type": "application/json", "Idempotency-Key": request_id, **endpoint.headers}
    try:
        async with OutboundClient(timeout_s=endpoint.timeout_s, max_bytes=_MAX_ANSWER_BYTES) as client:
            answer = await client.request(
                section.method or "POST", endpoint.url, headers=headers, content=orjson.dumps(body)
            )
    except OutboundError as error:
        shown = OutboundError(error.code) if endpoint.secret_url else error
        words = without(str(shown), endpoint.secrets)
        raise Unavailable(f"{words} Whether it was done is not known.", code=error.code) from None
    said = without(answer.body.decode("utf-8", "replace"), endpoint.secrets)
    if not 200 <= answer.status < 300:
        raise Unavailable(f"The server answered HTTP {answer.status}: {said[:200]}", code="http_error")
    return ToolOutput(text=said, summary=f"Done: HTTP {answer.status}")
