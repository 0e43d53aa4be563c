"""Who may do what: the whole table of roles, and the rules of tokens, on a tree root → group → team."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.actor import ANONYMOUS, Actor, ActorKind, Channel, Grant, Role, system_actor
from controlplane.core.permissions import (
    PERSONAL,
    RULES,
    SCOPES,
    Action,
    allows,
    nodes_that_allow,
    roles_that_allow,
    scope_allows,
)

ROOT, GROUP, TEAM, SIBLING = (UUID(int=number) for number in range(1, 5))
LINEAGES = {ROOT: (ROOT,), GROUP: (ROOT, GROUP), TEAM: (ROOT, GROUP, TEAM), SIBLING: (ROOT, SIBLING)}

EVERYTHING = set(Action) - {Action.CONFIG_RESOLVE}
READING = {Action.NODE_READ, Action.CONFIG_READ, Action.RUN_READ}
MATRIX: dict[Role, set[Action]] = {
    Role.OWNER: EVERYTHING,
    Role.ADMIN: EVERYTHING - {Action.REVIEW_DECIDE, Action.IDENTITY_PROVIDER_WRITE},
    Role.RESPONDER: READING | {Action.RUN_CREATE, Action.RUN_CONTROL, Action.ALERT_INGEST},
    Role.REVIEWER: READING | {Action.REVIEW_DECIDE},
    Role.VIEWER: READING,
}


def person(*grants: Grant, scopes: set[str] | None = None) -> Actor:
    kind = ActorKind.USER if scopes is None else ActorKind.PERSONAL_TOKEN
    held = None if scopes is None else frozenset(scopes)
    return Actor(kind, "user:1", "Ada", uuid4(), uuid4(), tuple(grants), held)


def token(node: UUID, *scopes: str) -> Actor:
    return Actor(ActorKind.TEAM_TOKEN, "token:1", "t", uuid4(), scopes=frozenset(scopes), token_node_id=node)


def allowed(actor: Actor, node: UUID) -> set[Action]:
    return {action for action in Action if allows(actor, action, LINEAGES[node])}


@pytest.mark.parametrize("role", Role)
def test_allows__role_on_the_node__permits_exactly_its_row_of_the_table(role: Role) -> None:
    assert allowed(person(Grant(TEAM, role)), TEAM) == MATRIX[role]


@pytest.mark.parametrize("role", Role)
def test_allows__role_on_a_node__holds_below_it_and_nowhere_else(role: Role) -> None:
    actor = person(Grant(GROUP, role))
    assert allowed(actor, GROUP) == allowed(actor, TEAM) == MATRIX[role]
    assert allowed(actor, ROOT) == allowed(actor, SIBLING) == set()


def test_allows__anonymous_and_person_without_roles__may_nothing() -> None:
    assert allowed(ANONYMOUS, ROOT) == allowed(person(), ROOT) == set()


def test_allows__roles_beside_each_other__add_up() -> None:
    actor = person(Grant(TEAM, Role.REVIEWER), Grant(GROUP, Role.RESPONDER))
    assert allowed(actor, TEAM) == MATRIX[Role.REVIEWER] | MATRIX[Role.RESPONDER]


def test_allows__personal_token__is_role_and_scope_at_once() -> None:
    admin_with_one_scope = person(Grant(ROOT, Role.ADMIN), scopes={"runs:read"})
    viewer_with_all_scopes = person(Grant(ROOT, Role.VIEWER), scopes=set(SCOPES))
    assert allowed(admin_with_one_scope, TEAM) == {Action.RUN_READ, Action.NODE_READ}
    assert allowed(viewer_with_all_scopes, TEAM) == READING
    assert allowed(person(scopes=set(SCOPES)), TEAM) == set()


def test_allows__team_token__acts_by_scope_on_its_subtree_alone() -> None:
    actor = token(GROUP, "runs:create", "config:resolve")
    assert allowed(actor, TEAM) == {Action.RUN_CREATE, Action.NODE_READ, Action.CONFIG_READ, Action.CONFIG_RESOLVE}
    assert allowed(actor, ROOT) == allowed(actor, SIBLING) == set()


def test_allows__resolved_credentials__are_for_tokens_with_the_scope_only() -> None:
    assert roles_that_allow(Action.CONFIG_RESOLVE) == frozenset()
    assert not allows(token(ROOT, "admin:*"), Action.CONFIG_RESOLVE, LINEAGES[ROOT])
    assert not allows(person(Grant(ROOT, Role.OWNER)), Action.CONFIG_RESOLVE, LINEAGES[ROOT])
    assert allows(token(ROOT, "config:resolve"), Action.CONFIG_RESOLVE, LINEAGES[ROOT])


def test_allows__deciding_reviews__is_for_people_in_the_role_alone() -> None:
    system = system_actor(name="s", organization_id=uuid4(), root_id=ROOT)
    assert not allows(token(ROOT, *SCOPES), Action.REVIEW_DECIDE, LINEAGES[ROOT])
    assert not allows(system, Action.REVIEW_DECIDE, LINEAGES[ROOT])
    assert not allows(person(Grant(ROOT, Role.ADMIN)), Action.REVIEW_DECIDE, LINEAGES[ROOT])
    reviewer = Grant(ROOT, Role.REVIEWER)
    assert allows(person(reviewer, scopes={"reviews:decide"}), Action.REVIEW_DECIDE, LINEAGES[TEAM])
    assert not allows(person(reviewer, scopes={"config:write"}), Action.REVIEW_DECIDE, LINEAGES[TEAM])


def test_allows__token_with_grants_too__acts_by_its_scopes_alone() -> None:
    actor = Actor(
        ActorKind.TEAM_TOKEN,
        "token:1",
        "t",
        uuid4(),
        grants=(Grant(ROOT, Role.OWNER),),
        scopes=frozenset(),
        token_node_id=ROOT,
    )
    assert allowed(actor, ROOT) == set()


def test_rules__every_action__has_a_rule_of_known_scopes() -> None:
    assert set(RULES) == set(Action)
    assert {scope for rule in RULES.values() for scope in rule.scopes} <= SCOPES


actors = st.builds(
    person,
    st.builds(Grant, st.sampled_from(list(LINEAGES)), st.sampled_from(Role)),
    st.builds(Grant, st.sampled_from(list(LINEAGES)), st.sampled_from(Role)),
    scopes=st.none() | st.sets(st.sampled_from(sorted(SCOPES))),
) | st.builds(
    lambda node, scopes: token(node, *scopes), st.sampled_from(list(LINEAGES)), st.sets(st.sampled_from(sorted(SCOPES)))
)


@given(actors, st.sampled_from(Action), st.sampled_from(list(LINEAGES)))
def test_nodes_that_allow__any_actor__says_the_same_as_allows(actor: Actor, action: Action, node: UUID) -> None:
    by_subtree = not nodes_that_allow(actor, action).isdisjoint(LINEAGES[node])
    assert by_subtree == allows(actor, action, LINEAGES[node])
    assert not by_subtree or scope_allows(actor, action)


@given(actors, st.sampled_from(Action))
def test_allows__what_holds_on_a_node__holds_on_everything_below(actor: Actor, action: Action) -> None:
    for above, below in ((ROOT, GROUP), (ROOT, SIBLING), (GROUP, TEAM)):
        assert allows(actor, action, LINEAGES[below]) or not allows(actor, action, LINEAGES[above])


# ---- the actor itself ----------------------------------------------------------------------------------------------


def test_system_actor__of_an_organization__owns_it_and_is_no_person() -> None:
    actor = system_actor(name="worker", organization_id=uuid4(), root_id=ROOT)
    assert allowed(actor, TEAM) == EVERYTHING - PERSONAL
    assert (actor.principal, actor.is_person, actor.channel) == ("system:worker", False, Channel.SYSTEM)


def test_actor__via_another_channel__is_a_new_one() -> None:
    actor = person(Grant(TEAM, Role.VIEWER))
    assert actor.via(Channel.TEAMS).channel == Channel.TEAMS
    assert actor.channel == Channel.API
    with pytest.raises(AttributeError):
        actor.channel = Channel.WEB  # type: ignore[misc]  # what a frozen class refuses


def test_actor__compared__is_the_same_from_another_address() -> None:
    fields = {"kind": ActorKind.USER, "principal": "user:1", "label": "Ada"}
    assert Actor(**fields, address="10.0.0.1") == Actor(**fields, address="10.0.0.2")  # type: ignore[arg-type]  # mixed values
