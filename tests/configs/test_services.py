"""Writing configuration: what each write stores, records and refuses."""

from typing import Any

import pytest
from django.db import transaction

from controlplane.audit.models import AuditEvent
from controlplane.configs.models import ConfigDocument, ConfigVersion
from controlplane.configs.services import config_patch, config_replace, config_rollback, config_unset
from controlplane.core.actor import Role
from controlplane.core.errors import (
    AppError,
    InvalidInput,
    NotFound,
    PayloadTooLarge,
    PermissionDenied,
    PreconditionFailed,
)
from tests.configs.support import effective, patch, put, stored, versions
from tests.factories import Tree, actor_for_token, actor_for_user, make_team_token, make_user

pytestmark = pytest.mark.django_db


def test_replace__first_write__document_version_history_and_audit(tree: Tree) -> None:
    author = actor_for_user(make_user(tree.payments, Role.ADMIN, username="ada"))

    result = config_replace(
        actor=author, node=tree.payments, document={"agents": {"a": {"model": "m"}}}, reason=" first "
    )

    row = ConfigDocument.objects.get(pk=tree.payments.pk)
    history = ConfigVersion.objects.get(node=tree.payments)
    assert (row.version, row.document, row.updated_by) == (1, {"agents": {"a": {"model": "m"}}}, "ada")
    assert row.leaf_versions == {"/agents/a/model": 1}
    assert (history.version, history.document, history.by, history.reason) == (1, row.document, "ada", "first")
    assert (history.principal, history.id) == (author.principal, row.revision)
    assert (result.changed, result.stored.version) == (True, 1)
    event = AuditEvent.objects.get(action="config.replace")
    assert (event.actor, event.object_id, event.node_id, event.reason) == (
        author.principal, str(tree.payments.pk), tree.payments.pk, "first",
    )  # fmt: skip
    assert event.before == {"version": 0, "values": {}}
    assert event.after == {
        "version": 1,
        "changed": 1,
        "pointers": ["/agents/a/model"],
        "values": {"/agents/a/model": "m"},
    }


@pytest.mark.parametrize("again", [{"a": 1, "b": [1, {"c": None}]}, {"b": [1.0, {"c": None}], "a": 1}])
def test_replace__same_document__no_new_version_and_no_audit(tree: Tree, again: dict[str, Any]) -> None:
    put(tree.payments, {"a": 1, "b": [1, {"c": None}]})
    before = AuditEvent.objects.count()

    result = put(tree.payments, again)

    assert (result.changed, result.stored.version) == (False, 1)
    assert versions(tree.payments) == [1]
    assert AuditEvent.objects.count() == before


def test_replace__number_for_equal_boolean__is_a_change(tree: Tree) -> None:
    put(tree.payments, {"a": True})
    assert put(tree.payments, {"a": 1}).stored.version == 2
    assert stored(tree.payments) == {"a": 1}
    assert stored(tree.payments)["a"] is not True


def test_replace__empty_document_on_an_untouched_node__no_version(tree: Tree) -> None:
    assert not put(tree.payments, {}).changed
    assert versions(tree.payments) == []


def test_replace__only_empty_objects_differ__new_version_same_effective(tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    assert put(tree.payments, {"a": 1, "meant": {}}).stored.version == 2
    assert stored(tree.payments) == {"a": 1, "meant": {}}
    assert effective(tree.payments) == {"a": 1}


def test_replace__numbers_and_texts_of_every_kind__read_back_equal(tree: Tree) -> None:
    document = {
        "n": [2**63 - 1, -(2**63), 0.1, 1e-300, 123456789012345.6, -0.0, 5e-324],
        "t": ["ü\u2028\t", "", "\\u0000", "💥"],
    }
    put(tree.payments, document)
    assert stored(tree.payments) == document
    assert effective(tree.payments) == document
    assert not put(tree.payments, document).changed


def test_patch__example_12__adds_and_keeps(tree: Tree) -> None:
    put(tree.payments, {"knowledge": {"confluence": ["c"]}})
    patch(tree.payments, {"knowledge": {"google": ["g1"]}})
    assert effective(tree.payments) == {"knowledge": {"confluence": ["c"], "google": ["g1"]}}


def test_patch__example_11__null_is_stored_and_hides_the_inherited(tree: Tree) -> None:
    put(tree.root, {"a": {"b": 1}})
    patch(tree.payments, {"a": None})
    assert stored(tree.payments) == {"a": None}
    assert effective(tree.payments) == {"a": None}


def test_patch__rfc_7396__null_removes_and_the_value_is_inherited_again(tree: Tree) -> None:
    put(tree.root, {"a": 1})
    put(tree.payments, {"a": 2, "b": {"c": 1, "d": 2}})
    config_patch(actor=tree.system, node=tree.payments, patch={"a": None, "b": {"c": None}}, merge_patch=True)
    assert stored(tree.payments) == {"b": {"d": 2}}
    assert effective(tree.payments) == {"a": 1, "b": {"d": 2}}


def test_patch__changing_nothing__no_new_version(tree: Tree) -> None:
    put(tree.payments, {"a": {"b": 1}})
    assert not patch(tree.payments, {"a": {"b": 1}, "c": {}}).changed
    assert versions(tree.payments) == [1]


def test_patch__result_too_large__refused_and_nothing_stored(tree: Tree) -> None:
    put(tree.payments, {"a": "x" * 200_000})
    with pytest.raises(PayloadTooLarge):
        patch(tree.payments, {"b": "y" * 100_000})
    assert versions(tree.payments) == [1]


def test_patch__magic_inherit_text__is_a_text_like_any_other(tree: Tree) -> None:
    patch(tree.payments, {"a": "__INHERIT__"})
    assert stored(tree.payments) == {"a": "__INHERIT__"}


def test_unset__example_13__inherits_again_and_empties_go(tree: Tree) -> None:
    put(tree.root, {"agents": {"k8s": {"model": "a"}}})
    put(tree.payments, {"agents": {"k8s": {"model": "b", "enabled": False}}, "meant": {}})

    config_unset(actor=tree.system, node=tree.payments, pointers=["/agents/k8s/model"])
    assert stored(tree.payments) == {"agents": {"k8s": {"enabled": False}}, "meant": {}}
    assert effective(tree.payments) == {"agents": {"k8s": {"model": "a", "enabled": False}}}

    config_unset(actor=tree.system, node=tree.payments, pointers=["/agents/k8s/enabled"])
    assert stored(tree.payments) == {"meant": {}}


def test_unset__again_or_absent__nothing_changes(tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    result = config_unset(actor=tree.system, node=tree.payments, pointers=["/b", "/a/x", "/c/d/e"])
    assert (result.changed, versions(tree.payments)) == (False, [1])


def test_unset__at_a_group__layers_below_keep_their_own(tree: Tree) -> None:
    put(tree.root, {"m": "root"})
    put(tree.engineering, {"m": "group"})
    put(tree.payments, {"m": "team"})
    config_unset(actor=tree.system, node=tree.engineering, pointers=["/m"])
    assert (effective(tree.platform), effective(tree.payments)) == ({"m": "root"}, {"m": "team"})


@pytest.mark.parametrize(
    ("pointers", "code", "at"),
    [
        (None, "pointers", "/pointers"),
        ([], "pointers", "/pointers"),
        ("/a", "pointers", "/pointers"),
        (["/a"] * 1001, "pointers", "/pointers"),
        (["/a", "b"], "malformed_pointer", "/pointers/1"),
        (["/~2"], "malformed_pointer", "/pointers/0"),
        ([5], "malformed_pointer", "/pointers/0"),
        ([""], "whole_document", "/pointers/0"),
        (["/x", "/list/0"], "pointer_into_list", "/pointers/1"),
    ],
)
def test_unset__bad_pointers__refused_by_name(tree: Tree, pointers: Any, code: str, at: str) -> None:
    put(tree.payments, {"list": [1]})
    with pytest.raises(InvalidInput) as caught:
        config_unset(actor=tree.system, node=tree.payments, pointers=pointers)
    assert (caught.value.code, caught.value.errors[0].pointer) == (code, at)
    assert versions(tree.payments) == [1]


def test_rollback__example_25__old_document_new_version_history_untouched(tree: Tree) -> None:
    documents: list[dict[str, Any]] = [{"a": 1}, {"a": 2, "b": 1}, {"b": 2}, {"c": {"d": []}}]
    for document in documents:
        put(tree.payments, document)
    before = list(ConfigVersion.objects.filter(node=tree.payments).order_by("version").values())

    result = config_rollback(actor=tree.system, node=tree.payments, version=2, reason="bad night")

    assert (result.stored.version, stored(tree.payments)) == (5, documents[1])
    assert list(ConfigVersion.objects.filter(node=tree.payments, version__lte=4).order_by("version").values()) == before
    assert ConfigVersion.objects.get(node=tree.payments, version=5).reason == "bad night"
    assert AuditEvent.objects.filter(action="config.rollback").count() == 1


def test_rollback__to_version_zero__the_empty_document(tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    assert config_rollback(actor=tree.system, node=tree.payments, version=0).stored.version == 2
    assert stored(tree.payments) == {}


@pytest.mark.parametrize("version", [2, -1, 2**70])
def test_rollback__unknown_version__refused(tree: Tree, version: int) -> None:
    put(tree.payments, {"a": 1})
    with pytest.raises(InvalidInput) as caught:
        config_rollback(actor=tree.system, node=tree.payments, version=version)
    assert (caught.value.code, caught.value.errors[0].pointer) == ("unknown_version", "/version")


@pytest.mark.parametrize("version", [True, "1", 1.0, None])
def test_rollback__no_integer__refused(tree: Tree, version: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        config_rollback(actor=tree.system, node=tree.payments, version=version)
    assert caught.value.code == "not_an_integer"


def test_rollback__version_of_another_node__refused(tree: Tree) -> None:
    put(tree.platform, {"a": 1})
    with pytest.raises(InvalidInput):
        config_rollback(actor=tree.system, node=tree.payments, version=1)


def test_leaf_versions__over_several_writes__name_the_version_that_last_changed_each(tree: Tree) -> None:
    ada, bob = (actor_for_user(make_user(tree.payments, Role.ADMIN, username=name)) for name in ("ada", "bob"))
    put(tree.payments, {"a": 1, "b": {"c": 1}, "l": [1]}, actor=ada)
    patch(tree.payments, {"b": {"c": 2, "d": 1}}, actor=bob)
    patch(tree.payments, {"l": [1, 2]}, actor=ada)
    row = ConfigDocument.objects.get(pk=tree.payments.pk)
    assert row.leaf_versions == {"/a": 1, "/b/c": 2, "/b/d": 2, "/l": 3}
    assert {number: author["by"] for number, author in row.authors.items()} == {"1": "ada", "2": "bob", "3": "ada"}

    config_unset(actor=bob, node=tree.payments, pointers=["/b"])
    row.refresh_from_db()
    assert row.leaf_versions == {"/a": 1, "/l": 3}
    assert row.authors.keys() == {"1", "3"}


def test_leaf_versions__value_returns__is_set_by_the_later_version(tree: Tree) -> None:
    for value in (1, 2, 1):
        put(tree.payments, {"a": value})
    assert ConfigDocument.objects.get(pk=tree.payments.pk).leaf_versions == {"/a": 3}


@pytest.mark.parametrize("header", ['"2"', "2", 'W/"2"', "*", '"1", "2"'])
def test_if_match__names_the_current_version__written(tree: Tree, header: str) -> None:
    put(tree.payments, {"a": 1})
    put(tree.payments, {"a": 2})
    result = config_replace(actor=tree.system, node=tree.payments, document={"a": 3}, if_match=header)
    assert result.stored.version == 3


def test_if_match__stale__refused_with_current_version_and_changes_since(tree: Tree) -> None:
    put(tree.payments, {"a": 1, "b": 1})
    put(tree.payments, {"a": 2, "b": 1})
    with pytest.raises(PreconditionFailed) as caught:
        config_patch(actor=tree.system, node=tree.payments, patch={"b": 2}, if_match='"1"')
    assert caught.value.extra["current_version"] == 2
    assert caught.value.extra["changes"] == [{"pointer": "/a", "before": 1, "after": 2}]
    assert caught.value.headers["ETag"] == '"2"'
    assert stored(tree.payments) == {"a": 2, "b": 1}


@pytest.mark.parametrize("header", ["", '"9"', '"x"', '"-1"', "nonsense", '"99999999999999999999"', '"0"', '"1", "3"'])
def test_if_match__names_no_current_version__refused(tree: Tree, header: str) -> None:
    put(tree.payments, {"a": 1})
    put(tree.payments, {"a": 2})
    with pytest.raises(PreconditionFailed):
        config_replace(actor=tree.system, node=tree.payments, document={}, if_match=header)
    assert versions(tree.payments) == [1, 2]


def test_reason__too_long_or_not_one_line__refused(tree: Tree) -> None:
    for reason, code in (("x" * 501, "too_long"), ("a\x00b", "control_character"), ("a\nb", "control_character")):
        with pytest.raises(InvalidInput) as caught:
            put(tree.payments, {"a": 1}, reason=reason)
        assert (caught.value.code, caught.value.errors[0].pointer) == (code, "/reason")
    assert versions(tree.payments) == []


def test_audit__large_change__pointers_only_and_bounded(tree: Tree) -> None:
    put(tree.payments, {f"k{index}": "x" * 500 for index in range(300)})
    event = AuditEvent.objects.get(action="config.replace")
    assert (event.after["changed"], len(event.after["pointers"])) == (300, 200)
    assert "values" not in event.after


def test_write__outer_transaction_rolled_back__no_version_no_audit_and_no_stale_answer(tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    before = AuditEvent.objects.count()
    with transaction.atomic():
        put(tree.payments, {"a": 2})
        assert effective(tree.payments) == {"a": 2}
        transaction.set_rollback(True)
    assert effective(tree.payments) == {"a": 1}
    put(tree.payments, {"a": 3})
    assert effective(tree.payments) == {"a": 3}
    assert versions(tree.payments) == [1, 2]
    assert AuditEvent.objects.count() == before + 1


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESPONDER, Role.REVIEWER])
def test_write__role_without_the_right__denied_in_the_service_too(tree: Tree, role: Role) -> None:
    actor = actor_for_user(make_user(tree.root, role))
    for dry_run in (False, True):
        with pytest.raises(PermissionDenied):
            config_replace(actor=actor, node=tree.payments, document={"a": 1}, dry_run=dry_run)
    assert versions(tree.payments) == []


def test_write__admin_of_another_organization__not_found(tree: Tree, other_tree: Tree) -> None:
    with pytest.raises(NotFound):
        config_replace(actor=other_tree.system, node=tree.payments, document={"a": 1})


def test_write__team_token_at_its_parent__not_found(tree: Tree) -> None:
    actor = actor_for_token(make_team_token(tree.payments, ["config:read", "config:write"]))
    patch(tree.payments, {"a": 1}, actor=actor)
    with pytest.raises(NotFound):
        patch(tree.engineering, {"a": 1}, actor=actor)


def test_write__node_deleted_meanwhile__not_found(tree: Tree) -> None:
    node = tree.platform
    pk = node.pk
    node.delete()
    node.pk = pk
    with pytest.raises(NotFound):
        config_replace(actor=tree.system, node=node, document={"a": 1})


@pytest.mark.parametrize("document", [None, [], "x", {"": 1}, {"limits": {"max_turns": 0}}, {"a": float("nan")}])
def test_write__bad_document__nothing_stored(tree: Tree, document: Any) -> None:
    with pytest.raises(AppError):
        config_replace(actor=tree.system, node=tree.payments, document=document)
    with pytest.raises(AppError):
        config_patch(actor=tree.system, node=tree.payments, patch=document)
    assert (versions(tree.payments), stored(tree.payments)) == ([], {})
