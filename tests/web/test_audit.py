"""The page of the audit log: who sees what, how it is searched, what it says of the chain."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.audit.housekeeping import chain_housekeeping
from controlplane.audit.models import AuditVerification
from controlplane.audit.security import SecurityKind, sign_in_record
from controlplane.audit.security_stream import stream
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.orgs.services import node_update
from tests.factories import Tree, make_user
from tests.web.support import Person

pytestmark = pytest.mark.django_db
PAGE = "/app/audit"


def text(answer: Any) -> str:
    content: str = answer.content.decode()
    return content


@pytest.fixture
def told(tree: Tree) -> Tree:
    """An event on each team, with words of its own."""
    for node, name in ((tree.payments, "Payments <b>new</b>"), (tree.platform, "Platform new")):
        node_update(actor=tree.system, node=node, name=name)
    return tree


def rows(answer: Any) -> list[str]:
    return [row.object_id for row in answer.context["rows"]]


def test_audit__owner__sees_all_and_the_way_is_in_the_navigation(owner: Person, told: Tree) -> None:
    answer = owner.client.get(PAGE)
    assert {str(told.payments.pk), str(told.platform.pk)} <= set(rows(answer))
    assert f'href="{PAGE}" aria-current="page"' in text(answer)
    assert "&lt;b&gt;new&lt;/b&gt;" in text(answer)
    assert "<b>new</b>" not in text(answer)


def test_audit__admin_of_a_team__sees_that_team_alone(admin: Person, told: Tree) -> None:
    assert set(rows(admin.client.get(PAGE))) == {str(told.payments.pk)}


def test_audit__viewer__403_and_no_way_in_the_navigation(viewer: Person, told: Tree) -> None:
    assert viewer.client.get(PAGE).status_code == 403
    assert PAGE not in text(viewer.client.get("/app/security"))


def test_audit__search__by_action_day_and_words(owner: Person, told: Tree) -> None:
    today = clock.now().date().isoformat()
    assert len(rows(owner.client.get(PAGE, {"action": "node.", "q": str(told.payments.pk)}))) == 1
    assert rows(owner.client.get(PAGE, {"action": "node.update", "since": today, "until": today}))
    assert rows(owner.client.get(PAGE, {"until": "2001-01-01"})) == []
    nothing = owner.client.get(PAGE, {"q": "nobody\x00", "since": "not a day", "cursor": ""})
    assert "Nothing matches" in text(nothing)


def test_audit__filters__who_address_and_node(owner: Person, told: Tree) -> None:
    payments, platform = str(told.payments.pk), str(told.platform.pk)
    assert rows(owner.client.get(PAGE, {"node": "payments", "action": "node."})) == [payments]
    both = {"node": "engineering", "actor": "system:test", "action": "node."}
    assert set(rows(owner.client.get(PAGE, both))) == {payments, platform}
    assert rows(owner.client.get(PAGE, {"actor": "somebody"})) == []
    assert rows(owner.client.get(PAGE, {"address": "203.0.113."})) == []
    answer = owner.client.get(PAGE, {"node": "nothing"})
    assert (answer.status_code, rows(answer)) == (200, [])
    assert '<details class="audit-folded" open>' in text(answer)
    assert '<option value="payments">' in text(answer)


def test_audit__node_of_others__nothing_matches(admin: Person, told: Tree) -> None:
    assert rows(admin.client.get(PAGE, {"node": "platform"})) == []
    assert "platform" not in admin.client.get(PAGE).context["nodes"]


def test_audit__download__is_what_is_listed(owner: Person, told: Tree) -> None:
    today = clock.now().date().isoformat()
    answer = owner.client.get(PAGE, {"action": "node.", "node": "payments", "q": "", "since": today, "until": today})
    files = dict(answer.context["exports"])
    file: Any = owner.client.get(files["CSV"])
    lines = b"".join(file.streaming_content).decode().splitlines()
    assert len(lines) == 1 + len(rows(answer)) == 2
    assert str(told.payments.pk) in lines[1]
    assert "format=json" in files["JSON"]


def test_audit__refused_page__is_listed_by_route_and_code(owner: Person, viewer: Person, tree: Tree) -> None:
    assert viewer.client.get(PAGE).status_code == 403
    stream.write(everything=True)
    query = {"show": "security", "code": "permission_denied", "actor": str(viewer.user.display_name)}
    (row,) = owner.client.get(PAGE, query).context["rows"]
    assert (row.action, row.kind) == ("web:audit", SecurityKind.DENIED)
    assert owner.client.get(PAGE, query | {"code": "not_found"}).context["rows"] == []
    assert owner.client.get(PAGE, query | {"until": "2001-01-01"}).context["rows"] == []


def test_audit__cursor_that_was_edited__begins_again(owner: Person, told: Tree) -> None:
    assert owner.client.get(PAGE, {"cursor": "x"})["Location"] == PAGE


def test_audit__pages__go_on_with_the_search(owner: Person, tree: Tree) -> None:
    for number in range(55):
        node_update(actor=tree.system, node=tree.payments, name=f"N{number}")
    first = owner.client.get(PAGE, {"action": "node.update"})
    second = owner.client.get(f"{PAGE}?{first.context['older']}")
    assert (len(first.context["rows"]), len(second.context["rows"])) == (50, 5)
    assert second.context["first"] == "action=node.update"


def test_audit__security_stream__counts_repeats_and_is_filtered_by_kind(owner: Person, tree: Tree) -> None:
    user = make_user(tree.payments, Role.VIEWER, username="vic")
    for _ in range(3):
        sign_in_record(
            ok=False,
            method="password",
            principal=f"user:{user.pk}",
            label="vic",
            organization_id=tree.organization.pk,
            address="192.0.2.1",
        )
    stream.write(everything=True)
    answer = owner.client.get(PAGE, {"show": "security", "kind": SecurityKind.SIGN_IN_FAILED.value, "q": "vic"})
    assert [row.count for row in answer.context["rows"]] == [3]
    assert "Sign-in refused" in text(answer)
    empty = owner.client.get(PAGE, {"show": "security", "kind": SecurityKind.SECRET.value})
    assert "Nothing matches" in text(empty)


def test_audit__chain__says_whether_it_holds(owner: Person, told: Tree) -> None:
    assert "not been verified yet" in text(owner.client.get(PAGE))
    chain_housekeeping()
    assert "Intact" in text(owner.client.get(PAGE))
    AuditVerification.objects.filter(pk=told.organization.pk).update(verified_seq=99)
    assert "Broken" in text(owner.client.get(PAGE))


def test_audit__queries__do_not_grow_with_the_events(owner: Person, tree: Tree) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            owner.client.get(PAGE)
        return len(captured)

    owner.client.get(PAGE)
    before = queries()
    for number in range(20):
        node_update(actor=tree.system, node=tree.payments, name=f"N{number}")
    assert queries() == before
