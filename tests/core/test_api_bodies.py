"""Request bodies are read strictly."""

from typing import Any

import pytest
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from controlplane.core.api import StrictSerializer, TextField, body_of
from controlplane.core.errors import InvalidInput, MalformedRequest


class Example(StrictSerializer):
    name = TextField()
    count = serializers.IntegerField(required=False)


def test_body_of__valid__members() -> None:
    assert body_of(Example, {"name": "x", "count": 2}) == {"name": "x", "count": 2}
    assert body_of(Example, {}, partial=True) == {}


@pytest.mark.parametrize("data", [None, [], "x", 5, True])
def test_body_of__no_object__refused(data: Any) -> None:
    with pytest.raises(MalformedRequest) as caught:
        body_of(Example, data)
    assert caught.value.code == "not_an_object"


def test_body_of__unknown_members__each_named_by_pointer_and_cut() -> None:
    with pytest.raises(InvalidInput) as caught:
        body_of(Example, {"name": "x", "a/b~c": 1, "z" * 500: 2})
    assert [error.pointer for error in caught.value.errors] == ["/a~1b~0c", "/" + "z" * 80]
    assert caught.value.code == "unknown_member"


def test_body_of__very_many_unknown_members__ten_listed() -> None:
    with pytest.raises(InvalidInput) as caught:
        body_of(Example, {f"m{number}": 0 for number in range(5000)})
    assert len(caught.value.errors) == 10
    assert len(caught.value.detail) < 200


@pytest.mark.parametrize("value", [5, 5.0, True, None, [], {}, "", "a\x00"])
def test_text_field__no_text__refused(value: Any) -> None:
    with pytest.raises(ValidationError):
        body_of(Example, {"name": value})
