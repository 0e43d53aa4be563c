"""What every REST view shares: strict JSON in, orjson out, problem documents for every error."""

from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from django.conf import settings
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig
from django.db import OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.response import Response

from controlplane.core import errors
from controlplane.core.strict_json import parse_json

log = structlog.get_logger(__name__)

PROBLEM = "application/problem+json"
BUSY = "The database is busy; nothing was changed. Try again in a moment."


class StrictJSONParser(BaseParser):
    """``application/json`` by :func:`parse_json`, bounded by ``DATA_UPLOAD_MAX_MEMORY_SIZE``."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
        raw = stream.read(limit + 1)
        return parse_json(raw, max_bytes=limit) if raw else None


class MergePatchParser(StrictJSONParser):
    """``application/merge-patch+json`` (RFC 7396)."""

    media_type = "application/merge-patch+json"


class OrjsonRenderer(BaseRenderer):
    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Mapping[str, Any] | None = None
    ) -> bytes:
        if data is None:
            return b""
        return orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z)


def problem_response(error: errors.AppError) -> Response:
    """Return the DRF response of an application error."""
    return Response(error.as_problem(), status=error.status, headers=error.headers, content_type=PROBLEM)


def problem_exception_handler(exc: Exception, context: Mapping[str, Any]) -> Response | None:
    """Turn every exception of a REST view into a problem document; the unknown becomes a logged 500 without its text."""
    return problem_response(as_app_error(exc))


def as_app_error(exc: Exception) -> errors.AppError:
    """Return ``exc`` as an :class:`AppError`; the text of a library's exception never passes through."""
    if isinstance(exc, errors.AppError):
        return exc
    if isinstance(exc, Http404 | exceptions.NotFound):
        return errors.NotFound()
    if isinstance(exc, DjangoPermissionDenied):
        return errors.PermissionDenied("You may not do this.")
    if isinstance(exc, RequestDataTooBig):
        return errors.PayloadTooLarge(f"At most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes are accepted.")
    if isinstance(exc, OperationalError):
        log.warning("database.unavailable", error=type(exc).__name__)
        return errors.Unavailable(BUSY, code="database_busy", headers={"Retry-After": "1"})
    if isinstance(exc, exceptions.APIException):
        return _from_drf(exc)
    log.error("http.unhandled", exc_info=exc)
    return errors.AppError("Something failed on our side; it has been logged.")


def _from_drf(exc: exceptions.APIException) -> errors.AppError:
    known: dict[int, tuple[type[errors.AppError], str]] = {
        400: (errors.MalformedRequest, "The request could not be read."),
        403: (errors.PermissionDenied, "You may not do this."),
        404: (errors.NotFound, "There is nothing here that you may see."),
        415: (errors.UnsupportedMediaType, "This media type is not accepted here; send application/json."),
        429: (errors.TooManyRequests, "Too many requests."),
    }
    if exc.status_code == 401:
        return errors.NotAuthenticated()
    if isinstance(exc, exceptions.ValidationError):
        return errors.InvalidInput("Some fields are not valid.", errors=list(_field_errors("", exc.detail)))
    if isinstance(exc, exceptions.MethodNotAllowed):
        return _MethodNotAllowed("This method is not allowed here.")
    if isinstance(exc, exceptions.NotAcceptable):
        return _NotAcceptable("Only application/json is produced here.")
    cls, detail = known.get(exc.status_code, (errors.AppError, "Something failed on our side."))
    if isinstance(exc, exceptions.PermissionDenied) and "CSRF" in str(exc.detail):
        return errors.PermissionDenied("The CSRF token is missing or wrong.", code="csrf_failed")
    return cls(detail)


class _MethodNotAllowed(errors.AppError):
    status, default_code, title = 405, "method_not_allowed", "Method not allowed"


class _NotAcceptable(errors.AppError):
    status, default_code, title = 406, "not_acceptable", "Not acceptable"


def _field_errors(pointer: str, detail: Any) -> Any:
    if isinstance(detail, dict):
        for key, value in detail.items():
            below = pointer if key == "non_field_errors" else f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
            yield from _field_errors(below, value)
    elif isinstance(detail, list):
        for index, value in enumerate(detail):
            yield from _field_errors(pointer if isinstance(value, exceptions.ErrorDetail) else f"{pointer}/{index}", value)
    else:
        yield errors.FieldError(pointer, getattr(detail, "code", "invalid"), str(detail))
