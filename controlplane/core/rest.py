"""What every REST view shares: strict JSON in, orjson out, problem documents for every error."""

from collections.abc import Mapping
from typing import Any

import orjson
import structlog
from django.conf import settings
from django.core.exceptions import BadRequest, RequestDataTooBig, SuspiciousOperation
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import IntegrityError, InterfaceError, OperationalError
from django.http import Http404, UnreadablePostError
from django.http.multipartparser import MultiPartParserError
from rest_framework import exceptions
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from typing_extensions import override

from controlplane.core import errors, metrics
from controlplane.core.refusals import carry_error
from controlplane.core.strict_json import parse_json

log = structlog.get_logger(__name__)

PROBLEM = "application/problem+json"
BUSY = "The database is busy. Try again in a moment."
UNREADABLE = "The request could not be read."

_DJANGO_STATUS: tuple[tuple[tuple[type[Exception], ...], int], ...] = (
    ((Http404,), 404),
    ((DjangoPermissionDenied,), 403),
    ((SuspiciousOperation, BadRequest, MultiPartParserError, UnreadablePostError), 400),
)


class StrictJSONParser(BaseParser):
    """``application/json`` by :func:`parse_json`, bounded by ``DATA_UPLOAD_MAX_MEMORY_SIZE``."""

    media_type = "application/json"

    @override
    def parse(
        self,
        stream: Any,
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the body's value, or ``None`` for an empty body."""
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

    @override
    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,
        renderer_context: Mapping[str, Any] | None = None,
    ) -> bytes:
        if data is None:
            return b""
        return orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z)


def problem_response(error: errors.AppError) -> Response:
    """Return the DRF response of an application error."""
    return Response(error.as_problem(), status=error.status, headers=error.headers, content_type=PROBLEM)


def problem_exception_handler(exc: Exception, context: Mapping[str, Any]) -> Response | None:
    """Turn every exception of a REST view into a problem document; the unknown is a logged 500 without its text."""
    error = as_app_error(exc)
    request = context.get("request")
    if isinstance(request, Request):
        carry_error(request._request, error)  # noqa: SLF001 (DRF keeps Django's request there)
    return problem_response(error)


def as_app_error(exc: Exception) -> errors.AppError:
    """Return ``exc`` as an :class:`AppError`; the text of a library's exception never passes through."""
    if isinstance(exc, errors.AppError):
        return exc
    if isinstance(exc, exceptions.APIException):
        return _from_drf(exc)
    if isinstance(exc, RequestDataTooBig):
        return errors.PayloadTooLarge(f"At most {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes are accepted.")
    for classes, status in _DJANGO_STATUS:
        if isinstance(exc, classes):
            return error_of_status(status)
    return _from_failure(exc)


def _from_failure(exc: Exception) -> errors.AppError:
    if is_database_busy(exc):
        metrics.database_busy_total.inc()
        log.warning("database.busy", error=type(exc).__name__, reason=str(exc)[:200])
        return errors.Unavailable(BUSY, code="database_busy", headers={"Retry-After": "1"})
    if isinstance(exc, IntegrityError):
        # A constraint spoke at the commit: what a service had checked was changed by somebody else meanwhile.
        log.warning("database.conflict", error=type(exc).__name__)
        return errors.Conflict(
            "Something this depends on was changed meanwhile; read it again.", code="changed_meanwhile"
        )
    log.error("http.unhandled", exc_info=exc)
    return errors.AppError("Something failed on our side; it has been logged.")


def is_database_busy(exc: BaseException) -> bool:
    """Return whether ``exc`` says that the database was locked, full or out of reach: trying again later may help.

    A missing table or column is no such thing, although SQLite reports it with the same class.
    """
    if isinstance(exc, InterfaceError):
        return True
    return isinstance(exc, OperationalError) and not str(exc).startswith(("no such ", "near ", "table "))


def error_of_status(status: int) -> errors.AppError:
    """Return the error for an HTTP status alone: for answers whose cause is out of reach."""
    if status == 401:
        return errors.NotAuthenticated()
    cls, detail = _BY_STATUS.get(status, (errors.AppError, "Something failed on our side; it has been logged."))
    return cls(detail)


def _from_drf(exc: exceptions.APIException) -> errors.AppError:
    if isinstance(exc, exceptions.ValidationError):
        return errors.InvalidInput("Some fields are not valid.", errors=list(_field_errors("", exc.detail)))
    if isinstance(exc, exceptions.PermissionDenied) and "CSRF" in str(exc.detail):
        return errors.PermissionDenied("The CSRF token is missing or wrong.", code="csrf_failed")
    return error_of_status(exc.status_code)


class _MethodNotAllowed(errors.AppError):
    status, default_code, title = 405, "method_not_allowed", "Method not allowed"


class _NotAcceptable(errors.AppError):
    status, default_code, title = 406, "not_acceptable", "Not acceptable"


_BY_STATUS: dict[int, tuple[type[errors.AppError], str]] = {
    400: (errors.MalformedRequest, UNREADABLE),
    403: (errors.PermissionDenied, "You may not do this."),
    404: (errors.NotFound, "There is nothing here that you may see."),
    405: (_MethodNotAllowed, "This method is not allowed here."),
    406: (_NotAcceptable, "Only application/json is produced here."),
    413: (errors.PayloadTooLarge, "The request is too large."),
    415: (errors.UnsupportedMediaType, "This media type is not accepted here; send application/json."),
    429: (errors.TooManyRequests, "Too many requests."),
    503: (errors.Unavailable, "This is not available just now. Try again in a moment."),
}


def _field_errors(pointer: str, detail: Any) -> Any:
    if isinstance(detail, dict):
        for key, value in detail.items():
            below = (
                pointer if key == "non_field_errors" else f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
            )
            yield from _field_errors(below, value)
    elif isinstance(detail, list):
        for index, value in enumerate(detail):
            yield from _field_errors(
                pointer if isinstance(value, exceptions.ErrorDetail) else f"{pointer}/{index}", value
            )
    else:
        yield errors.FieldError(pointer, getattr(detail, "code", "invalid"), str(detail))
