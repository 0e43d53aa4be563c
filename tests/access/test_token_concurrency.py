"""Tokens at the same moment: what is revoked makes nothing more, and is revoked once."""

import pytest

from controlplane.access.actors import actor_for_bearer
from controlplane.access.models import AccessToken
from controlplane.access.services import token_create, token_revoke, tokens_revoke
from controlplane.access.token_selectors import TokenFilter
from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Channel
from tests.factories import make_token, make_tree
from tests.support.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_token_create__creator_being_revoked__made_before_or_not_at_all() -> None:
    tree = make_tree()
    creator = make_token(tree.payments, "admin")
    actor = actor_for_bearer(creator.plaintext, channel=Channel.API)
    at_once(
        lambda: token_create(actor=actor, kind="team", node=tree.payments, name="child"),
        lambda: token_revoke(actor=tree.system, token=creator.token),
    )
    ended = AuditEvent.objects.get(action="token.revoke")
    for made in AuditEvent.objects.filter(action="token.create", actor=actor.principal):
        assert made.org_seq < ended.org_seq


def test_tokens_revoke__twice_at_once__each_token_recorded_once() -> None:
    tree = make_tree()
    for number in range(6):
        make_token(tree.payments, name=str(number))
    wanted = TokenFilter(node="payments")
    at_once(*[lambda: tokens_revoke(actor=tree.system, organization_slug="demo", wanted=wanted)] * 2)
    assert not AccessToken.objects.filter(revoked_at__isnull=True).exists()
    assert AuditEvent.objects.filter(action="token.revoke").count() == 6


def test_token__first_use_by_many_at_once__all_let_in() -> None:
    tree = make_tree()
    plaintext = make_token(tree.payments).plaintext
    actors = at_once(*[lambda: actor_for_bearer(plaintext, channel=Channel.API, address="192.0.2.1")] * 4)
    assert len({repr(actor) for actor in actors}) == 1
    assert AccessToken.objects.get().last_used_address == "192.0.2.1"
