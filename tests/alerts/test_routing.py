"""Which team an alert goes to, and that nothing in it leads outside what its credential reaches."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.alerts.models import AlertGroup
from controlplane.alerts.policy import REPEAT_WINDOW, repeat_window, team_by_rules
from controlplane.configs.services import config_patch
from controlplane.core.errors import InvalidInput
from controlplane.investigations.models import Thread
from controlplane.orgs.services import node_archive
from tests.alerts.support import URL, webhook
from tests.factories import Tree, api_client, make_admin_token, make_node, make_team_token


def labelled(**labels: str) -> dict[str, Any]:
    return webhook(commonLabels={"alertname": "HighErrorRate", **labels})


def post(token: str, body: dict[str, Any]) -> Any:
    return api_client(token=token).post(URL, body)


def routed(token: str, body: dict[str, Any]) -> str:
    """Return the slug of the team that took the alert in, or the error's code."""
    response = post(token, body)
    if response.status_code != 202:
        return str(response.json()["code"])
    return AlertGroup.objects.get(pk=response.json()["group"]).node.slug


def rules(tree: Tree, *pairs: tuple[dict[str, str], str]) -> None:
    listed = [{"match": match, "team": team} for match, team in pairs]
    config_patch(actor=tree.system, node=tree.engineering, patch={"routing": {"alerts": listed}})


def test_route__team_token__its_own_team_whatever_the_alert_says(tree: Tree) -> None:
    assert routed(make_team_token(tree.payments), labelled(team="platform")) == "payments"


def test_route__token_of_a_group__label_names_the_team(tree: Tree) -> None:
    assert routed(make_team_token(tree.engineering), labelled(team="platform")) == "platform"
    assert routed(make_admin_token(tree.root), labelled(team="payments")) == "payments"


@pytest.mark.parametrize(
    "named", ["outside", "rival-only", "nope", "engineering", "demo", "../payments", "PAYMENTS", ""]
)
def test_route__label_names_no_team_in_reach__refused_with_candidates_in_reach_alone(
    tree: Tree, other_tree: Tree, named: str
) -> None:
    make_node(tree.root, "outside")
    make_node(other_tree.root, "rival-only")

    response = post(make_team_token(tree.engineering), labelled(team=named))

    assert (response.status_code, response.json()["code"]) == (422, "team_unclear")
    assert response.json()["teams"] == ["demo/payments", "demo/platform"]
    assert response.json()["errors"][0]["pointer"] == "/commonLabels/team"
    assert not AlertGroup.objects.exists()
    assert not Thread.objects.exists()


def test_route__rules__first_match_wins_with_values_and_globs(tree: Tree) -> None:
    rules(
        tree,
        ({"service": "ledger", "env": "prod"}, "payments"),
        ({"service": "led*"}, "platform"),
        ({"alertname": "*"}, "payments"),
    )
    token = make_team_token(tree.engineering)

    assert routed(token, labelled(service="ledger", env="prod")) == "payments"
    assert routed(token, labelled(service="ledger", env="test")) == "platform"
    assert routed(token, labelled(service="other")) == "payments"


def test_route__rule_and_label__label_of_a_team_first_else_the_rule_may_translate_it(tree: Tree) -> None:
    rules(tree, ({"team": "sre-*"}, "platform"), ({"team": "*"}, "platform"))
    token = make_team_token(tree.engineering)

    assert routed(token, labelled(team="payments")) == "payments"
    assert routed(token, labelled(team="sre-core")) == "platform"


def test_route__rule_leads_outside__refused_not_guessed(tree: Tree) -> None:
    make_node(tree.root, "outside")
    rules(tree, ({"alertname": "*"}, "outside"), ({"alertname": "*"}, "payments"))

    assert routed(make_team_token(tree.engineering), labelled()) == "team_unclear"


def test_route__one_team_in_reach__taken_where_the_alert_names_none(tree: Tree) -> None:
    group = make_node(tree.root, "small", "group")
    make_node(group, "only-one")

    assert routed(make_team_token(group), labelled()) == "only-one"
    assert routed(make_team_token(group), labelled(team="payments")) == "team_unclear"


def test_route__labels_differ_between_alerts__only_shared_ones_count(tree: Tree) -> None:
    alerts = [{"labels": {"team": team, "job": "x"}, "status": "firing"} for team in ("payments", "platform")]
    body = webhook(*alerts, groupLabels={}, commonLabels={})
    token = make_team_token(tree.engineering)

    assert routed(token, body) == "team_unclear"
    assert routed(token, body | {"alerts": alerts[:1]}) == "payments"


def test_route__archived_team__refused(tree: Tree) -> None:
    token = make_team_token(tree.payments)
    node_archive(actor=tree.system, node=tree.payments)

    response = post(token, webhook())

    assert (response.status_code, response.json()["code"]) == (422, "team_archived")


def test_route__group_without_teams__refused(tree: Tree) -> None:
    token = make_team_token(make_node(tree.root, "empty", "group"))
    response = post(token, webhook())
    assert (response.status_code, response.json()["code"]) == (403, "no_team")


@pytest.mark.parametrize(
    ("patch", "pointer"),
    [
        ({"routing": {"alerts": {"team": "x"}}}, "/routing/alerts"),
        ({"routing": {"alerts": [{"match": {"a": 1}, "team": "x"}]}}, "/routing/alerts/0/match/a"),
        ({"routing": {"alerts": [{"match": {}, "team": "No Slug"}]}}, "/routing/alerts/0/team"),
        ({"routing": {"alerts": [{"match": {}, "team": "x", "teams": "y"}]}}, "/routing/alerts/0/teams"),
        ({"routing": {"alerts": [{"team": "x"}]}}, "/routing/alerts/0/match"),
        ({"routing": {"alerts": [{"match": {}, "team": "x"}] * 201}}, "/routing/alerts"),
        ({"alerts": {"repeat_window_s": -1}}, "/alerts/repeat_window_s"),
        ({"alerts": {"repeat_window_s": "4h"}}, "/alerts/repeat_window_s"),
    ],
)
def test_config__broken_alert_sections__refused_with_the_field(tree: Tree, patch: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        config_patch(actor=tree.system, node=tree.root, patch=patch)
    assert [error.pointer for error in caught.value.errors] == [pointer]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda part: st.lists(part, max_size=3) | st.dictionaries(st.text(), part, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["alerts", "routing"]), JSON))
def test_policy__any_stored_document__read_without_a_word(document: dict[str, Any]) -> None:
    assert repeat_window(document) == REPEAT_WINDOW
    assert team_by_rules(document, {"team": "x"}) is None


@given(st.dictionaries(st.sampled_from("abc"), st.text(max_size=5)), st.lists(st.sampled_from("abc"), unique=True))
def test_policy__rule_of_the_labels_own_values__matches_unless_one_is_missing(
    labels: dict[str, str], asked: list[str]
) -> None:
    exact = {name: "".join(f"[{c}]" if c in "*?[" else c for c in labels.get(name, "")) for name in asked}
    document = {"routing": {"alerts": [{"match": exact, "team": "x"}]}}
    assert team_by_rules(document, labels) == ("x" if set(asked) <= set(labels) else None)


def test_policy__stored_rules_no_write_accepts_today__match_nothing_and_hold_up_no_other() -> None:
    stored = [None, {"team": "x"}, {"match": {"a": 1}, "team": "x"}, {"match": {"a": "1"}, "team": "y"}]
    assert team_by_rules({"routing": {"alerts": stored}}, {"a": "1"}) == "y"
