"""The section ``integrations``: what a write accepts, and what it says about the rest."""

from typing import Any

import pytest

from controlplane.core.errors import InvalidInput
from tests.configs.support import effective, put, stored
from tests.factories import Tree

GOOD = {
    "kind": "prometheus",
    "enabled": True,
    "url": "https://prometheus.example.com/prom",
    "auth": {"type": "bearer", "token": "${OPENSRE_CRED_PROM}"},
    "headers": {"X-Team": "a", "Authorization": "Bearer ${OPENSRE_CRED_PROM}"},
    "labels": {"object": "service", "more": 1},
    "timeout_s": 5,
    "tenant": "team-a",
    "note": "kept",
}


def refusal(tree: Tree, entry: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        put(tree.payments, {"integrations": {"mon": entry}})
    assert stored(tree.payments) == {}
    return caught.value


@pytest.mark.parametrize(
    "entry",
    [
        GOOD,
        {"kind": "loki", "url": "${LOKI_URL}", "auth": {"type": "basic", "username": "me", "password": "${P:-}"}},
        {"kind": "alertmanager", "url": "http://127.0.0.1:9093"},
        {"kind": "grafana", "enabled": False, "url": "postgres://anything?x=1", "auth": "as it likes"},
        {"enabled": False},
        {"timeout_s": "of no known kind"},
        None,
    ],
)
def test_integration__good_or_of_an_unknown_kind__stored_as_written(tree: Tree, entry: Any) -> None:
    put(tree.payments, {"integrations": {"mon": entry}})

    assert stored(tree.payments) == {"integrations": {"mon": entry}}


@pytest.mark.parametrize(
    ("change", "pointer", "code"),
    [
        ({"kind": "Prometheus!"}, "/kind", "string_pattern_mismatch"),
        ({"enabled": "yes"}, "/enabled", "bool_type"),
        ({"url": "ftp://example.com"}, "/url", "url_form"),
        ({"url": "http://"}, "/url", "url_form"),
        ({"url": "http://[::1"}, "/url", "url_form"),
        ({"url": "http://me@example.com"}, "/url", "url_userinfo"),
        ({"url": "http://example.com/?token=1"}, "/url", "url_query"),
        ({"auth": {"type": "digest"}}, "/auth/type", "literal_error"),
        ({"auth": {"type": "bearer", "token": "plain-text"}}, "/auth/token", "reference_required"),
        ({"auth": {"type": "basic", "password": "plain-text"}}, "/auth/password", "reference_required"),
        ({"auth": {"type": "basic", "password": "$${plain-text}"}}, "/auth/password", "reference_required"),
        ({"auth": {"type": "bearer", "token": "$${plain}"}}, "/auth/token", "reference_required"),
        ({"headers": {"X-Api-Key": "$${plain}"}}, "/headers", "reference_required"),
        ({"url": "ftp://$${plain}"}, "/url", "url_form"),
        ({"auth": {"type": "basic", "user": "me"}}, "/auth/user", "extra_forbidden"),
        ({"headers": {"X-Api-Key": "plain-text"}}, "/headers", "reference_required"),
        ({"headers": {"X Team": "a"}}, "/headers", "header_form"),
        ({"headers": {"X-Team": "a\r\nX-Other: b"}}, "/headers", "header_form"),
        ({"labels": {"object": "not a label"}}, "/labels/object", "string_pattern_mismatch"),
        ({"timeout_s": 0}, "/timeout_s", "greater_than"),
        ({"timeout_s": 31}, "/timeout_s", "less_than_equal"),
        ({"timeout_s": "5"}, "/timeout_s", "float_type"),
        ({"tenant": "a b"}, "/tenant", "string_pattern_mismatch"),
    ],
)
def test_integration__broken_rule__refused_at_its_pointer_without_the_value(
    tree: Tree, change: dict[str, Any], pointer: str, code: str
) -> None:
    error = refusal(tree, {**GOOD, **change})

    assert error.code == "invalid_section"
    assert [(one.pointer, one.code) for one in error.errors] == [(f"/integrations/mon{pointer}", code)]
    assert "plain-text" not in f"{error.detail} {error.errors}"


@pytest.mark.parametrize(
    "name",
    [
        "Host", "Content-Length", "Content-Encoding", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade",
        "Expect", "TE", "te", "Trailer", "Proxy-Authorization", "Proxy-Connection", "Accept-Encoding",
        "Metadata-Flavor", "Metadata", "X-Google-Metadata-Request", "X-aws-ec2-metadata-token",
        "X-AWS-EC2-Metadata-Token-TTL-Seconds",
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["a", "${OPENSRE_CRED_PROM}"])
def test_headers__of_the_connection_or_of_metadata_services__refused_by_name(tree: Tree, name: str, value: str) -> None:
    (error,) = refusal(tree, {**GOOD, "headers": {name: value}}).errors

    assert (error.pointer, error.code) == ("/integrations/mon/headers", "header_reserved")
    assert name in error.detail


@pytest.mark.parametrize(
    "name",
    ["X-Auth", "X-Authentication", "authorization", "Api-Key", "X-Apikey", "DD-API-KEY", "X-Vault-Token", "Cookie",
     "X-Client-Secret", "X-Password", "X-Credentials", "X-Signature", "X-Keys"],
)  # fmt: skip
def test_headers__name_says_credential__value_is_a_reference(tree: Tree, name: str) -> None:
    (error,) = refusal(tree, {**GOOD, "headers": {name: "plain-text"}}).errors
    assert (error.pointer, error.code) == ("/integrations/mon/headers", "reference_required")

    put(tree.payments, {"integrations": {"mon": {**GOOD, "headers": {name: "${OPENSRE_CRED_PROM}"}}}})
    assert effective(tree.payments)["integrations"]["mon"]["headers"] == {name: "${OPENSRE_CRED_PROM}"}


@pytest.mark.parametrize("name", ["X-Team", "X-Author", "X-Keyspace", "X-Scope-OrgID", "Accept-Language", "Via-Team"])
def test_headers__ordinary_names__keep_their_literal(tree: Tree, name: str) -> None:
    put(tree.payments, {"integrations": {"mon": {**GOOD, "headers": {name: "a"}}}})

    assert effective(tree.payments)["integrations"]["mon"]["headers"] == {name: "a"}


@pytest.mark.parametrize("entry", ["text", 1, []])
def test_integration__no_object__refused(tree: Tree, entry: Any) -> None:
    assert refusal(tree, entry).errors[0].pointer == "/integrations/mon"


def test_integration__override_below__merges_into_the_inherited_one(tree: Tree) -> None:
    put(tree.root, {"integrations": {"mon": GOOD}})
    put(tree.payments, {"integrations": {"mon": {"enabled": False}}})

    assert effective(tree.payments)["integrations"]["mon"] == {**GOOD, "enabled": False}
