"""The versions of a node's own document: who wrote them and why, any two compared."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from controlplane.configs.pointers import Document, diff
from controlplane.configs.selectors import config_document, config_history, config_version
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, NotFound
from controlplane.core.pagination import page_of
from web.change_rows import plain_rows
from web.config_page import Place
from web.session import signed_in

PER_PAGE: Final = 30


@dataclass(frozen=True, slots=True)
class Version:
    """One side of a comparison; version 0 is the empty document that every node begins with."""

    version: int
    document: Document
    at: datetime | None = None
    by: str = ""
    reason: str = ""


@require_safe
@signed_in
def history(request: HttpRequest, actor: Actor, slug: str) -> HttpResponseBase:
    """The versions, the newest first, with a choice of two to compare."""
    place = Place(actor, slug)
    stored = config_document(actor=actor, node=place.node)
    rows = config_history(actor=actor, node=place.node)
    cursor = request.GET.get("cursor", "")
    try:
        page = page_of(rows, ordering=["-version"], params={"cursor": cursor, "limit": PER_PAGE})
    except AppError:
        return redirect("web:config_history", slug)  # a cursor that was cut or edited: begin again
    context = place.context("history") | {
        "stored": stored,
        "versions": page.results,
        "older": page.next,
        "first": bool(cursor),
        "previous": page.results[1].version if len(page.results) > 1 else 0,
    }
    return render(request, "web/config_history.html", context)


@require_safe
@signed_in
def compare(request: HttpRequest, actor: Actor, slug: str) -> HttpResponseBase:
    """What differs between two versions; without a choice, between the newest and the one before it."""
    place = Place(actor, slug)
    stored = config_document(actor=actor, node=place.node)
    numbers = [_number(request.GET.get(name)) for name in ("a", "b")]
    newer = numbers[1] if numbers[1] is not None else stored.version
    older = numbers[0] if numbers[0] is not None else max(newer - 1, 0)
    sides = [_version(actor, place, number) for number in sorted((older, newer))]
    context = place.context("history") | {
        "stored": stored,
        "before": sides[0],
        "after": sides[1],
        "rows": plain_rows(diff(sides[0].document, sides[1].document)),
    }
    return render(request, "web/config_compare.html", context)


def _version(actor: Actor, place: Place, number: int) -> Version:
    if number == 0:
        return Version(0, {})
    found = config_version(actor=actor, node=place.node, version=number)
    return Version(number, found.document, found.at, found.by, found.reason)


def _number(text: Any) -> int | None:
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise NotFound("There is no such version.", code="unknown_version")
    return int(text)
