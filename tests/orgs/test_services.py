"""The tree's writes: rules, closure, locks' order seen from outside, audit."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.audit.models import AuditEvent
from controlplane.core.actor import ANONYMOUS, Role
from controlplane.core.errors import AppError, Conflict, InvalidInput, NotFound, PermissionDenied
from controlplane.orgs import guards
from controlplane.orgs.models import MAX_DEPTH, Node, NodeAncestor, NodeKind
from controlplane.orgs.selectors import node_chain, node_lineage
from controlplane.orgs.services import (
    node_archive,
    node_create,
    node_delete,
    node_move,
    node_restore,
    node_update,
    organization_create,
)
from tests.factories import Tree, actor_for_user, make_audited_tree, make_node, make_operator, make_user

pytestmark = pytest.mark.django_db


def last_event() -> AuditEvent:
    event = AuditEvent.objects.order_by("-at", "-org_seq").first()
    assert event is not None
    return event


def test_organization_create__new_slug__has_one_root_of_same_slug() -> None:
    tree = make_audited_tree()
    assert (tree.root.slug, tree.root.kind, tree.root.parent) == ("demo", NodeKind.ORG, None)
    assert node_lineage(tree.root.pk) == (tree.root.pk,)
    first = AuditEvent.objects.get(organization_id=tree.organization.pk, org_seq=1)
    assert (first.action, first.object_id) == ("organization.create", str(tree.organization.pk))


def test_organization_create__taken_slug__conflict(tree: Tree) -> None:
    with pytest.raises(Conflict) as caught:
        organization_create(actor=tree.system, slug="demo", name="Again")
    assert caught.value.code == "slug_taken"
    assert caught.value.detail == "There is already an organization of this slug."


def test_organization_create__by_a_person__denied(tree: Tree) -> None:
    for user in (make_user(tree.root, Role.OWNER), make_operator()):
        with pytest.raises(PermissionDenied):
            organization_create(actor=actor_for_user(user), slug="new", name="New")


@pytest.mark.parametrize("slug", ["", "A", "-a", "a-", "a_b", "a b", "ä", "a" * 64, "a\n", "a/b", "a\x00"])
def test_node_create__bad_slug__names_the_rule(tree: Tree, slug: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_node(tree.root, slug)
    assert caught.value.code == "slug_format"
    assert caught.value.errors[0].pointer == "/slug"


@pytest.mark.parametrize(
    ("fields", "pointer", "code"),
    [
        ({"name": "  "}, "/name", "blank"),
        ({"name": "x" * 201}, "/name", "too_long"),
        ({"name": "a\x00b"}, "/name", "control_character"),
        ({"name": "a\nb"}, "/name", "control_character"),
        ({"name": "a\ud800b"}, "/name", "control_character"),
        ({"name": "\u202e"}, "/name", "control_character"),
        ({"name": "ghp_" + "a1B2" * 9}, "/name", "looks_like_a_secret"),
        ({"kind": "org"}, "/kind", "kind"),
        ({"kind": "department"}, "/kind", "kind"),
    ],
)
def test_node_create__bad_field__names_it(tree: Tree, fields: dict[str, str], pointer: str, code: str) -> None:
    values: dict[str, Any] = {"slug": "new", "name": "New", "kind": "team"} | fields
    with pytest.raises(InvalidInput) as caught:
        node_create(actor=tree.system, organization=tree.organization, parent=tree.root, **values)
    assert [(error.pointer, error.code) for error in caught.value.errors] == [(pointer, code)]
    assert not Node.objects.filter(slug="new").exists()


def test_node_create__slug_used_elsewhere_in_organization__conflict(tree: Tree, other_tree: Tree) -> None:
    with pytest.raises(Conflict) as caught:
        make_node(tree.root, "payments")
    assert caught.value.code == "slug_taken"
    assert other_tree.payments.slug == tree.payments.slug  # another organization may use it


def test_node_create__sixteen_levels__seventeenth_refused(tree: Tree) -> None:
    node = tree.root
    for level in range(2, MAX_DEPTH + 1):
        node = make_node(node, f"level-{level}", NodeKind.GROUP)
    assert len(node_lineage(node.pk)) == MAX_DEPTH
    with pytest.raises(InvalidInput) as caught:
        make_node(node, "too-deep")
    assert caught.value.code == "too_deep"


def test_node_create__parent_of_another_organization__not_found(tree: Tree, other_tree: Tree) -> None:
    with pytest.raises(NotFound):
        node_create(
            actor=tree.system,
            organization=tree.organization,
            parent=other_tree.root,
            slug="new",
            name="New",
            kind="team",
        )
    with pytest.raises(InvalidInput):
        node_create(
            actor=other_tree.system,
            organization=tree.organization,
            parent=other_tree.root,
            slug="new",
            name="New",
            kind="team",
        )


def test_factory_tree__written_to_the_tables__is_what_the_services_make(tree: Tree) -> None:
    made = make_audited_tree("rival")
    shapes = [
        sorted(
            NodeAncestor.objects.filter(descendant__organization=organization).values_list(
                "ancestor__kind", "descendant__kind", "depth", "descendant__parent__kind"
            ),
            key=str,
        )
        for organization in (tree.organization, made.organization)
    ]
    assert len(shapes[0]) == 9
    assert shapes[0] == shapes[1]


def test_node_create__closure__holds_every_ancestor() -> None:
    tree = make_audited_tree()
    assert [node.slug for node in node_chain(tree.payments.pk)] == ["demo", "engineering", "payments"]
    event = last_event()
    assert (event.action, event.after["slug"], event.after["parent"]) == ("node.create", "platform", "engineering")


def test_node_update__name_and_slug__changed_and_recorded(tree: Tree) -> None:
    node = node_update(actor=tree.system, node=tree.payments, slug="pay", name="  Pay  ")
    assert (node.slug, node.name) == ("pay", "Pay")
    event = last_event()
    assert (event.action, event.before["slug"], event.after["slug"]) == ("node.update", "payments", "pay")


def test_node_update__nothing_new__writes_nothing(tree: Tree) -> None:
    before = AuditEvent.objects.count()
    node_update(actor=tree.system, node=tree.payments, slug="payments", name="Payments")
    assert AuditEvent.objects.count() == before


def test_node_update__root_slug__refused(tree: Tree) -> None:
    with pytest.raises(InvalidInput) as caught:
        node_update(actor=tree.system, node=tree.root, slug="other")
    assert caught.value.code == "root_slug"


def test_node_move__to_another_group__takes_subtree_along(tree: Tree) -> None:
    inner = make_node(tree.payments, "inner")
    ops = make_node(tree.root, "ops", NodeKind.GROUP)
    node_move(actor=tree.system, node=tree.payments, parent=ops)
    assert [node.slug for node in node_chain(inner.pk)] == ["demo", "ops", "payments", "inner"]
    event = last_event()
    assert (event.action, event.before["parent"], event.after["parent"]) == ("node.move", "engineering", "ops")


def test_node_move__below_itself__cycle(tree: Tree) -> None:
    for parent in (tree.engineering, tree.payments):
        with pytest.raises(InvalidInput) as caught:
            node_move(actor=tree.system, node=tree.engineering, parent=parent)
        assert caught.value.code == "cycle"


def test_node_move__root__refused(tree: Tree) -> None:
    with pytest.raises(InvalidInput) as caught:
        node_move(actor=tree.system, node=tree.root, parent=tree.payments)
    assert caught.value.code == "root_moved"


def test_node_move__subtree_would_pass_sixteen_levels__refused_unchanged(tree: Tree) -> None:
    node = tree.root
    for level in range(2, MAX_DEPTH):
        node = make_node(node, f"level-{level}", NodeKind.GROUP)
    before = set(NodeAncestor.objects.values_list("ancestor_id", "descendant_id", "depth"))
    with pytest.raises(InvalidInput) as caught:
        node_move(actor=tree.system, node=tree.engineering, parent=node)
    assert caught.value.code == "too_deep"
    assert set(NodeAncestor.objects.values_list("ancestor_id", "descendant_id", "depth")) == before


def test_node_move__right_only_on_new_parent__denied(tree: Tree) -> None:
    """Moving takes a node away from what binds it: the old parent's admin must agree."""
    user = make_user(tree.payments, Role.ADMIN)
    actor = actor_for_user(user)
    inner = make_node(tree.payments, "inner")
    with pytest.raises(NotFound):  # it does not even see the group above
        node_move(actor=actor, node=tree.payments, parent=inner)
    assert node_move(actor=actor, node=inner, parent=tree.payments).parent_id == tree.payments.pk


def test_node_archive__twice__one_record_and_restorable(tree: Tree) -> None:
    node_archive(actor=tree.system, node=tree.payments)
    archived = node_archive(actor=tree.system, node=tree.payments)
    assert archived.archived_at is not None
    assert AuditEvent.objects.filter(action="node.archive").count() == 1
    assert node_restore(actor=tree.system, node=tree.payments).archived_at is None
    with pytest.raises(InvalidInput):
        node_archive(actor=tree.system, node=tree.root)


def test_node_archive__children_and_moves_below__refused(tree: Tree) -> None:
    node_archive(actor=tree.system, node=tree.engineering)
    ops = make_node(tree.root, "ops", NodeKind.GROUP)
    with pytest.raises(Conflict) as created:
        make_node(tree.payments, "new")
    with pytest.raises(Conflict) as moved:
        node_move(actor=tree.system, node=ops, parent=tree.engineering)
    assert created.value.code == moved.value.code == "node_archived"


def test_node_delete__leaf__gone_with_its_links(tree: Tree) -> None:
    make_user(tree.payments, Role.VIEWER)
    node_delete(actor=tree.system, node=tree.payments)
    assert not NodeAncestor.objects.filter(descendant_id=tree.payments.pk).exists()
    event = last_event()
    assert (event.action, event.before["slug"], event.node_id) == ("node.delete", "payments", tree.payments.pk)


@pytest.mark.parametrize(("name", "code"), [("root", "root_deleted"), ("engineering", "node_has_children")])
def test_node_delete__root_or_parent__conflict(tree: Tree, name: str, code: str) -> None:
    with pytest.raises(Conflict) as caught:
        node_delete(actor=tree.system, node=getattr(tree, name))
    assert caught.value.code == code


def test_node_delete__another_app_needs_it__conflict_says_why(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guards, "_guards", [])
    guards.register_deletion_guard(lambda node_id: "it has 3 runs" if node_id == tree.payments.pk else None)
    with pytest.raises(Conflict) as caught:
        node_delete(actor=tree.system, node=tree.payments)
    assert caught.value.code == "node_in_use"
    assert "3 runs" in caught.value.detail
    node_delete(actor=tree.system, node=tree.platform)


def test_writes__any_without_right__refused_and_unrecorded(tree: Tree, other_tree: Tree) -> None:
    before = AuditEvent.objects.count()
    responder = actor_for_user(make_user(tree.payments, Role.RESPONDER))
    refused: list[tuple[Any, type[AppError]]] = [
        (responder, PermissionDenied),
        (other_tree.system, NotFound),
        (ANONYMOUS, NotFound),
        (actor_for_user(make_user(tree.platform, Role.ADMIN)), NotFound),
    ]
    for actor, error in refused:
        for write in (node_archive, node_restore, node_delete, node_update):
            with pytest.raises(error):
                write(actor=actor, node=tree.payments)
    assert AuditEvent.objects.count() == before


def test_node_move__lock_order__organization_first_audit_head_last(tree: Tree) -> None:
    ops = make_node(tree.root, "ops", NodeKind.GROUP)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        node_move(actor=tree.system, node=tree.payments, parent=ops)
    tables = [query["sql"] for query in queries if "SAVEPOINT" not in query["sql"].upper()]
    assert "orgs_organization" in tables[0]
    head = next(position for position, sql in enumerate(tables) if "audit_audithead" in sql)
    assert all("audit_" in sql for sql in tables[head:])
