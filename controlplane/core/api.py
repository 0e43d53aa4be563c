"""What REST views of every app share: the caller, and request bodies read strictly."""

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers
from rest_framework.request import Request
from typing_extensions import override

from controlplane.core.actor import Actor
from controlplane.core.errors import FieldError, InvalidInput, MalformedRequest, NotAuthenticated
from controlplane.core.redaction import redact_text
from controlplane.core.text import pointer_token

_LISTED = 10


def actor_of(request: Request) -> Actor:
    """Return who makes this REST request: what the authentication classes put into ``request.auth``.

    Raises:
        NotAuthenticated: nobody does.
    """
    if isinstance(request.auth, Actor):
        return request.auth
    raise NotAuthenticated


class TextField(serializers.CharField):
    """A string and nothing that could be read as one: DRF's own field takes numbers too."""

    @override
    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        return str(super().to_internal_value(data))


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that refuses members it does not know, each by name."""

    @override
    def to_internal_value(self, data: Any) -> Any:
        unknown = _unknown_members(data, self.fields) if isinstance(data, dict) else []
        if unknown:
            detail = f"Unknown members: {', '.join(unknown[:_LISTED])}."
            broken = [
                FieldError(_pointer(name), "unknown_member", "This member is not known here.") for name in unknown
            ]
            raise InvalidInput(detail, code="unknown_member", errors=broken[:_LISTED])
        return super().to_internal_value(data)


def _unknown_members(data: Mapping[Any, Any], known: Mapping[str, Any]) -> list[str]:
    """Return the names that are not known, cut and redacted: a caller's slip may have put anything there."""
    return sorted(redact_text(str(key))[:80] for key in data if key not in known)


def body_of(serializer: type[StrictSerializer], data: Any, *, partial: bool = False) -> dict[str, Any]:
    """Return the validated members of a request body; with ``partial`` required members may be missing.

    Raises:
        MalformedRequest: ``not_an_object``.
        InvalidInput: with one entry in ``errors`` for every rule broken.
    """
    if not isinstance(data, dict):
        raise MalformedRequest("The body must be a JSON object.", code="not_an_object")
    reader = serializer(data=data, partial=partial)
    reader.is_valid(raise_exception=True)
    members: dict[str, Any] = reader.validated_data
    return members


def query_of(request: Request, *allowed: str) -> Mapping[str, str]:
    """Return the query parameters, each once.

    Raises:
        MalformedRequest: ``unknown_parameter``: a misspelt ``dry_run`` must not write.
    """
    params = request.query_params.dict()
    for name, values in request.query_params.lists():
        if len(values) > 1 and name in allowed:
            detail = f"{name} is given {len(values)} times; once is enough."
            raise MalformedRequest(
                detail, code="repeated_parameter", errors=[FieldError("", "repeated_parameter", detail)]
            )
    unknown = sorted(name[:80] for name in params if name not in allowed)
    if unknown:
        known = ", ".join(allowed) or "none"
        detail = redact_text(f"Unknown query parameters: {', '.join(unknown[:_LISTED])}. Known here: {known}.")
        raise MalformedRequest(detail, code="unknown_parameter", errors=[FieldError("", "unknown_parameter", detail)])
    return params


def _pointer(name: str) -> str:
    return "/" + pointer_token(name)
