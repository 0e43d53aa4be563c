"""The catalogue: its data, its routes, and that a secret field never holds a literal."""

from typing import Any

import pytest

from controlplane.configs.catalogue.definitions import NOT_TESTABLE
from controlplane.configs.catalogue.integrations import INTEGRATIONS
from controlplane.configs.sections import INTEGRATION_KINDS
from controlplane.configs.services import config_patch, config_unset
from controlplane.core.errors import InvalidInput
from tests.configs.support import patch, put, stored
from tests.factories import Tree, api_client, make_team_token, make_user

pytestmark = pytest.mark.django_db
LITERAL = "changeme"  # which looks like no secret, so only the catalogue knows


def test_catalogue__kinds__everything_that_is_promised() -> None:
    assert set(INTEGRATIONS) == {
        *("prometheus", "alertmanager", "loki", "grafana", "elasticsearch", "opensearch", "kubernetes", "datadog"),
        *("pagerduty", "github", "gitlab", "sentry", "postgresql", "aws_cloudwatch", "azure_monitor", "slack", "teams"),
    }


@pytest.mark.parametrize("kind", INTEGRATIONS)
def test_catalogue__each_definition__is_whole(kind: str) -> None:
    one = INTEGRATIONS[kind]
    names = [field.name for field in one.fields]
    assert len(names) == len(set(names))
    assert one.docs_url.startswith("https://")
    assert one.read_by_runs == (kind in INTEGRATION_KINDS)
    assert bool(one.probe) + bool(one.untestable) + one.read_by_runs == 1
    assert all(field.example is None or field.example.startswith("${OPENSRE_CRED_") for field in one.secret_fields)
    assert all(field.default is None for field in one.secret_fields)
    steps = one.probe.steps if one.probe else ()
    templates = [step.path for step in steps] + list(one.probe.headers.values() if one.probe else ())
    used = {name for text in templates for name in _braces(text)}
    assert used <= set(names)


def _braces(text: str) -> list[str]:
    return [part.partition("}")[0] for part in text.split("{")[1:]]


@pytest.mark.parametrize("kind", sorted(INTEGRATIONS))
def test_catalogue__an_example_of_each_kind__is_accepted(tree: Tree, kind: str) -> None:
    entry: dict[str, Any] = {"kind": kind}
    for field in INTEGRATIONS[kind].fields:
        if field.example is not None:
            target = entry
            for key in field.path[:-1]:
                target = target.setdefault(key, {})
            target[field.path[-1]] = field.example
    put(tree.payments, {"integrations": {"one": entry}})
    assert stored(tree.payments)["integrations"]["one"] == entry


def test_api__list_and_one__fields_and_how_it_is_tested(tree: Tree) -> None:
    client = api_client(token=make_team_token(tree.payments, ["runs:read"]))
    listed = client.get("/api/v1/catalogue/integrations").json()
    assert [one["kind"] for one in listed["results"]] == sorted(INTEGRATIONS)
    found = client.get("/api/v1/catalogue/integrations/datadog").json()
    assert found in listed["results"]
    assert found["test"] == {
        "available": True,
        "requests": ["GET /api/v2/validate_keys"],
        "detail": "The answer must have the vendor's form.",
    }
    assert found["fields"][1] == {
        "name": "api_key",
        "pointer": "/api_key",
        "type": "string",
        "required": True,
        "secret": True,
        "level": "org",
        "description": "API key.",
        "example": "${OPENSRE_CRED_DATADOG_API_KEY}",
        "default": None,
    }
    aws = client.get("/api/v1/catalogue/integrations/aws_cloudwatch").json()["test"]
    assert (aws["available"], NOT_TESTABLE in aws["detail"]) == (False, True)


def test_api__unknown_kind_or_nobody__404_or_401(tree: Tree) -> None:
    client = api_client(user=make_user(tree.root, None))
    answer = client.get("/api/v1/catalogue/integrations/nothing")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_integration_kind")
    for path in ("integrations", "integrations/datadog", "templates"):
        assert client.get(f"/api/v1/catalogue/{path}").status_code == 200
        assert api_client().get(f"/api/v1/catalogue/{path}").status_code == 401


def refusal(tree: Tree, document: dict[str, Any]) -> list[tuple[str, str]]:
    """Return pointers and codes of what a patch of the team is refused for."""
    before = stored(tree.payments)
    with pytest.raises(InvalidInput) as caught:
        patch(tree.payments, document)
    assert stored(tree.payments) == before
    assert LITERAL not in f"{caught.value.as_problem()}"
    return [(one.pointer, one.code) for one in caught.value.errors]


@pytest.mark.parametrize(
    ("entry", "pointers"),
    [
        ({"kind": "datadog", "api_key": LITERAL, "app_key": LITERAL}, ["/api_key", "/app_key"]),
        ({"kind": "gitlab", "token": LITERAL}, ["/token"]),
        ({"kind": "grafana", "auth": {"type": "bearer", "token": LITERAL}}, ["/auth/token"]),
        ({"kind": "slack", "bot_token": [LITERAL]}, ["/bot_token"]),
        ({"kind": "slack", "bot_token": {"a": LITERAL}}, ["/bot_token"]),
        ({"kind": "slack", "bot_token": 12345}, ["/bot_token"]),
        ({"kind": "slack", "bot_token": f"${{OPENSRE_CRED_X:-{LITERAL}}}"}, ["/bot_token"]),
        ({"kind": "slack", "bot_token": f"${{OPENSRE_CRED_X}} {LITERAL}"}, ["/bot_token"]),
        ({"api_key": LITERAL}, ["/api_key"]),
    ],
)
def test_write__literal_in_a_secret_field__refused_with_pointer_and_rule(
    tree: Tree, entry: dict[str, Any], pointers: list[str]
) -> None:
    found = refusal(tree, {"integrations": {"one": entry}})
    assert found == [(f"/integrations/one{pointer}", "literal_secret") for pointer in pointers]


@pytest.mark.parametrize("value", ["${OPENSRE_CRED_X}", "Bearer ${OPENSRE_CRED_X}", "${OPENSRE_CRED_X:-}", None])
def test_write__reference_in_a_secret_field__accepted(tree: Tree, value: Any) -> None:
    put(tree.payments, {"integrations": {"one": {"kind": "slack", "bot_token": value}}})
    assert stored(tree.payments)["integrations"]["one"]["bot_token"] == value


def test_write__kind_set_above__counts_below(tree: Tree) -> None:
    put(tree.root, {"integrations": {"one": {"kind": "pagerduty"}}})
    found = refusal(tree, {"integrations": {"one": {"api_key": LITERAL}}})
    assert found == [("/integrations/one/api_key", "literal_secret")]
    patch(tree.payments, {"integrations": {"one": {"token": LITERAL}}})  # no secret of this kind


def test_write__kind_changed_under_a_value__judged_as_that_kind(tree: Tree) -> None:
    put(tree.payments, {"integrations": {"one": {"kind": "homegrown", "bot_token": LITERAL}}})
    found = refusal(tree, {"integrations": {"one": {"kind": "slack"}}})
    assert found == [("/integrations/one/bot_token", "literal_secret")]


def test_write__what_is_stored_already__can_be_left_and_removed(tree: Tree) -> None:
    from controlplane.configs.models import ConfigDocument

    put(tree.payments, {"integrations": {"one": {"kind": "slack"}}})
    old = {"integrations": {"one": {"kind": "slack", "bot_token": LITERAL, "channel": "C0"}}}
    ConfigDocument.objects.filter(pk=tree.payments.pk).update(
        document=old,
        leaf_versions={f"/integrations/one/{name}": 1 for name in ("kind", "bot_token", "channel")},
    )
    config_patch(actor=tree.system, node=tree.payments, patch={"integrations": {"one": {"channel": "C1"}}})
    config_unset(actor=tree.system, node=tree.payments, pointers=["/integrations/one/bot_token"])
    assert stored(tree.payments) == {"integrations": {"one": {"kind": "slack", "channel": "C1"}}}
