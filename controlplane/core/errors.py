"""The errors that reach a caller. Users get words, clients get stable codes, nobody gets a library's exception text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from controlplane.core.refusals import KnownCredential


@dataclass(frozen=True, slots=True)
class FieldError:
    """One rule broken by one field. ``pointer`` is a JSON Pointer (RFC 6901) into the request's body, or ``""``."""

    pointer: str
    code: str
    detail: str

    def as_dict(self) -> dict[str, str]:
        return {"pointer": self.pointer, "code": self.code, "detail": self.detail}


class AppError(Exception):
    """An error with a stable ``code``, an HTTP ``status`` and a ``detail`` a person can act on.

    ``extra`` holds further members of the problem document (RFC 9457, section 3.2): JSON, free of secrets.
    """

    status: ClassVar[int] = 500
    default_code: ClassVar[str] = "internal_error"
    title: ClassVar[str] = "Internal error"

    def __init__(
        self,
        detail: str,
        *,
        code: str | None = None,
        errors: Sequence[FieldError] = (),
        extra: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.code = code or self.default_code
        self.errors = tuple(errors)
        self.extra = dict(extra or {})
        self.headers = dict(headers or {})

    def as_problem(self) -> dict[str, Any]:
        """Return the ``application/problem+json`` document of RFC 9457."""
        problem: dict[str, Any] = {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "code": self.code,
            "detail": self.detail,
        }
        if self.errors:
            problem["errors"] = [error.as_dict() for error in self.errors]
        return problem | self.extra


class MalformedRequest(AppError):
    status, default_code, title = 400, "malformed_request", "Malformed request"


class NotAuthenticated(AppError):
    """No valid credential. ``known`` says whose the refused one is, for the record and never for the caller."""

    status, default_code, title = 401, "not_authenticated", "Not authenticated"

    def __init__(
        self, detail: str = "A valid credential is required.", *, known: KnownCredential | None = None, **kwargs: Any
    ) -> None:
        headers = {"WWW-Authenticate": 'Bearer realm="opensre"'} | dict(kwargs.pop("headers", None) or {})
        super().__init__(detail, headers=headers, **kwargs)
        self.known = known


class PermissionDenied(AppError):
    status, default_code, title = 403, "permission_denied", "Permission denied"


class NotFound(AppError):
    status, default_code, title = 404, "not_found", "Not found"

    def __init__(self, detail: str = "There is nothing here that you may see.", **kwargs: Any) -> None:
        super().__init__(detail, **kwargs)


class Conflict(AppError):
    status, default_code, title = 409, "conflict", "Conflict"


class Gone(AppError):
    status, default_code, title = 410, "gone", "Gone"


class PreconditionFailed(AppError):
    status, default_code, title = 412, "precondition_failed", "Precondition failed"


class PayloadTooLarge(AppError):
    status, default_code, title = 413, "payload_too_large", "Payload too large"


class UnsupportedMediaType(AppError):
    status, default_code, title = 415, "unsupported_media_type", "Unsupported media type"


class InvalidInput(AppError):
    status, default_code, title = 422, "invalid_input", "Invalid input"


class TooManyRequests(AppError):
    status, default_code, title = 429, "too_many_requests", "Too many requests"


class Unavailable(AppError):
    status, default_code, title = 503, "unavailable", "Temporarily unavailable"


def invalid(pointer: str, code: str, detail: str) -> InvalidInput:
    """Return the :class:`InvalidInput` for one field: the common case, with the same words at both levels."""
    return InvalidInput(detail, code=code, errors=[FieldError(pointer, code, detail)])
