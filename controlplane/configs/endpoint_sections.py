"""Fields of sections that name a server: where it is, and what is sent to it."""

import re
from typing import Annotated, Final, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

from controlplane.configs.reference_fields import Reference, holds_reference, require_reference

_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")  # RFC 9110, section 5.6.2
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]{0,1000}")
#: Names that say credential; "author" and "keyspace" do not.
_CREDENTIAL_HEADER: Final = re.compile(
    r"auth(?!or(?!i))|cookie|token|secret|passw|credential|signature|keys?(?![a-z])", re.IGNORECASE
)
#: What only the connection and the message themselves decide (RFC 9110, sections 7.2, 7.6.1, 8.6, 10.1.1, 10.1.4; RFC
#: 9112, section 6.1; RFC 9113, section 8.2.2), and what clouds ask of those who want an instance's credentials.
_RESERVED_HEADER: Final = re.compile(
    r"host|content-(?:length|encoding)|transfer-encoding|te|trailers?|connection|keep-alive|upgrade|expect"
    r"|http2-settings|proxy-.*|accept-encoding|.*metadata.*|x-aws-ec2-.*",
    re.IGNORECASE,
)


def _base_url(value: str) -> str:
    if holds_reference(value):
        return value
    try:
        parts = urlsplit(value)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        raise PydanticCustomError("url_form", "The URL must be http://host[:port][/path] or the same with https")
    if "@" in parts.netloc:
        raise PydanticCustomError("url_userinfo", "The URL holds no user name and no password; use auth for them")
    if parts.query or parts.fragment:
        raise PydanticCustomError("url_query", "The URL is the address of the API alone, without ? and #")
    return value


def _headers(value: dict[str, str]) -> dict[str, str]:
    for name, content in value.items():
        if not _HEADER_NAME.fullmatch(name) or not _HEADER_VALUE.fullmatch(content):
            raise PydanticCustomError("header_form", "A header has a name and a value of printable ASCII characters")
        if _RESERVED_HEADER.fullmatch(name):
            message = "The header {name} belongs to the connection, the message's form or a cloud's metadata service"
            raise PydanticCustomError("header_reserved", message, {"name": name})
        if _CREDENTIAL_HEADER.search(name):
            require_reference(content)
    return value


BaseUrl = Annotated[str, Field(min_length=1, max_length=2_000), AfterValidator(_base_url)]
Headers = Annotated[dict[str, str], Field(max_length=20), AfterValidator(_headers)]


class AuthSection(BaseModel):
    """``auth``: how an integration identifies itself. Secrets are references."""

    model_config = ConfigDict(extra="forbid", strict=True)

    type: Literal["bearer", "basic"] | None = Field(None, description="bearer (token) or basic (username, password).")
    token: Reference | None = Field(None, description="Reference to the bearer token, ${NAME}.")
    username: Annotated[str, Field(max_length=200, pattern=r"^[^:\x00-\x1f]*$")] | None = None
    password: Reference | None = Field(None, description="Reference to the password, ${NAME}.")


class ServerSection(BaseModel):
    """What any section that names a server says of it, for whoever is about to ask that server."""

    model_config = ConfigDict(extra="ignore", strict=True)

    url: BaseUrl
    auth: AuthSection | None = None
    headers: Headers | None = None
    timeout_s: Annotated[float, Field(gt=0, le=30)] | None = None
