"""The section ``actions``: what agents may propose to do. Nothing of it is done without a person's approval."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from controlplane.configs.agent_sections import ObjectOr
from controlplane.configs.endpoint_sections import AuthSection, BaseUrl, Headers

MINUTE: Final = 60
MAX_APPROVAL_S: Final = 14 * 24 * 60 * MINUTE


class ActionArgument(BaseModel):
    """One of an action's ``arguments``: a text that the agent fills in."""

    model_config = ConfigDict(extra="forbid", strict=True)

    description: Annotated[str, Field(max_length=300)] | None = None
    required: bool | None = Field(None, description="true when left out.")
    allowed_values: (
        Annotated[list[Annotated[str, Field(max_length=200)]], Field(min_length=1, max_length=50)] | None
    ) = Field(None, description="The only values it may have.")


class ActionSection(BaseModel):
    """One of ``actions``: a request to a server of the team's, such as an automation's webhook."""

    model_config = ConfigDict(extra="forbid", strict=True)

    enabled: bool | None = Field(None, description="true when left out.")
    description: Annotated[str, Field(min_length=1, max_length=500)] | None = Field(
        None, description="What it does, for agents and for who approves it."
    )
    url: BaseUrl | None = Field(
        None, description="Where the request goes, for example https://ops.example.com/hooks/x."
    )
    method: Literal["POST", "PUT", "PATCH", "DELETE"] | None = Field(None, description="POST when left out.")
    auth: AuthSection | None = None
    headers: Headers | None = Field(None, description="Further headers; values of secret ones are references.")
    timeout_s: Annotated[float, Field(gt=0, le=30)] | None = Field(None, description="Seconds the request may take.")
    side_effect: Literal["write", "destructive"] | None = Field(None, description="write when left out.")
    idempotent: bool | None = Field(None, description="Whether doing it twice is as good as once; false when left out.")
    approval_s: Annotated[int, Field(ge=MINUTE, le=MAX_APPROVAL_S)] | None = Field(
        None, description="Seconds an approval is waited for; an hour when left out."
    )
    arguments: (
        Annotated[
            dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}$")], Annotated[ActionArgument, ObjectOr()]],
            Field(max_length=20),
        ]
        | None
    ) = Field(None, description="Arguments by name, sent as JSON.")


ActionId = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,49}$")]
Actions = Annotated[dict[ActionId, Annotated[ActionSection, ObjectOr()]], Field(max_length=100), ObjectOr()]
