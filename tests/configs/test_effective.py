"""Effective configuration: inheritance, provenance, the cache, the cost."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from controlplane.configs.cache import Computed, EffectiveCache, effective_cache
from controlplane.configs.merge import merge_all
from controlplane.configs.pointers import leaves
from controlplane.configs.selectors import chain_documents, config_effective, config_effective_for, config_version
from controlplane.core.actor import Role
from controlplane.core.errors import NotFound
from controlplane.core.ids import new_id
from controlplane.orgs.models import MAX_DEPTH, Node, NodeKind
from controlplane.orgs.services import node_move, node_update
from tests.configs.support import effective, patch, put
from tests.factories import Tree, actor_for_token, actor_for_user, make_node, make_team_token, make_user

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def cold_cache() -> None:
    effective_cache.clear()


def deepest(tree: Tree) -> Node:
    """Return a node at the deepest level a tree may have, with a document on every level."""
    node = tree.engineering
    put(tree.root, {"levels": {"0": True}})
    for level in range(2, MAX_DEPTH):
        put(node, {"levels": {str(level - 1): True}})
        node = make_node(node, f"level-{level}", NodeKind.GROUP)
    put(node, {"levels": {str(MAX_DEPTH - 1): True}})
    return node


def test_effective__untouched_node__empty_at_version_zero(tree: Tree) -> None:
    found = config_effective(node_id=tree.payments.pk)
    assert (found.document, found.version, dict(found.sources)) == ({}, 0, {})
    assert found.chain == ((tree.root.pk, 0), (tree.engineering.pk, 0), (tree.payments.pk, 0))


def test_effective__unknown_node__not_found(db: None) -> None:
    with pytest.raises(NotFound):
        config_effective(node_id=new_id())


def test_effective__example_14__root_inherited_team_overrides_each_with_its_source(tree: Tree) -> None:
    ada = actor_for_user(make_user(tree.root, Role.OWNER, username="ada"))
    bob = actor_for_user(make_user(tree.payments, Role.ADMIN, username="bob"))
    put(tree.root, {"model": "a", "only": {"org": [1]}}, actor=ada)
    put(tree.payments, {"x": 1}, actor=bob)
    written = patch(tree.payments, {"model": "b"}, actor=bob)

    found = config_effective_for(actor=bob, node_id=tree.payments.pk)

    assert found.document == {"model": "b", "only": {"org": [1]}, "x": 1}
    assert (found.version, found.chain[-1]) == (2, (tree.payments.pk, 2))
    model, inherited, own = (found.sources[pointer] for pointer in ("/model", "/only/org", "/x"))
    assert (model.node, model.level, model.version, model.by, model.at) == (
        "payments",
        "team",
        2,
        "bob",
        written.stored.updated_at,
    )
    assert (inherited.node, inherited.level, inherited.version, inherited.by) == ("demo", "org", 1, "ada")
    assert own.version == 1
    assert [(hidden.node, hidden.by, hidden.value) for hidden in model.shadowed] == [("demo", "ada", "a")]


def test_effective__sixteen_levels__all_merged(tree: Tree) -> None:
    assert effective(deepest(tree)) == {"levels": {str(level): True for level in range(MAX_DEPTH)}}


def test_effective__any_depth__one_query_when_merged_before_else_two(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    node = deepest(tree)
    with django_assert_num_queries(2):
        config_effective(node_id=node.pk)
    with django_assert_num_queries(1):
        config_effective(node_id=node.pk)
    put(tree.root, {"new": 1})
    with django_assert_num_queries(2):
        assert config_effective(node_id=node.pk).document["new"] == 1


def test_effective__for_an_actor__costs_no_query_more(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    actor = actor_for_token(make_team_token(tree.payments))
    put(tree.payments, {"a": 1})
    with django_assert_num_queries(2):
        config_effective_for(actor=actor, node_id=tree.payments.pk)


def test_effective__write_by_another_process__seen_at_the_next_read(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tree.root, {"a": 1})
    assert effective(tree.payments) == {"a": 1}
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("controlplane.configs.selectors.effective_cache", EffectiveCache())
        put(tree.root, {"a": 2})
        assert effective(tree.payments) == {"a": 2}
    assert effective(tree.payments) == {"a": 2}


def test_effective__changed_by_its_reader__others_do_not_see_it(tree: Tree) -> None:
    put(tree.payments, {"a": {"b": [1]}})
    config_effective(node_id=tree.payments.pk).document["a"]["b"].append(2)
    assert effective(tree.payments) == {"a": {"b": [1]}}


def test_effective__node_moved__inherits_from_its_new_ancestors_at_once(tree: Tree) -> None:
    sales = make_node(tree.root, "sales", NodeKind.GROUP)
    put(tree.engineering, {"from": "engineering"})
    put(sales, {"from": "sales"})
    before = config_effective(node_id=tree.payments.pk)
    node_move(actor=tree.system, node=tree.payments, parent=sales)
    after = config_effective(node_id=tree.payments.pk)
    assert (before.document["from"], after.document["from"]) == ("engineering", "sales")
    assert before.etag != after.etag


def test_effective__node_renamed__sources_name_it_anew(tree: Tree) -> None:
    put(tree.engineering, {"a": 1})
    before = config_effective(node_id=tree.payments.pk)
    node_update(actor=tree.system, node=tree.engineering, slug="platforms")
    after = config_effective(node_id=tree.payments.pk)
    assert (before.sources["/a"].node, after.sources["/a"].node) == ("engineering", "platforms")
    assert before.etag != after.etag


def test_etag__changes_with_any_document_of_the_chain_and_no_other(tree: Tree) -> None:
    tags = [config_effective(node_id=tree.payments.pk).etag]
    for node in (tree.root, tree.engineering, tree.payments):
        put(node, {"a": node.slug})
        tags.append(config_effective(node_id=tree.payments.pk).etag)
    assert len(set(tags)) == 4
    put(tree.platform, {"a": 1})
    assert config_effective(node_id=tree.payments.pk).etag == tags[-1]


def test_effective__every_leaf__has_a_source_and_the_raw_chain_merges_to_it(tree: Tree) -> None:
    put(tree.root, {"a": {"b": 1, "c": {"d": None}}, "z": {}})
    put(tree.engineering, {"a": {"c": 5}, "l": [{}]})
    put(tree.payments, {"a": {"c": {"e": []}}})
    found = config_effective(node_id=tree.payments.pk)
    chain = chain_documents(tree.payments.pk)
    assert [link.node for link, _ in chain] == ["demo", "engineering", "payments"]
    assert chain[0][1] == {"a": {"b": 1, "c": {"d": None}}, "z": {}}
    assert found.document == merge_all(document for _, document in chain)
    assert found.sources.keys() == dict(leaves(found.document)).keys()


def test_effective__of_a_foreign_or_unseen_node__not_found(tree: Tree, other_tree: Tree) -> None:
    token = actor_for_token(make_team_token(tree.payments))
    for actor, node in ((other_tree.system, tree.payments), (token, tree.platform), (token, tree.root)):
        with pytest.raises(NotFound):
            config_effective_for(actor=actor, node_id=node.pk)


def test_version__beyond_any_integer_of_the_database__not_found(tree: Tree) -> None:
    for version in (0, -1, 2**63 - 1, 2**63, 2**100):
        with pytest.raises(NotFound):
            config_version(actor=tree.system, node=tree.payments, version=version)


def test_layers__loaded__with_one_statement_that_names_versions_too(tree: Tree) -> None:
    put(tree.root, {"a": 1})
    with CaptureQueriesContext(
        connection,
    ) as captured:
        config_effective(node_id=tree.payments.pk)
    assert "leaf_versions" in captured[1]["sql"]
    assert "document" not in captured[0]["sql"].lower().replace("configs_configdocument", "")


def _computed(size_bytes: int, chain: Any = "c") -> Computed:
    return Computed(chain=chain, body=b"x" * size_bytes, sources={})


def test_cache__over_its_bytes__drops_the_least_recently_used() -> None:
    cache = EffectiveCache(max_bytes=100)
    first, second, third = new_id(), new_id(), new_id()
    cache.put(first, _computed(40))
    cache.put(second, _computed(40))
    assert cache.get(first, "c") is not None
    cache.put(third, _computed(40))
    assert [cache.get(node, "c") is not None for node in (first, second, third)] == [True, False, True]


def test_cache__replaced_entry__its_bytes_are_given_back() -> None:
    cache = EffectiveCache(max_bytes=100)
    node, other = new_id(), new_id()
    for version in range(10):
        cache.put(node, _computed(60, version))
    cache.put(other, _computed(40))
    assert cache.get(node, 9) is not None
    assert cache.get(node, 8) is None
    assert cache.get(other, "c") is not None


def test_cache__entry_larger_than_everything__not_kept() -> None:
    cache = EffectiveCache(max_bytes=100)
    node = new_id()
    cache.put(node, _computed(101))
    assert cache.get(node, "c") is None
