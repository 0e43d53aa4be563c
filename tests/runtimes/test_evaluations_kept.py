"""Results of evaluations that are kept, and who reads them."""

import pytest
from pytest_django import DjangoAssertNumQueries

from controlplane.core.actor import ANONYMOUS, Role
from controlplane.core.errors import PermissionDenied
from controlplane.runtimes.evaluation import CaseResult, SuiteResult
from controlplane.runtimes.selectors import evaluations_latest
from controlplane.runtimes.services import evaluation_record
from tests.factories import Tree, actor_for_token, actor_for_user, make_admin_token, make_team_token, make_user


def result_of(suite: str = "tracer", runtime: str = "builtin", score: float = 1.0) -> SuiteResult:
    return SuiteResult(suite, runtime, [CaseResult("c", True, 0.25, "healthy", "healthy")], score)


def test_evaluations_latest__several__newest_of_each_suite_and_runtime(tree: Tree) -> None:
    for score in (0.1, 0.2):
        for suite, runtime in (("tracer", "builtin"), ("petshop", "builtin"), ("tracer", "other")):
            evaluation_record(result=result_of(suite, runtime, score))
    actor = actor_for_user(make_user(tree.payments, Role.VIEWER))
    assert [(found.suite, found.runtime, found.score) for found in evaluations_latest(actor)] == [
        ("petshop", "builtin", 0.2),
        ("tracer", "builtin", 0.2),
        ("tracer", "other", 0.2),
    ]


@pytest.mark.parametrize("role", [*Role, None])
def test_evaluations_latest__anybody_signed_in__may_read(
    tree: Tree, role: Role | None, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for score in range(5):
        evaluation_record(result=result_of(score=score / 10))
    actor = actor_for_user(make_user(tree.payments, role))
    with django_assert_num_queries(1):
        (found,) = evaluations_latest(actor)
    assert found.score == 0.4


def test_evaluations_latest__nobody_or_a_machine__is_refused(tree: Tree) -> None:
    machines = [actor_for_token(make_team_token(tree.payments)), actor_for_token(make_admin_token(tree.root))]
    for actor in (ANONYMOUS, tree.system, *machines):
        with pytest.raises(PermissionDenied):
            evaluations_latest(actor)
