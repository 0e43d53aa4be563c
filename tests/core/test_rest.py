from io import BytesIO
from typing import Any

import pytest
from django.core.exceptions import BadRequest, DisallowedHost, RequestDataTooBig, SuspiciousFileOperation
from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.db import InterfaceError, OperationalError, ProgrammingError
from django.http import Http404, UnreadablePostError
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st
from rest_framework import exceptions, serializers
from typing_extensions import override

from controlplane.core import errors, metrics
from controlplane.core.rest import (
    PROBLEM,
    OrjsonRenderer,
    StrictJSONParser,
    as_app_error,
    error_of_status,
    is_database_busy,
    problem_exception_handler,
)


class _Leg(serializers.Serializer[Any]):
    city = serializers.CharField()


class _Trip(serializers.Serializer[Any]):
    name = serializers.CharField(max_length=5)
    legs = _Leg(many=True)

    @override
    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs["legs"]:
            raise serializers.ValidationError("At least one leg.", code="no_legs")
        return attrs


def validation_error(data: dict[str, Any]) -> exceptions.ValidationError:
    with pytest.raises(exceptions.ValidationError) as caught:
        _Trip(data=data).is_valid(raise_exception=True)
    return caught.value


def parse(raw: bytes) -> Any:
    return StrictJSONParser().parse(BytesIO(raw), "application/json", {})


# ---- parsing and rendering -----------------------------------------------------------------------------------------


def test_parser__empty_body__is_none() -> None:
    assert parse(b"") is None


def test_parser__duplicate_key__is_refused() -> None:
    with pytest.raises(errors.MalformedRequest) as caught:
        parse(b'{"a": 1, "a": 2}')
    assert caught.value.code == "duplicate_key"


@override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=10)
def test_parser__body_over_the_limit__is_too_large_and_not_read_further() -> None:
    body = BytesIO(b'"' + b"x" * 100 + b'"')
    with pytest.raises(errors.PayloadTooLarge):
        StrictJSONParser().parse(body, "application/json", {})
    assert body.tell() == 11


def test_renderer__none__is_an_empty_body() -> None:
    assert OrjsonRenderer().render(None) == b""
    assert OrjsonRenderer().render({1: [None, True]}) == b'{"1":[null,true]}'


# ---- errors --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (errors.Conflict("Taken.", code="slug_taken"), 409, "slug_taken"),
        (Http404("secret path"), 404, "not_found"),
        (exceptions.NotFound("secret path"), 404, "not_found"),
        (DjangoPermissionDenied("secret rule"), 403, "permission_denied"),
        (exceptions.PermissionDenied("secret rule"), 403, "permission_denied"),
        (exceptions.PermissionDenied("CSRF Failed: CSRF token missing."), 403, "csrf_failed"),
        (exceptions.NotAuthenticated(), 401, "not_authenticated"),
        (exceptions.AuthenticationFailed("secret"), 401, "not_authenticated"),
        (exceptions.MethodNotAllowed("PUT"), 405, "method_not_allowed"),
        (exceptions.NotAcceptable(), 406, "not_acceptable"),
        (exceptions.UnsupportedMediaType("text/secret"), 415, "unsupported_media_type"),
        (exceptions.Throttled(), 429, "too_many_requests"),
        (exceptions.ParseError("secret"), 400, "malformed_request"),
        (RequestDataTooBig("secret"), 413, "payload_too_large"),
        (DisallowedHost("secret"), 400, "malformed_request"),
        (SuspiciousFileOperation("secret"), 400, "malformed_request"),
        (BadRequest("secret"), 400, "malformed_request"),
        (UnreadablePostError("secret"), 400, "malformed_request"),
        (OperationalError("database is locked"), 503, "database_busy"),
        (InterfaceError("connection already closed"), 503, "database_busy"),
        (OperationalError("no such table: secret"), 500, "internal_error"),
        (ProgrammingError("secret"), 500, "internal_error"),
        (KeyError("secret"), 500, "internal_error"),
        (exceptions.APIException("secret"), 500, "internal_error"),
    ],
)
def test_exception_handler__any_exception__is_a_problem_with_a_stable_code(
    raised: Exception, status: int, code: str
) -> None:
    response = problem_exception_handler(raised, {})
    assert response is not None
    assert response.status_code == response.data["status"] == status
    assert response.data["code"] == code
    assert response.content_type == PROBLEM
    assert response.data["detail"]
    assert "secret" not in str(response.data)


def test_exception_handler__validation_error__points_at_every_field() -> None:
    error = as_app_error(validation_error({"name": "much too long", "legs": [{"city": "Oslo"}, {}]}))
    assert (error.status, error.code) == (422, "invalid_input")
    assert [(field.pointer, field.code) for field in error.errors] == [
        ("/name", "max_length"),
        ("/legs/1/city", "required"),
    ]


def test_exception_handler__rule_over_several_fields__points_at_the_whole() -> None:
    error = as_app_error(validation_error({"name": "short", "legs": []}))
    assert [(field.pointer, field.code, field.detail) for field in error.errors] == [
        ("", "no_legs", "At least one leg.")
    ]


def test_exception_handler__validation_error_of_odd_names__escapes_the_pointer() -> None:
    error = as_app_error(exceptions.ValidationError({"a/b~c": ["Wrong."]}))
    assert [field.pointer for field in error.errors] == ["/a~1b~0c"]


def test_exception_handler__unauthenticated__names_the_scheme() -> None:
    response = problem_exception_handler(exceptions.NotAuthenticated(), {})
    assert response is not None
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


def test_exception_handler__busy_database__asks_to_retry_and_counts() -> None:
    before = metrics.registry.get_sample_value("opensre_database_busy_total") or 0
    response = problem_exception_handler(OperationalError("database is locked"), {})
    assert response is not None
    assert response.headers["Retry-After"] == "1"
    assert metrics.registry.get_sample_value("opensre_database_busy_total") == before + 1


@pytest.mark.parametrize(
    ("error", "busy"),
    [
        (OperationalError("database is locked"), True),
        (OperationalError("couldn't get a connection after 10.00 sec"), True),
        (OperationalError("server closed the connection unexpectedly"), True),
        (InterfaceError("the connection is closed"), True),
        (OperationalError("no such column: x"), False),
        (OperationalError('near "SELCT": syntax error'), False),
        (ProgrammingError("relation does not exist"), False),
        (ValueError("database is locked"), False),
    ],
)
def test_is_database_busy__by_error__tells_a_busy_database_from_a_wrong_query(error: Exception, busy: bool) -> None:
    assert is_database_busy(error) is busy


@given(st.integers(400, 599))
def test_error_of_status__any_error_status__has_a_code_and_a_detail(status: int) -> None:
    error = error_of_status(status)
    assert error.code
    assert error.detail
    assert error.status in {status, 500}
