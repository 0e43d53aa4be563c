"""Templates to start from: a patch of a document with places for values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from controlplane.core.text import pointer_token


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a value. Without a value and a default, the member that holds it is left out."""

    name: str


@dataclass(frozen=True, slots=True)
class TemplateField:
    """A value that a template takes. ``secret``: a reference such as ``${NAME}``."""

    name: str
    type: Literal["string", "integer"]
    description: str
    required: bool = False
    secret: bool = False
    default: Any = None
    example: Any = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "required": self.required,
            "secret": self.secret,
            "description": self.description,
            "example": self.example,
            "default": self.default,
        }


@dataclass(frozen=True, slots=True)
class Template:
    """A patch to apply to a node's document. ``uses`` names the kinds of integrations that it connects."""

    name: str
    title: str
    description: str
    fields: tuple[TemplateField, ...]
    patch: Mapping[str, Any]
    uses: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "uses": list(self.uses),
            "fields": [one.as_dict() for one in self.fields],
            "patch": filled(self.patch, {one.name: f"<{one.name}>" for one in self.fields}),
        }


def filled(value: Any, values: Mapping[str, Any]) -> Any:
    """Return a copy of a template's patch with its slots filled; members without a value are left out."""
    if isinstance(value, Slot):
        return values.get(value.name)
    if isinstance(value, Mapping):
        return {
            key: filled(item, values)
            for key, item in value.items()
            if not (isinstance(item, Slot) and values.get(item.name) is None)
        }
    return [filled(item, values) for item in value] if isinstance(value, list) else value


def template_pointer(name: str) -> str:
    """Return where in a request's body the value of a field is."""
    return f"/values/{pointer_token(name)}"


_MODEL: Final = TemplateField("model", "string", "Model of the agents.", default="sonnet", example="opus")
_TURNS: Final = TemplateField("max_turns", "integer", "Turns of the root agent.", default=50, example=30)
_CONTEXT_SECTION: Final = {"sections": [{"id": "team", "title": "Team", "content": Slot("context")}]}

_INVESTIGATOR_PROMPT: Final = """\
You investigate production incidents. Say first what the symptom is and since when. Collect evidence before you judge:
what changed, what fails, what everything that fails has in common. Weigh at least two explanations, also the one that
nothing is wrong. Change nothing. End with the cause, how sure you are, what speaks against it, and what to do next;
cite the evidence for every claim. If the evidence does not suffice, say so and name what is missing."""
_KUBERNETES_PROMPT: Final = """\
You look after workloads on Kubernetes. Read the states of pods, deployments and nodes, their events and restarts, and
what was rolled out shortly before. Tell a failing container from a failing node, a limit from a leak, a probe from the
service behind it. Only read; never change the cluster. Report what you found with its evidence, and what you ruled
out."""
_DATABASE_PROMPT: Final = """\
You look after relational databases. Read the heaviest statements, waits, locks, connections, replication and storage,
and compare with how it ran before. Tell more work from slower work, and a victim from its cause. Only read; never
change anything. Report what you found with its evidence, and what you ruled out."""


def _agent(name: str, description: str, prompt: str, **more: Any) -> dict[str, Any]:
    return {
        "enabled": True,
        "name": name,
        "description": description,
        "model": {"name": Slot("model")},
        "prompt": {"system": prompt},
        **more,
    }


_INVESTIGATOR: Final = _agent(
    "Investigator", "Finds the cause of an incident.", _INVESTIGATOR_PROMPT, max_turns=Slot("max_turns")
)

TEMPLATES: Final[Mapping[str, Template]] = {
    one.name: one
    for one in (
        Template(
            name="investigator",
            title="Investigator",
            description="One agent that investigates with whatever the team has connected.",
            fields=(_MODEL, _TURNS),
            patch={"entrance_agent": "investigator", "agents": {"investigator": _INVESTIGATOR}},
        ),
        Template(
            name="kubernetes",
            title="Kubernetes",
            description="An investigator with a specialist for Kubernetes, and the cluster it reads.",
            fields=(
                _MODEL,
                _TURNS,
                TemplateField(
                    "url", "string", "Address of the cluster's API.", required=True,
                    example="https://kubernetes.example.com:6443",
                ),
                TemplateField(
                    "token", "string", "Reference to the token of a service account that may view.", required=True,
                    secret=True, example="${OPENSRE_CRED_KUBERNETES}",
                ),
                TemplateField("namespace", "string", "The team's namespace.", example="payments"),
            ),
            patch={
                "entrance_agent": "investigator",
                "agents": {
                    "investigator": {**_INVESTIGATOR, "sub_agents": {"kubernetes": True}},
                    "kubernetes": _agent("Kubernetes", "Reads workloads, nodes and events.", _KUBERNETES_PROMPT),
                },
                "integrations": {
                    "kubernetes": {
                        "kind": "kubernetes",
                        "enabled": True,
                        "url": Slot("url"),
                        "auth": {"type": "bearer", "token": Slot("token")},
                        "namespace": Slot("namespace"),
                    }
                },
            },
            uses=("kubernetes",),
        ),
        Template(
            name="database",
            title="Database",
            description="An investigator with a specialist for databases, and the PostgreSQL it reads.",
            fields=(
                _MODEL,
                _TURNS,
                TemplateField("host", "string", "Host of the database.", required=True, example="db.example.com"),
                TemplateField("database", "string", "Its name.", required=True, example="payments"),
                TemplateField("username", "string", "User with pg_monitor.", default="opensre"),
                TemplateField(
                    "password", "string", "Reference to the password.", required=True, secret=True,
                    example="${OPENSRE_CRED_POSTGRESQL}",
                ),
            ),
            patch={
                "entrance_agent": "investigator",
                "agents": {
                    "investigator": {**_INVESTIGATOR, "sub_agents": {"database": True}},
                    "database": _agent("Database", "Reads statements, waits and locks.", _DATABASE_PROMPT),
                },
                "integrations": {
                    "postgresql": {
                        "kind": "postgresql",
                        "enabled": True,
                        "host": Slot("host"),
                        "database": Slot("database"),
                        "username": Slot("username"),
                        "password": Slot("password"),
                    }
                },
            },
            uses=("postgresql",),
        ),
        Template(
            name="builtin",
            title="Built-in analysis",
            description="The runtime without a model: no key, no cost. It reads the alert and the connected sources.",
            fields=(
                TemplateField("wall_clock_s", "integer", "Seconds a run may take.", default=300, example=600),
                TemplateField("concurrent_runs", "integer", "Runs of the team at a time.", default=5),
            ),
            patch={
                "runtime": {"kind": "builtin"},
                "limits": {"wall_clock_s": Slot("wall_clock_s"), "concurrent_runs": Slot("concurrent_runs")},
            },
        ),
        Template(
            name="team_context",
            title="Team context",
            description="What every agent of the team should know.",
            fields=(
                TemplateField(
                    "context", "string", "Services, dependencies, habits, in markdown.", required=True,
                    example="We run the payment service in eu-1.",
                ),
            ),
            patch={"team_context": _CONTEXT_SECTION},
        ),
    )
}  # fmt: skip
