"""The other addresses of OpenSRE's agent server: thin views over the services that all front ends share."""

import contextlib
from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.access.authentication import TEAM_TOKEN_HEADER, BearerAuthentication, bearer_of
from controlplane.access.limits.guard import bearer_actor
from controlplane.core.actor import Actor, Channel
from controlplane.core.api import actor_of
from controlplane.core.errors import AppError, Conflict, MalformedRequest, NotFound
from controlplane.core.permissions import Action
from controlplane.investigations.opensre.names import checked_name, client_thread_get
from controlplane.investigations.selectors import run_waiting, threads_visible
from controlplane.investigations.services import When, message_post, question_answer, run_interrupt


class TokenView(APIView):
    """A view for tokens alone: their clients have no session, and a page of another site must not borrow one."""

    authentication_classes = [BearerAuthentication]


@extend_schema(exclude=True)
class InterruptView(TokenView):
    def post(self, request: Request) -> Response:
        """Stop what runs; nothing running is no error, as long as the thread is known."""
        name = checked_name(_members(request).get("thread_id"))
        thread = client_thread_get(actor_of(request), name, Action.RUN_CONTROL)
        try:
            run_interrupt(actor=actor_of(request), thread_id=thread.pk)
        except Conflict as conflict:
            if conflict.code != "nothing_running":
                raise
        return Response({"status": "ok", "thread_id": name})


@extend_schema(exclude=True)
class AnswerView(TokenView):
    def post(self, request: Request) -> Response:
        """Answer the question that the thread's run waits with: the protocol names no request."""
        members = _members(request)
        name = checked_name(members.get("thread_id"))
        thread = client_thread_get(actor_of(request), name, Action.RUN_CONTROL)
        waiting = run_waiting(thread)
        if not waiting:
            raise Conflict("Nothing waits for an answer here.", code="not_waiting")
        answers: Any = members.get("answers")
        question_answer(actor=actor_of(request), thread_id=thread.pk, request_id=waiting, answers=answers)
        return Response({"status": "ok", "thread_id": name})


@extend_schema(exclude=True)
class QueueMessageView(TokenView):
    rate_rule = "investigations"

    def post(self, request: Request, thread_name: str) -> Response:
        """Say something to what runs; where nothing does, 409: the client then asks ``/investigate``."""
        text = _members(request).get("text")
        thread = client_thread_get(actor_of(request), thread_name, Action.RUN_CREATE)
        if not isinstance(text, str) or not text.strip():
            raise MalformedRequest("text must not be empty.", code="blank")
        accepted = message_post(actor=actor_of(request), thread_id=thread.pk, text=text, when=When.BUSY)
        return Response({"queued": True, "pending_count": accepted.pending_count})


@extend_schema(exclude=True)
class ActiveView(TokenView):
    def get(self, request: Request, thread_name: str) -> Response:
        """Say whether something runs; of a thread that is not there nothing does."""
        active = False
        with contextlib.suppress(NotFound):
            active = client_thread_get(actor_of(request), thread_name, Action.RUN_READ).active_run is not None
        return Response({"active": active, "sdk_session_id": None})


@require_safe
@never_cache
def health(request: HttpRequest) -> HttpResponse:
    """Answer that the server serves; how much runs only to who holds a token, and only of what that sees."""
    actor = _caller(request)
    running = None if actor is None else threads_visible(actor).filter(active_run__isnull=False).count()
    stoppable = (
        None if actor is None else threads_visible(actor, Action.RUN_CONTROL).filter(active_run__isnull=False).count()
    )
    body = {"status": "healthy", "mode": "control-plane"}
    return JsonResponse(body | {"active_sessions": running, "interruptible_sessions": stoppable})


def _caller(request: HttpRequest) -> Actor | None:
    bearer = bearer_of(request.headers.get("Authorization", ""), request.headers.get(TEAM_TOKEN_HEADER, ""))
    if bearer is None:
        return None
    try:
        return bearer_actor(bearer, channel=Channel.API, address=request.META.get("REMOTE_ADDR"))
    except AppError:
        return None


def _members(request: Request) -> Mapping[str, Any]:
    if not isinstance(request.data, dict):
        raise MalformedRequest("The body must be a JSON object.", code="not_an_object")
    return request.data
