"""The forms of the catalogue's entries."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

FieldType = Literal["string", "url", "integer", "number", "boolean", "object"]
Level = Literal["org", "team"]

#: Said of what only a vendor's SDK, a signed request or a protocol other than HTTP reaches.
NOT_TESTABLE: Final = "not testable here"


@dataclass(frozen=True, slots=True)
class FieldDefinition:
    """One field of an integration. ``name`` is its path within the entry, with dots: ``auth.token``.

    ``secret``: the document holds a reference to it, ``${NAME}``, never the value. ``level``: who usually sets it.
    """

    name: str
    type: FieldType
    description: str
    required: bool = False
    secret: bool = False
    level: Level = "org"
    example: Any = None
    default: Any = None

    @property
    def path(self) -> tuple[str, ...]:
        """The keys that lead to the value."""
        return tuple(self.name.split("."))

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "pointer": "".join(f"/{key}" for key in self.path),
            "type": self.type,
            "required": self.required,
            "secret": self.secret,
            "level": self.level,
            "description": self.description,
            "example": self.example,
            "default": self.default,
        }


@dataclass(frozen=True, slots=True)
class Step:
    """One GET of a connection test.

    ``path`` is below the integration's URL and may name fields in braces. ``expects``: dotted path in the answer → the
    type, or the very value, found there; a vendor may say "no" with status 200. ``version``: where its version is.
    """

    path: str
    expects: Mapping[str, Any]
    version: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """How a connection is tested: GETs, one after the other, each as read-only as the vendor has one.

    ``headers`` may name fields in braces; one whose field is not set is not sent. The ``auth`` of an entry (bearer,
    basic) is sent as it is for every kind.
    """

    steps: tuple[Step, ...]
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class IntegrationDefinition:
    """A kind of integration. ``url``: its address where the vendor has but one.

    ``read_by_runs``: runs read it as a source. ``probe`` is ``None`` for kinds tested by their source's own code and
    for those in ``untestable``, which says why a test is not possible here.
    """

    kind: str
    title: str
    category: Literal["metrics", "alerts", "logs", "dashboards", "platform", "code", "errors", "database", "people"]
    description: str
    docs_url: str
    fields: tuple[FieldDefinition, ...]
    probe: Probe | None = None
    url: str = ""
    read_by_runs: bool = False
    untestable: str = ""

    @property
    def secret_fields(self) -> tuple[FieldDefinition, ...]:
        return tuple(one for one in self.fields if one.secret)

    def as_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "title": self.title,
            "category": self.category,
            "description": self.description,
            "docs_url": self.docs_url,
            "read_by_runs": self.read_by_runs,
            "default_url": self.url or None,
            "fields": [one.as_dict() for one in self.fields],
            "test": self._test(),
        }

    def _test(self) -> dict[str, Any]:
        if self.untestable:
            return {"available": False, "requests": [], "detail": f"{NOT_TESTABLE}: {self.untestable}"}
        steps = self.probe.steps if self.probe else ()
        requests = [f"GET {step.path}" for step in steps]
        detail = (
            "The server is asked as runs ask it." if self.read_by_runs else "The answer must have the vendor's form."
        )
        return {"available": True, "requests": requests, "detail": detail}


def url_field(example: str, *, default: str | None = None) -> FieldDefinition:
    """Return the field ``url``; required unless the vendor has one address for all."""
    return FieldDefinition(
        "url",
        "url",
        "Address of the API, without user name, password and query.",
        required=default is None,
        example=example,
        default=default,
    )


def bearer_fields(what: str, reference: str, *, required: bool = False) -> tuple[FieldDefinition, ...]:
    """Return ``auth`` as a bearer token."""
    return (
        FieldDefinition("auth.type", "string", "bearer", required=required, example="bearer"),
        FieldDefinition("auth.token", "string", what, required=required, secret=True, example=f"${{{reference}}}"),
    )


def auth_fields(reference: str) -> tuple[FieldDefinition, ...]:
    """Return ``auth`` as a bearer token or a user name with a password."""
    return (
        FieldDefinition("auth.type", "string", "bearer or basic; left out for none.", example="bearer"),
        FieldDefinition("auth.token", "string", "The bearer token.", secret=True, example=f"${{{reference}_TOKEN}}"),
        FieldDefinition("auth.username", "string", "The user name, with basic.", example="opensre"),
        FieldDefinition(
            "auth.password", "string", "The password, with basic.", secret=True, example=f"${{{reference}_PASSWORD}}"
        ),
    )


ENABLED: Final = FieldDefinition(
    "enabled", "boolean", "Whether runs may use it.", level="team", example=True, default=True
)
HEADERS: Final = FieldDefinition(
    "headers", "object", "Further headers; values of secret ones are references.", example={"X-Scope": "a"}
)
TIMEOUT: Final = FieldDefinition(
    "timeout_s", "number", "Seconds one request may take, at most 30.", example=10, default=10
)
