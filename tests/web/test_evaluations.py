"""The page of the last evaluations: what it shows, to whom, at what cost."""

from typing import Any

import pytest
from django.test import Client
from django.utils.html import escape
from pytest_django import DjangoAssertNumQueries

from controlplane.core.actor import Role
from controlplane.runtimes.evaluation import CaseResult, SuiteResult
from controlplane.runtimes.models import Evaluation
from controlplane.runtimes.services import evaluation_record
from tests.factories import Tree, make_operator, make_user
from tests.web.support import EVIL, Person

PATH = "/app/evaluations"


def case(id_: str, *, passed: bool = True, seconds: float = 0.25, **fields: Any) -> CaseResult:
    return CaseResult(id_, passed, seconds, fields.pop("expected", "healthy"), fields.pop("found", "healthy"), **fields)


def record(*cases: CaseResult, suite: str = "tracer", runtime: str = "builtin", **totals: float) -> Evaluation:
    score = sum(one.passed for one in cases) / len(cases)
    return evaluation_record(result=SuiteResult(suite, runtime, cases, score, totals))


def page(person: Person) -> str:
    return person.client.get(PATH).content.decode()


def test_evaluations__none_yet__names_the_command(viewer: Person) -> None:
    text = page(viewer)
    assert "Nothing measured yet" in text
    assert "manage.py evaluate SUITE DIR" in text
    assert "<code>petshop</code>" in text
    assert "<code>tracer</code>" in text


def test_evaluations__result__score_figures_and_cases_failing_first(viewer: Person) -> None:
    record(
        case("a-1"),
        case("b-2", passed=False, seconds=0.5, found="unknown", reasons=["not said: wal"]),
        case("c-3"),
        right_category=2 / 3,
        healthy_blamed=1,
    )
    answer: Any = viewer.client.get(PATH)
    text = answer.content.decode()
    (result,) = answer.context["results"]
    assert [one.id for one in result.cases] == ["b-2", "a-1", "c-3"]
    assert (result.score, result.passed, result.failed) == ("67 %", 2, 1)
    assert [(figure.label, figure.value) for figure in result.figures] == [
        ("Right category", "67 %"),
        ("Healthy systems blamed", "1"),
    ]
    assert [one.width for one in result.cases] == [100, 50, 50]
    for part in ("not said: wal", "250 ms", "500 ms", "2 of 3 cases pass", "runtime builtin"):
        assert part in text


def test_evaluations__figures_of_petshop__are_named(viewer: Person) -> None:
    record(case("q"), suite="petshop", top1=0.9, top3=0.996, top1_latency=0.004, specificity=1.0, new_figure=0.5)
    answer: Any = viewer.client.get(PATH)
    (result,) = answer.context["results"]
    assert [(figure.label, figure.value) for figure in result.figures] == [
        ("Cause named first", "90 %"),
        ("Cause named first, latency", "0.4 %"),
        ("Cause among the first three", "99.6 %"),
        ("Quiet windows in which nobody is blamed", "100 %"),
        ("New figure", "50 %"),
    ]


def test_evaluations__several__one_section_for_each_suite_and_runtime_with_the_last_result(viewer: Person) -> None:
    record(case("old"))
    record(case("new"))
    record(case("theirs"), runtime="other")
    text = page(viewer)
    assert text.count('<section class="eval"') == 2
    assert "old" not in text.split("<main")[1].replace("threshold", "")
    assert 'id="tracer-builtin"' in text
    assert 'id="tracer-other"' in text


def test_evaluations__text_of_a_result__is_escaped(viewer: Person) -> None:
    record(case(EVIL, passed=False, found=EVIL, expected=EVIL, reasons=[EVIL]))
    text = page(viewer)
    assert EVIL not in text
    assert text.count(str(escape(EVIL))) == 4


def test_evaluations__result_of_an_older_version__shows_what_there_is(viewer: Person) -> None:
    Evaluation.objects.create(suite="tracer", runtime="builtin", score=0.5, result={"cases": [{"id": "x"}]})
    text = page(viewer)
    assert "50 %" in text
    assert ">x</th>" in text


@pytest.mark.parametrize("role", [*Role, None])
def test_evaluations__any_member__reads_them(tree: Tree, role: Role | None) -> None:
    record(case("a-1"))
    person = Person.signed_in(make_user(tree.payments, role))
    answer = person.client.get(PATH)
    assert answer.status_code == 200
    assert "a-1" in answer.content.decode()
    assert person.client.post(PATH).status_code == 405


def test_evaluations__other_organization__reads_the_same(viewer: Person, outsider: Person) -> None:
    record(case("a-1"))
    main = [page(person).split("<main")[1] for person in (viewer, outsider)]
    assert main[0] == main[1]


def test_evaluations__nobody_signed_in__goes_to_the_sign_in_page_and_back(anonymous: Client) -> None:
    answer = anonymous.get(PATH)
    assert answer.status_code == 302
    assert answer["Location"] == "/login/?next=%2Fapp%2Fevaluations"


def test_evaluations__operator__goes_to_the_administration(anonymous: Client) -> None:
    anonymous.force_login(make_operator())
    assert anonymous.get(PATH)["Location"] == "/admin/"


def test_evaluations__many_results__same_number_of_queries(
    viewer: Person, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for number in range(20):
        record(case("a-1"), runtime=f"r{number % 7}")
    with django_assert_num_queries(4):  # session, user, roles, results
        viewer.client.get(PATH)


def test_bar__signed_in__links_to_the_evaluations(viewer: Person) -> None:
    assert f'<a href="{PATH}">Evaluations</a>' in viewer.client.get("/app/").content.decode()


def test_evaluations__ids_with_numbers__in_the_order_a_person_counts(viewer: Person) -> None:
    record(*(case(id_) for id_ in ("b/issue_10", "b/issue_2", "a/issue_11", "b/issue", "b/2", "10")))
    answer: Any = viewer.client.get(PATH)
    (result,) = answer.context["results"]
    assert [one.id for one in result.cases] == ["a/issue_11", "b/2", "b/issue", "b/issue_2", "b/issue_10", "10"]
    assert "b/<wbr>issue_<wbr>10</th>" in answer.content.decode()


@pytest.mark.parametrize(("passing", "folded"), [(12, 0), (13, 13)])
def test_evaluations__many_pass__they_are_folded_and_failing_ones_are_not(
    viewer: Person, passing: int, folded: int
) -> None:
    record(case("broken", passed=False), *(case(f"fine-{number}") for number in range(passing)))
    text = page(viewer)
    before, _, fold = text.partition('<details class="eval-fold">')
    assert ">broken</th>" in before
    assert before.count(">fine-") == passing - folded
    assert fold.count(">fine-") == folded
    assert (f"{folded} passing cases" in fold) == bool(folded)
    assert "no estimate for incidents nobody has seen" in text
