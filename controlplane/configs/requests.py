"""Reading requests to configuration strictly: query parameters by name, bodies that are there, conditions."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpResponseNotModified
from rest_framework.request import Request

from controlplane.configs.pointers import PointerSyntaxError, Tokens, decode
from controlplane.configs.preconditions import matches
from controlplane.core.errors import FieldError, MalformedRequest
from controlplane.core.rest import MergePatchParser


def flag(params: Mapping[str, str], name: str) -> bool:
    """Return a boolean query parameter, false when it is absent.

    Raises:
        MalformedRequest: ``bad_<name>`` for anything but ``true`` and ``false``.
    """
    value = params.get(name, "false")
    if value not in {"true", "false"}:
        raise bad(f"bad_{name}", f"{name} must be true or false.")
    return value == "true"


def pointer_of(params: Mapping[str, str]) -> Tokens:
    """Return the path of the query parameter ``pointer``; the whole document when it is absent.

    Raises:
        MalformedRequest: ``bad_pointer``.
    """
    try:
        return decode(params.get("pointer", ""))
    except PointerSyntaxError as error:
        raise bad("bad_pointer", f"pointer must be a JSON Pointer (RFC 6901): {error}.") from None


def body_any(request: Request) -> Any:
    """Return the request's JSON value.

    Raises:
        MalformedRequest: ``empty_body``. A body that is missing, or sent without a length and so not read, must never
            count as the empty document.
    """
    if request.stream is None:
        raise bad("empty_body", "A JSON body is required, with its Content-Length.")
    return request.data


def is_merge_patch(request: Request) -> bool:
    """Return whether the body is a JSON Merge Patch, by its media type."""
    return request.content_type.partition(";")[0].strip().lower() == MergePatchParser.media_type


def not_modified(request: Request, etag: str) -> HttpResponseNotModified | None:
    """Return the 304 answer when ``If-None-Match`` names ``etag``, else ``None``."""
    if matches(request.headers.get("If-None-Match"), etag):
        return HttpResponseNotModified(headers=validators(etag))
    return None


def validators(etag: str) -> dict[str, str]:
    """Return the headers of an answer that may be kept and must be revalidated."""
    return {"ETag": etag, "Cache-Control": "private, no-cache"}


def bad(code: str, detail: str) -> MalformedRequest:
    """Return the error of one part of the request that is not in the body's members."""
    return MalformedRequest(detail, code=code, errors=[FieldError("", code, detail)])
