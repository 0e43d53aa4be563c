"""The delegation ceiling and what binds a new token."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from hypothesis import assume, given
from hypothesis import strategies as st

from controlplane.access.addresses import address_allowed, networks_clean, networks_within
from controlplane.access.delegation import POLICY, TOKEN, Level, Wish, settle
from controlplane.access.models import AccessToken, TokenPolicy
from controlplane.access.services import token_create, token_revoke, token_rotate
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.core.errors import InvalidInput, NotAuthenticated, NotFound
from controlplane.core.permissions import SCOPES
from tests.factories import Tree, actor_for_token, actor_for_user, make_token, make_user

START = datetime(2030, 1, 1, tzinfo=UTC)
moments = st.integers(1, 400).map(lambda days: START + timedelta(days=days))
scopes = st.frozensets(st.sampled_from(sorted(SCOPES)))
networks = st.lists(
    st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(8, 32)).map(
        lambda parts: f"10.{parts[0] & _mask(parts[2], 1)}.{parts[1] & _mask(parts[2], 2)}.0/{min(parts[2], 24)}"
    ),
    max_size=4,
).map(tuple)
levels = st.lists(
    st.builds(
        Level,
        kind=st.just(TOKEN),
        name=st.sampled_from(["a", "b", "c"]),
        scopes=st.none() | scopes,
        until=st.none() | moments,
        endless=st.booleans(),
    ),
    max_size=3,
)


def _mask(length: int, octet: int) -> int:
    bits = max(0, min(8, length - 8 * octet))
    return (0xFF << (8 - bits)) & 0xFF


@given(levels, networks, scopes, st.none() | moments, st.booleans(), st.none() | networks, st.none() | moments)
def test_settle__whatever_is_wished__never_more_than_any_level(
    above: list[Level],
    own: tuple[str, ...],
    wished: frozenset[str],
    expires_at: datetime | None,
    endless: bool,
    asked: tuple[str, ...] | None,
    default: datetime | None,
) -> None:
    assume(not (endless and expires_at))
    bound = [*above, Level(TOKEN, "own", networks=own)]
    refused: InvalidInput | None = None
    try:
        terms = settle(Wish(wished, expires_at, endless, asked), bound, default_until=default)
    except InvalidInput as error:
        refused = error
    if refused is not None:
        assert refused.extra["binding"]["name"] in {level.name for level in bound}
        return
    for level in bound:
        assert level.scopes is None or terms.scopes <= level.scopes
        assert level.until is None or (terms.expires_at is not None and terms.expires_at <= level.until)
        assert level.endless or terms.expires_at is not None
        assert networks_within(terms.networks, level.networks)
    assert terms.scopes == wished
    assert expires_at is None or terms.expires_at == expires_at


@given(networks, networks)
def test_networks_within__what_lies_inside__lets_in_no_address_more(
    inner: tuple[str, ...], outer: tuple[str, ...]
) -> None:
    if networks_within(inner, outer):
        for network in inner:
            assert address_allowed(network.partition("/")[0], outer)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("10.0.0.1/8", "network"),
        ("10.0.0.0/33", "network"),
        ("", "network"),
        ("localhost", "network"),
        ("fe80::1%eth0", "network"),
        ("::ffff:10.0.0.0/104", "network"),
        ("10.0.0.0/8/8", "network"),
    ],
)
def test_networks_clean__no_network__refused_at_its_place(text: str, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        networks_clean(["192.0.2.0/24", text], pointer="/allowed_addresses")
    assert [(error.pointer, error.code) for error in caught.value.errors] == [("/allowed_addresses/1", code)]


def test_networks_clean__overlapping__kept_once_in_canonical_form() -> None:
    found = networks_clean(["10.0.0.0/25", "10.0.0.128/25", "2001:DB8::/32", "192.0.2.7"], pointer="/x")
    assert found == ["10.0.0.0/24", "192.0.2.7/32", "2001:db8::/32"]
    with pytest.raises(InvalidInput) as caught:
        networks_clean(["10.0.0.0/8"] * 51, pointer="/x")
    assert caught.value.code == "too_many"


@pytest.mark.parametrize(
    ("address", "allowed"),
    [
        ("192.0.2.9", True),
        ("::ffff:192.0.2.9", True),
        ("192.0.3.9", False),
        ("2001:db8::1", True),
        ("2001:db9::1", False),
        (None, False),
        ("", False),
        ("unix", False),
    ],
)
def test_address_allowed__by_network__unknown_is_in_none(address: str | None, allowed: bool) -> None:
    assert address_allowed(address, ["192.0.2.0/24", "2001:db8::/32"]) is allowed
    assert address_allowed(address, [])


# ---- through the service ----


def refusal(caught: Any) -> tuple[str, str, str]:
    error = caught.value
    return error.errors[0].pointer, error.code, error.extra["binding"]["level"]


@pytest.mark.django_db
def test_token_create__by_a_token__no_longer_than_it_lives_itself(tree: Tree) -> None:
    end = clock.now() + timedelta(days=10)
    creator = actor_for_token(make_token(tree.engineering, "admin", expires_at=end).plaintext)
    make: dict[str, Any] = {
        "actor": creator,
        "kind": "team",
        "node": tree.payments,
        "name": "t",
        "scopes": ["runs:read"],
    }
    assert token_create(**make).token.expires_at == end
    assert token_create(**make, expires_at=end).token.expires_at == end
    wishes: list[dict[str, Any]] = [{"expires_at": end + timedelta(seconds=1)}, {"endless": True}]
    for wish in wishes:
        with pytest.raises(InvalidInput) as caught:
            token_create(**make, **wish)
        assert refusal(caught)[0::2] == ("/expires_at", "token")
        assert "osre_admin_" in caught.value.detail


@pytest.mark.django_db
def test_token_create__by_a_token__not_wider_in_nodes_scopes_or_networks(tree: Tree) -> None:
    creator = make_token(
        tree.payments, "admin", ["admin:*", "runs:read"], allowed_addresses=["192.0.2.0/24", "2001:db8::/32"]
    )
    actor = actor_for_token(creator.plaintext)
    make: dict[str, Any] = {"actor": actor, "kind": "team", "name": "t", "scopes": ["runs:read"]}
    inherited = token_create(**make, node=tree.payments).token
    assert inherited.allowed_addresses == ["192.0.2.0/24", "2001:db8::/32"]
    narrower = token_create(**make, node=tree.payments, allowed_addresses=["192.0.2.128/25"]).token
    assert narrower.allowed_addresses == ["192.0.2.128/25"]
    for wider in ([], ["192.0.0.0/16"], ["192.0.2.0/24", "198.51.100.0/24"]):
        with pytest.raises(InvalidInput) as caught:
            token_create(**make, node=tree.payments, allowed_addresses=wider)
        assert refusal(caught) == ("/allowed_addresses", "addresses_too_wide", "token")
    with pytest.raises(InvalidInput) as caught:
        token_create(**make | {"scopes": ["runs:create"]}, node=tree.payments)
    assert refusal(caught) == ("/scopes", "scope_not_held", "token")
    for node in (tree.engineering, tree.platform):
        with pytest.raises(NotFound):
            token_create(**make, node=node)


@pytest.mark.django_db
def test_token_create__by_a_person__the_role_binds_and_is_named(tree: Tree) -> None:
    responder = make_user(tree.payments, Role.RESPONDER)
    with pytest.raises(InvalidInput) as caught:
        token_create(
            actor=actor_for_user(responder),
            kind="user",
            node=tree.payments,
            name="mine",
            scopes=["config:write"],
            user=responder,
        )
    assert refusal(caught) == ("/scopes", "scope_not_held", "role")
    assert "payments" in caught.value.detail


@pytest.mark.django_db
def test_token_create__creator_revoked_meanwhile__makes_nothing(tree: Tree) -> None:
    creator = make_token(tree.payments, "admin")
    actor = actor_for_token(creator.plaintext)
    token_revoke(actor=tree.system, token=creator.token)
    with pytest.raises(NotAuthenticated):
        token_create(actor=actor, kind="team", node=tree.payments, name="late")
    assert not AccessToken.objects.filter(name="late").exists()


@pytest.mark.django_db
def test_token_create__policy__default_maximum_and_no_endless(tree: Tree) -> None:
    TokenPolicy.objects.create(
        organization=tree.organization, kind="team", max_days=30, default_days=7, endless_allowed=False
    )
    with time_machine.travel(START, tick=False):
        assert make_token(tree.payments).token.expires_at == START + timedelta(days=7)
        assert make_token(tree.payments, expires_at=START + timedelta(days=30)).token.expires_at is not None
        with pytest.raises(InvalidInput) as caught:
            make_token(tree.payments, expires_at=START + timedelta(days=31))
        assert refusal(caught) == ("/expires_at", "expires_too_late", POLICY)
        with pytest.raises(InvalidInput) as caught:
            make_token(tree.payments, endless=True)
        assert refusal(caught) == ("/expires_at", "expiry_required", POLICY)
        assert make_token(tree.payments, "admin").token.expires_at is None


@pytest.mark.django_db
def test_token_create__policy_without_lengths__an_end_must_be_named(tree: Tree) -> None:
    TokenPolicy.objects.create(organization=tree.organization, kind="team", endless_allowed=False)
    with pytest.raises(InvalidInput) as caught:
        make_token(tree.payments)
    assert refusal(caught) == ("/expires_at", "expiry_required", POLICY)
    assert make_token(tree.payments, expires_at=clock.now() + timedelta(days=900)).token.expires_at is not None


@pytest.mark.django_db
def test_token_rotate__life_and_networks__are_the_old_ones_from_now(tree: Tree) -> None:
    with time_machine.travel(START, tick=False) as time:
        old = make_token(tree.payments, expires_at=START + timedelta(days=30), allowed_addresses=["192.0.2.0/24"]).token
        time.shift(timedelta(days=20))
        new = token_rotate(actor=tree.system, token=old, overlap=timedelta(days=1)).token
        assert new.expires_at == START + timedelta(days=50)
        assert new.allowed_addresses == ["192.0.2.0/24"]
        old.refresh_from_db()
        assert old.expires_at == START + timedelta(days=21)
        endless = make_token(tree.payments).token
        assert token_rotate(actor=tree.system, token=endless).token.expires_at is None
        TokenPolicy.objects.create(organization=tree.organization, kind="team", max_days=5, endless_allowed=False)
        for row in (new, make_token(tree.payments, "team", expires_at=START + timedelta(days=24)).token):
            again = token_rotate(actor=tree.system, token=row).token
            assert again.expires_at is not None
            assert again.expires_at <= START + timedelta(days=25)


@pytest.mark.django_db
@pytest.mark.parametrize("overlap", [timedelta(seconds=-1), timedelta(days=31)])
def test_token_rotate__overlap_out_of_bounds__refused(tree: Tree, overlap: timedelta) -> None:
    with pytest.raises(InvalidInput) as caught:
        token_rotate(actor=tree.system, token=make_token(tree.payments).token, overlap=overlap)
    assert caught.value.errors[0].pointer == "/overlap_s"
