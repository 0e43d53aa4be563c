"""A query whose SQL is made once."""

from typing import Any

import pytest
from django.db.models import QuerySet

from controlplane.access.models import AccessToken
from controlplane.core.fixed_query import FixedQuery
from tests.factories import Tree, make_token

pytestmark = pytest.mark.django_db


def test_fixed_query__any_key__what_the_queryset_returns_as_python_values(
    tree: Tree, django_assert_num_queries: Any
) -> None:
    columns = ("id", "public_id", "scopes", "allowed_addresses", "created_at", "expires_at", "node__organization_id")

    def build(key: str) -> "QuerySet[Any, Any]":
        return AccessToken.objects.filter(public_id=key).values_list(*columns)

    query = FixedQuery(build)
    for _ in range(2):
        token = make_token(tree.payments, allowed_addresses=["192.0.2.0/24"]).token
        with django_assert_num_queries(1):
            rows = query.rows(token.public_id)
        assert rows == list(build(token.public_id))
    assert query.rows("nobody") == []


def test_fixed_query__another_parameter__refused(tree: Tree) -> None:
    query = FixedQuery(lambda key: AccessToken.objects.filter(public_id=key, kind="team").values_list("id"))
    with pytest.raises(ValueError, match="other parameters"):
        query.rows("x")
