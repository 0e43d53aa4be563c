"""Dry runs: what would change, for whom, and that nothing is written."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from controlplane.audit.models import AuditEvent
from controlplane.configs.impact import Impact, ImpactSearch, impact_of
from controlplane.configs.merge import merge_all
from controlplane.configs.models import ConfigDocument
from controlplane.configs.pointers import Document, same
from controlplane.configs.services import config_patch, config_replace, config_rollback, config_unset
from controlplane.core.errors import InvalidInput, PreconditionFailed
from controlplane.orgs.models import Node
from tests.configs.strategies import DOCUMENTS
from tests.configs.support import put, versions
from tests.factories import Tree, make_node


@pytest.mark.django_db
def test_dry_run__of_each_write__answers_and_writes_nothing(tree: Tree) -> None:
    put(tree.payments, {"a": 1})
    put(tree.payments, {"a": 2})
    events, rows = AuditEvent.objects.count(), list(ConfigDocument.objects.values())
    who: dict[str, Any] = {"actor": tree.system, "node": tree.payments, "dry_run": True}
    results = [
        config_replace(document={"b": 1}, **who),
        config_patch(patch={"b": 1}, **who),
        config_unset(pointers=["/a"], **who),
        config_rollback(version=1, **who),
    ]
    assert [result.stored.document for result in results] == [{"b": 1}, {"a": 2, "b": 1}, {}, {"a": 1}]
    assert all(result.dry_run and result.changed and result.stored.version == 2 for result in results)
    assert results[3].operations == [{"pointer": "/a", "before": 2, "after": 1}]
    assert [warning.code for warning in results[0].warnings] == ["unknown_section"]
    assert (AuditEvent.objects.count(), list(ConfigDocument.objects.values())) == (events, rows)
    assert versions(tree.payments) == [1, 2]


@pytest.mark.django_db
def test_dry_run__on_an_untouched_node__leaves_no_row(tree: Tree) -> None:
    config_replace(actor=tree.system, node=tree.payments, document={"a": 1}, dry_run=True)
    assert not ConfigDocument.objects.exists()


@pytest.mark.django_db
def test_dry_run__of_a_bad_or_stale_write__refused_like_the_write(tree: Tree) -> None:
    with pytest.raises(InvalidInput):
        config_replace(actor=tree.system, node=tree.payments, document={"limits": {"max_turns": 0}}, dry_run=True)
    with pytest.raises(PreconditionFailed):
        config_replace(actor=tree.system, node=tree.payments, document={}, if_match='"1"', dry_run=True)


@pytest.mark.django_db
def test_impact__change_at_the_root__descendants_that_do_not_hide_it(tree: Tree) -> None:
    make_node(tree.payments, "nested")
    put(tree.payments, {"m": "team"})
    result = config_patch(actor=tree.system, node=tree.root, patch={"m": "root"}, dry_run=True)
    assert result.impact is not None
    assert result.impact.as_dict() == {"count": 2, "slugs": ["engineering", "platform"]}


@pytest.mark.django_db
def test_impact__change_that_an_ancestor_makes_ineffective__nobody(tree: Tree) -> None:
    put(tree.root, {"m": 1})
    put(tree.engineering, {"x": 1})
    result = config_patch(actor=tree.system, node=tree.engineering, patch={"m": 1}, dry_run=True)
    assert result.changed
    assert result.impact is not None
    assert result.impact.as_dict() == {"count": 0, "slugs": []}


@pytest.mark.django_db
def test_impact__many_descendants__first_fifty_listed_and_all_counted_in_four_queries(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for index in range(58):
        make_node(tree.engineering, f"team-{index:02}")
    with django_assert_num_queries(4):
        impact = impact_of(tree.root, {}, {"a": 1})
    assert (impact.count, len(impact.slugs)) == (61, 50)
    assert impact.slugs[:3] == ("engineering", "payments", "platform")


@pytest.mark.django_db
def test_impact__documents_that_touch_nothing_that_changes__never_read(tree: Tree) -> None:
    for index in range(6):
        team = make_node(tree.engineering, f"team-{index}")
        put(team, {"limits": {"max_turns": index + 1} if index < 2 else {"max_tokens": 5000}})
    put(tree.payments, {"limits": None})
    with CaptureQueriesContext(connection) as queries:
        impact = impact_of(tree.root, {}, {"limits": {"max_turns": 30}})
    read = [query["sql"] for query in queries if 'SELECT "configs_configdocument"."node_id"' in query["sql"]]
    assert impact.count == 6  # engineering, platform, and the four teams without a value of their own
    # Which ones touch it, then those three alone: two teams' own values, and the null in the way.
    assert len(read) == 2
    assert len(read[1].partition(" IN (")[2].split(",")) == 3


@pytest.mark.django_db
@pytest.mark.parametrize("key", ["plain", "0", 'quo"te', "back\\slash", "ümlaut", "per%cent", "a.b", "$", "[0]"])
def test_impact__any_key__hidden_by_who_sets_it_or_what_is_in_its_way(tree: Tree, key: str) -> None:
    put(tree.payments, {"x": {key: {"y": 2}}})
    nested = make_node(tree.payments, "nested")
    put(make_node(tree.engineering, "other"), {"x": {key: [1]}})
    put(nested, {"x": {"unrelated": 1}})
    impact = impact_of(tree.root, {}, {"x": {key: {"y": 1}}})
    assert impact.slugs == ("engineering", "platform")


@pytest.mark.django_db
def test_impact__step_by_step__says_how_far_it_is(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controlplane.configs.impact.STEP_NODES", 2)
    put(tree.payments, {"a": 5})
    for index in range(3):
        make_node(tree.payments, f"nested-{index}")
    search = ImpactSearch(tree.root, {}, {"a": 1})
    seen = []
    while search.step():
        seen.append((search.done, search.total, search.found.count))
    assert seen == [(2, 6, 1), (4, 6, 2), (6, 6, 2)]
    assert search.run(0) == search.found == Impact(2, ("engineering", "platform"))

    waiting = ImpactSearch(tree.root, {}, {"a": 1})
    assert waiting.run(0).count == 1  # patience ends after the first step
    assert not waiting.finished
    assert waiting.run() == search.found


@pytest.mark.django_db
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=st.lists(DOCUMENTS, min_size=5, max_size=5), change=DOCUMENTS)
def test_impact__any_documents__the_nodes_whose_effective_configuration_changes(
    tree: Tree, documents: list[Document], change: Document
) -> None:
    nested = Node.objects.filter(slug="nested").first() or make_node(tree.payments, "nested")
    root, group, payments, platform, below = documents
    nodes = (tree.root, tree.engineering, tree.payments, tree.platform, nested)
    for node, document in zip(nodes, documents, strict=True):
        ConfigDocument.objects.update_or_create(node=node, defaults={"document": document, "version": 1})
    chains = {"payments": [payments], "platform": [platform], "nested": [payments, below]}

    foreseen = impact_of(tree.engineering, group, change)

    assert set(foreseen.slugs) == {
        slug
        for slug, chain in chains.items()
        if not same(merge_all([root, group, *chain]), merge_all([root, change, *chain]))
    }
