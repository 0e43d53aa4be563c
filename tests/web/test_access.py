"""Who sees what: roles, other organizations, private threads."""

from typing import Any

import pytest

from controlplane.investigations.models import Run, Thread
from tests.factories import Tree
from tests.web.support import Person, finish, start


def pages_of(thread: Thread) -> list[str]:
    run = Run.objects.filter(thread=thread).latest("number")
    base = f"/app/threads/{thread.pk}"
    return [base, f"{base}/question", f"{base}/runs/{run.pk}/report", f"{base}/runs/{run.pk}/report.md"]


def writes_of(thread: Thread) -> list[tuple[str, dict[str, str]]]:
    base = f"/app/threads/{thread.pk}"
    answer = {"request_id": "x", "question_0.choice": "yes"}
    return [(f"{base}/messages", {"text": "more"}), (f"{base}/stop", {}), (f"{base}/answers", answer)]


def statuses(person: Person, thread: Thread) -> set[int]:
    read = {person.client.get(path).status_code for path in pages_of(thread)}
    return read | {person.client.post(path, data).status_code for path, data in writes_of(thread)}


def test_thread__other_organization__is_not_there(outsider: Person, team_thread: Thread) -> None:
    assert statuses(outsider, team_thread) == {404}


def test_private_thread__colleague__is_not_there(colleague: Person, private_thread: Thread) -> None:
    assert statuses(colleague, private_thread) == {404}


def test_private_thread__starter__sees_it(responder: Person, private_thread: Thread) -> None:
    page = responder.client.get(f"/app/threads/{private_thread.pk}").content.decode()
    assert "Only you" in page


def test_team_thread__colleague__sees_and_steers(colleague: Person, team_thread: Thread) -> None:
    page = colleague.client.get(f"/app/threads/{team_thread.pk}").content.decode()
    assert "Replica lags behind a batch" in page
    colleague.client.post(f"/app/threads/{team_thread.pk}/messages", {"text": "And now?"})
    assert Run.objects.filter(thread=team_thread).count() == 2


def test_team_thread__viewer__reads_and_may_not_steer(viewer: Person, team_thread: Thread) -> None:
    answer = viewer.client.get(f"/app/threads/{team_thread.pk}")
    page = answer.content.decode()
    assert answer.status_code == 200
    assert "Replica lags behind a batch" in page
    assert "needs the role responder" in page
    assert "data-composer" not in page
    assert [viewer.client.post(path, data).status_code for path, data in writes_of(team_thread)] == [403, 403, 403]


def test_unknown_and_foreign_thread__answer_alike(outsider: Person, team_thread: Thread) -> None:
    foreign = outsider.client.get(f"/app/threads/{team_thread.pk}")
    unknown = outsider.client.get("/app/threads/00000000-0000-7000-8000-000000000000")
    strip = [answer.content.decode().split("Request")[0] for answer in (foreign, unknown)]
    assert foreign.status_code == unknown.status_code == 404
    assert strip[0] == strip[1]


def test_report_of_another_threads_run__is_not_there(tree: Tree, responder: Person, team_thread: Thread) -> None:
    other = finish(start(responder, tree.platform))
    path = f"/app/threads/{team_thread.pk}/runs/{other.run.pk}/report"
    assert [responder.client.get(path + end).status_code for end in ("", ".md")] == [404, 404]


@pytest.mark.parametrize("path", ["/app/", "/app/new", "/app/runs", "/app/config/payments", "/login/", "/api/docs"])
def test_pages__head__answers_like_get(responder: Person, path: str) -> None:
    assert responder.client.head(path).status_code == responder.client.get(path).status_code


def test_lists__show_only_what_is_visible(
    colleague: Person, outsider: Person, responder: Person, team_thread: Thread, private_thread: Thread
) -> None:
    def shown(person: Person, path: str) -> set[str]:
        page = person.client.get(path).content.decode()
        return {str(thread.pk) for thread in (team_thread, private_thread) if str(thread.pk) in page}

    for path in ("/app/", "/app/runs"):
        assert shown(responder, path) == {str(team_thread.pk), str(private_thread.pk)}
        assert shown(colleague, path) == {str(team_thread.pk)}
        assert shown(outsider, path) == set()


@pytest.mark.parametrize("slug", ["payments", "engineering", "demo"])
def test_config__other_organization_with_same_slugs__sees_its_own(
    outsider: Person, other_tree: Tree, tree: Tree, slug: str
) -> None:
    answer = outsider.client.get(f"/app/config/{slug}")
    assert answer.status_code == (404 if slug == "demo" else 200)
    if answer.status_code == 200:
        assert answer.context["node"].organization_id == other_tree.organization.pk


def test_config__viewer_of_a_team__sees_that_team_alone(viewer: Person, tree: Tree) -> None:
    page: Any = viewer.client.get("/app/config/payments")
    assert [node.slug for node in page.context["tree"]] == ["payments"]
    assert viewer.client.get("/app/config/platform").status_code == 404
    assert viewer.client.get("/app/config/engineering").status_code == 404


def test_viewer__may_not_start(viewer: Person, tree: Tree) -> None:
    assert "You can read investigations but not start one" in viewer.client.get("/app/").content.decode()
    answer = viewer.client.post("/app/new", {"prompt": "x", "team": "payments"})
    assert answer.status_code == 403
    assert not Thread.objects.exists()
