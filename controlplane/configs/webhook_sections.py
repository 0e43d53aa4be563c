"""The section ``webhooks``: who is told when runs end."""

from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from controlplane.configs.reference_fields import Reference, holds_reference

WEBHOOK_EVENTS: Final = ("run.completed", "run.failed", "run.interrupted", "run.timeout")
"""What a receiver can be told of. Payloads are in ``controlplane.investigations.webhooks.payload``."""

WebhookEvent = Literal["run.completed", "run.failed", "run.interrupted", "run.timeout"]


def _target(value: str) -> str:
    if holds_reference(value):
        return value
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise PydanticCustomError("url_form", "The URL must be http://host[:port]/path or the same with https")
    if "@" in parts.netloc or parts.fragment:
        raise PydanticCustomError("url_userinfo", "The URL holds no user name, no password and no #")
    return value


class WebhookSection(BaseModel):
    """One of ``webhooks``: a receiver. One without a URL or a secret is told nothing."""

    model_config = ConfigDict(extra="forbid", strict=True)

    url: Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_target)] | None = Field(
        None, description="Where deliveries are sent; a secret part of it is a reference, ${NAME}."
    )
    secret: Reference | None = Field(None, description="Reference to the signing secret, ${NAME}.")
    previous_secret: Reference | None = Field(None, description="The one before, signed with too while they change.")
    enabled: bool | None = Field(None, description="Whether it is told anything; true when left out.")
    events: Annotated[list[WebhookEvent], Field(max_length=20)] | None = Field(
        None, description="What it is told of; everything when left out."
    )
    private_threads: Literal["none", "notice"] | None = Field(
        None,
        description="Of private investigations: nothing (when left out), or that a run ended, no more.",
    )


WebhookName = Annotated[str, Field(pattern=r"^[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9])?$")]
Webhooks = dict[WebhookName, WebhookSection | None]
