"""Rating an answer on the thread's page, without scripts."""

from controlplane.investigations.models import Feedback, Run, Thread
from tests.factories import Tree
from tests.web.support import EVIL, Person, start


def test_thread__ended_run__has_the_form_and_takes_it(responder: Person, team_thread: Thread) -> None:
    run = Run.objects.get(thread=team_thread)
    address = f"/app/threads/{team_thread.pk}/runs/{run.pk}/feedback"
    assert f'action="{address}"' in responder.client.get(f"/app/threads/{team_thread.pk}").content.decode()

    answer = responder.client.post(address, {"verdict": "partial", "reason": EVIL})

    assert (answer.status_code, answer["Location"]) == (302, f"/app/threads/{team_thread.pk}#feedback-{run.pk}")
    for page in (f"/app/threads/{team_thread.pk}", f"/app/threads/{team_thread.pk}/runs/{run.pk}/report"):
        html = responder.client.get(page).content.decode()
        assert 'value="partial" required checked' in html
        assert "<script>alert" not in html
    assert "Partly" in responder.client.get("/app/runs").content.decode()


def test_thread__nothing_chosen__says_so_and_keeps_nothing(responder: Person, team_thread: Thread) -> None:
    run = Run.objects.get(thread=team_thread)
    address = f"/app/threads/{team_thread.pk}/runs/{run.pk}/feedback"
    page = responder.client.post(address, {"reason": "x"}, follow=True).content.decode()
    assert "A verdict is one of correct, partial, wrong." in page
    assert not Feedback.objects.exists()


def test_thread__viewer__sees_ratings_and_no_form(responder: Person, viewer: Person, team_thread: Thread) -> None:
    run = Run.objects.get(thread=team_thread)
    address = f"/app/threads/{team_thread.pk}/runs/{run.pk}/feedback"
    responder.client.post(address, {"verdict": "wrong", "reason": "It was DNS."})

    page = viewer.client.get(f"/app/threads/{team_thread.pk}").content.decode()

    assert "It was DNS." in page
    assert f'action="{address}"' not in page
    assert viewer.client.post(address, {"verdict": "wrong"}).status_code == 403


def test_thread__running__nothing_to_rate(tree: Tree, responder: Person) -> None:
    started = start(responder, tree.payments)
    assert 'class="feedback' not in responder.client.get(f"/app/threads/{started.thread.pk}").content.decode()
