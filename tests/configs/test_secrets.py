"""Literal secrets never get into a document; references do."""

import json
import secrets as random
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps

from controlplane.configs.models import ConfigDocument, ConfigVersion
from controlplane.configs.services import config_patch, config_rollback, config_unset
from controlplane.core.errors import AppError, InvalidInput
from tests.configs.support import patch, put, stored, versions
from tests.factories import Tree

pytestmark = pytest.mark.django_db


@pytest.fixture
def token() -> str:
    """A text in the form of a GitHub token, made up anew each time."""
    return "ghp_" + "".join(
        random.choice("ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnpqrstuvwxyz23456789") for _ in range(36)
    )


def refusal(tree: Tree, change: dict[str, Any], **options: Any) -> AppError:
    """Return the error of a patch that must be refused."""
    with pytest.raises(AppError) as caught:
        config_patch(actor=tree.system, node=tree.payments, patch=change, **options)
    return caught.value


def everything_stored() -> str:
    """Return every row of the project's tables as one text."""
    models = [model for model in apps.get_models() if model.__module__.startswith("controlplane.")]
    return "\n".join(str(row) for model in models for row in model._default_manager.values())


def test_secret__example_26__refused_with_pointer_and_rule_and_the_value_nowhere(tree: Tree, token: str) -> None:
    for options in ({}, {"dry_run": True}, {"merge_patch": True}):
        error = refusal(tree, {"integrations": {"github": {"token": token}}}, **options)
        assert (error.code, error.status) == ("literal_secret", 422)
        assert [item.pointer for item in error.errors] == ["/integrations/github/token"]
        assert "rule" in error.errors[0].detail
        assert token not in json.dumps(error.as_problem())
    assert versions(tree.payments) == []
    assert token not in everything_stored()


@pytest.mark.parametrize(
    ("template", "pointer"),
    [
        ('{"a": ["x", "SECRET"]}', "/a/1"),
        ('{"a": [{"b": {"c": "SECRET"}}]}', "/a/0/b/c"),
        ('{"agents": {"a": {"prompt": "Call it with SECRET please."}}}', "/agents/a/prompt"),
        ('{"a/b": {"m~n": "SECRET"}}', "/a~1b/m~0n"),
        ('{"a": "first line\\nsecond SECRET\\nthird"}', "/a"),
    ],
)
def test_secret__anywhere_in_a_value__found_at_its_pointer(tree: Tree, token: str, template: str, pointer: str) -> None:
    error = refusal(tree, json.loads(template.replace("SECRET", token)))
    assert [item.pointer for item in error.errors] == [pointer]


@pytest.mark.parametrize("below", [1, {"x": 1}, {}, [], [{"y": "z"}]])
def test_secret__as_a_key__only_its_parent_is_named(tree: Tree, token: str, below: Any) -> None:
    with pytest.raises(InvalidInput) as caught:
        put(tree.payments, {"integrations": {token: below}})
    assert [item.pointer for item in caught.value.errors] == ["/integrations"]
    assert token not in json.dumps(caught.value.as_problem())


def test_secret__as_a_key_above_another_fault__not_quoted_either(tree: Tree, token: str) -> None:
    error = refusal(tree, {"a": {token: {"b": "\x00"}}})
    assert error.code == "control_character"
    assert token not in json.dumps(error.as_problem())


def test_secret__under_a_telling_key__found_though_the_value_alone_tells_nothing(tree: Tree) -> None:
    error = refusal(tree, {"integrations": {"db": {"password": "tr0ub4dor-and-3"}}})
    assert [item.pointer for item in error.errors] == ["/integrations/db/password"]


def test_secret__told_by_the_member_beside_it__found(tree: Tree) -> None:
    put(tree.payments, {"env": {"first": {"name": "DB_PASSWORD", "value": "${OPENSRE_CRED_DB}"}}})
    error = refusal(tree, {"env": {"first": {"value": "tr0ub4dor-and-3"}}})
    assert [item.pointer for item in error.errors] == ["/env/first/value"]


def test_secret__private_key__found(tree: Tree) -> None:
    body = "\n".join(random.token_hex(32) for _ in range(8))
    pem = f"-----BEGIN PRIVATE KEY-----\n{body}\n-----END PRIVATE KEY-----\n"
    assert [item.pointer for item in refusal(tree, {"a": {"tls": pem}}).errors] == ["/a/tls"]


def test_secret__example_27__references_are_stored_as_written(tree: Tree) -> None:
    document = {
        "integrations": {
            "db": {"password": "${OPENSRE_CRED_DB}", "url": "postgres://app:${OPENSRE_CRED_DB}@db.internal/app"},
            "github": {"token": "${OPENSRE_CRED_GITHUB:-}", "api_key": "${OPENSRE_CRED_API_KEY}"},
        }
    }
    put(tree.payments, document)
    assert stored(tree.payments) == document


def test_secret__ordinary_configuration__stored_as_written(tree: Tree) -> None:
    document = {
        "agents": {
            "planner": {"enabled": True, "prompt": {"system": "Never print a password or token."}, "max_turns": 50}
        },
        "limits": {"max_tokens": 200_000},
        "routing": {"slack_channel_ids": ["C0123456789"], "github_repos": ["acme/payments-service"]},
        "mcp_servers": {"k8s": {"command": "npx", "args": ["-y", "@acme/mcp-server-kubernetes@1.2.3"]}},
        "integrations": {
            "grafana": {"url": "https://grafana.example.com/d/abcdef12?orgId=1", "auth": {"type": "bearer"}}
        },
    }
    put(tree.payments, document)
    assert stored(tree.payments) == document


def test_secret__from_before_a_rule__may_stay_be_worked_around_and_be_removed(tree: Tree, token: str) -> None:
    put(tree.payments, {"a": "x", "b": 1})
    ConfigDocument.objects.filter(pk=tree.payments.pk).update(document={"a": token, "b": 1})
    patch(tree.payments, {"b": 2})
    config_unset(actor=tree.system, node=tree.payments, pointers=["/a"])
    assert stored(tree.payments) == {"b": 2}


def test_secret__in_an_old_version__rollback_refused(tree: Tree, token: str) -> None:
    put(tree.payments, {"a": "x"})
    put(tree.payments, {"a": "y"})
    ConfigVersion.objects.filter(node=tree.payments, version=1).update(document={"a": token})
    with pytest.raises(InvalidInput) as caught:
        config_rollback(actor=tree.system, node=tree.payments, version=1)
    assert caught.value.code == "literal_secret"


def test_secret__in_a_reason__redacted_before_it_is_stored(tree: Tree, token: str) -> None:
    put(tree.payments, {"a": 1}, reason=f"rotated {token}")
    assert "rotated" in ConfigVersion.objects.get(node=tree.payments).reason
    assert token not in everything_stored()


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        ({"mcp_servers": {"db": {"command": "x", "args": ["--password", "WORD"]}}}, "/mcp_servers/db/args/1"),
        ({"a": [["-v", "--api-key", "WORD"]]}, "/a/0/2"),
        ({"a": {"password": {"value": "WORD", "rotated": True}}}, "/a/password/value"),
        ({"a": [{"db_password": {"value": "WORD"}}]}, "/a/0/db_password/value"),
    ],
)
def test_secret__form_hides_it__refused_and_stored_nowhere(tree: Tree, document: Any, pointer: str) -> None:
    word = "Hq7" + random.token_hex(8)
    error = refusal(tree, json.loads(json.dumps(document).replace("WORD", word)))
    assert (error.code, [item.pointer for item in error.errors]) == ("literal_secret", [pointer])
    assert word not in json.dumps(error.as_problem())
    assert word not in everything_stored()


@pytest.mark.parametrize("encode", [b64encode, urlsafe_b64encode])
def test_secret__base64_of_a_token__refused_with_the_rule_of_what_it_is(
    tree: Tree, token: str, encode: Callable[[bytes], bytes]
) -> None:
    for text in (token, f"user:\n  token: {token}\n"):
        error = refusal(tree, {"notes": f"data: {encode(text.encode()).decode()} (as mounted)"})
        assert (error.code, error.errors[0].pointer) == ("literal_secret", "/notes")
        assert "github-token" in error.errors[0].detail


@pytest.mark.parametrize(
    "document",
    [
        {"args": ["--password", "${DB_PASSWORD}", "--token-file", "/run/secrets/x", "--max-tokens", "4096", "--token"]},
        {
            "args": ["--password", "--verbose"],
            "hash": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        },
        {"a": {"password": {"value": "${DB_PASSWORD}"}, "password2": {"from": "vault"}, "limit": {"value": "plain"}}},
        {"text": "aGVsbG8gdGhlcmUsIHRoaXMgaXMgbm90aGluZyBzZWNyZXQ=", "path": "/usr/local/lib/python3/site-packages/a"},
    ],
)
def test_secret__same_forms_without_one__stored_as_written(tree: Tree, document: Any) -> None:
    put(tree.payments, document)
    assert stored(tree.payments) == document
