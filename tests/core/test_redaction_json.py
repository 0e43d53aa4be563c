"""Redaction of documents: what the structure gives away."""

import base64
import copy
import json
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings

from controlplane.core.redaction import redact_json, redact_json_with_rules, redact_text
from tests.core.redaction_samples import Maker, benign, everything
from tests.core.redaction_strategies import documents

MAKE = Maker(11)
PASSWORD = MAKE.chosen()
ENCODED = base64.b64encode(MAKE.chars(12).encode()).decode()


def text_of(value: Any) -> str:
    return json.dumps(redact_json(value), ensure_ascii=False)


@pytest.mark.parametrize(
    "key",
    [
        *(
            "password",
            "passwd",
            "dbPassword",
            "DB_PASSWORD",
            "secret",
            "clientSecret",
            "client-secret",
            "token",
            "authToken",
        ),
        *(
            "access_token",
            "api_key",
            "apiKey",
            "X-Api-Key",
            "authorization",
            "private_key",
            "connection_string",
            "set-cookie",
        ),
        *(
            "cookie",
            "sslKeyPassword",
            "password_1",
            "token_value",
            "secretAccessKey",
            "signing_key",
            "credentials",
            "jwt",
        ),
    ],
)
@pytest.mark.parametrize("value", ["opensesame-there", PASSWORD, "first line\nsecond line"])
def test_redact_json__string_under_a_secret_name__goes_whole(key: str, value: str) -> None:
    redacted = redact_json({"user": "app", key: value, "list": [{key: value}]})
    assert value not in json.dumps(redacted)
    assert isinstance(redacted, dict)
    assert redacted["user"] == "app"
    assert str(redacted[key]).startswith("[redacted:")


@pytest.mark.parametrize(
    "value",
    [
        *(
            "",
            "${OPENSRE_CRED_X}",
            "$TOKEN",
            "{{ .Values.token }}",
            "<token>",
            "${X:-}",
            "true",
            "false",
            "none",
            "required",
        ),
        *(
            "expired",
            "unset",
            "****",
            "[redacted:jwt]",
            "vault:kv/db#password",
            "/run/secrets/token",
            None,
            True,
            False,
            {},
            [],
        ),
    ],
)
def test_redact_json__reference_or_benign_under_a_secret_name__stays(value: Any) -> None:
    document = {"password": value, "token": value, "api_key": value}
    assert redact_json(document) == document


@pytest.mark.parametrize(
    "document",
    [
        {"max_tokens": 4096, "token": 512, "token_count": "12", "prompt_tokens": [1, 2], "tokens_per_second": 3.5},
        {"next_page_token": "CAUQAA", "nextToken": "abc123def456", "stop_token": "<eos>", "primary_key": "id"},
        {
            "secretName": "orders-tls",
            "secret": {"secretName": "orders-tls"},
            "secretKeyRef": {"key": "password", "name": "x"},
        },
        {
            "auth": {"type": "bearer"},
            "auth_type": "basic",
            "token_url": "https://id.acme.io/token",
            "has_password": True,
        },
        {"routing_key": "orders.created", "session_key": "user:1234:cart", "cache_key": "user:1:cart"},
        {"name": "LOG_LEVEL", "value": "debug"},
        {"kind": "ConfigMap", "data": {"user": "YWRtaW4=", "conf.yaml": "a: 1"}},
        {"kind": "ExternalSecret", "spec": {"data": [{"secretKey": "user", "remoteRef": {"key": "prod/db"}}]}},
    ],
)
def test_redact_json__names_that_only_resemble__left_alone(document: Any) -> None:
    assert redact_json(document) == document


def test_redact_json__number_under_a_password__goes() -> None:
    assert redact_json({"password": 48151623, "retries": 48151623, "token": 48151623}) == {
        "password": "[redacted:password]",
        "retries": 48151623,
        "token": 48151623,
    }


def test_redact_json__secret_object__every_value_goes() -> None:
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "orders-db"},
        "data": {"username": ENCODED, "tls.crt": ENCODED, "empty": "", "none": None},
        "stringData": {"config.yaml": "a: b", "flag": True, "nested": {"a": [1]}},
    }
    expected = "[redacted:kubernetes-secret]"
    redacted, rules = redact_json_with_rules({"items": [secret, {"kind": "ConfigMap", "data": {"a": ENCODED}}]})
    assert redacted == {
        "items": [
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "orders-db"},
                "data": {"username": expected, "tls.crt": expected, "empty": "", "none": None},
                "stringData": {"config.yaml": expected, "flag": expected, "nested": expected},
            },
            {"kind": "ConfigMap", "data": {"a": ENCODED}},
        ]
    }
    assert rules == {"kubernetes-secret"}


def test_redact_json__secret_list__items_without_kind_are_secrets() -> None:
    listed = {"kind": "SecretList", "items": [{"metadata": {"name": "x"}, "data": {"user": ENCODED}}]}
    assert ENCODED not in text_of(listed)
    assert "orders" in text_of({"kind": "SecretList", "items": [{"metadata": {"name": "orders"}}]})


def test_redact_json__secret_as_text__in_annotation_yaml_or_pretty_json__goes() -> None:
    secret = {"apiVersion": "v1", "data": {"user": ENCODED, "other": ENCODED}, "kind": "Secret"}
    yaml = f"apiVersion: v1\ndata:\n  user: {ENCODED}\n  other: {ENCODED}\nkind: Secret\nmetadata:\n  name: x\n"
    shown = [json.dumps(secret), json.dumps(secret, indent=4), json.dumps(json.dumps(secret)), yaml]
    shown += [f"apiVersion: v1\nitems:\n- apiVersion: v1\n  data:\n    user: {ENCODED}\n  kind: Secret\nkind: List\n"]
    shown += [f"kind: Secret\nstringData:\n  user: {ENCODED}\n  conf: |\n    {ENCODED}\n    more\ntype: Opaque\n"]
    shown += [json.dumps({"kind": "SecretList", "items": [{"data": {"user": ENCODED}}]}, indent=1)]
    for text in shown:
        assert ENCODED not in text_of({"last-applied-configuration": text})
        assert redact_text(redact_text(text)) == redact_text(text)


def test_redact_json__pair_of_name_and_value__value_goes() -> None:
    env = [{"name": "DB_PASSWORD", "value": "opensesame"}, {"name": "LOG_LEVEL", "value": "opensesame"}]
    assert redact_json(env) == [
        {"name": "DB_PASSWORD", "value": "[redacted:password]"},
        {"name": "LOG_LEVEL", "value": "opensesame"},
    ]
    assert PASSWORD not in text_of([{"Key": "api_token", "Value": PASSWORD}])
    reference = {"name": "DB_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "orders-db", "key": "password"}}}
    assert redact_json(reference) == reference


def test_redact_json__registry_credentials__go() -> None:
    pair = base64.b64encode(f"robot:{MAKE.chars(12)}".encode()).decode()
    assert redact_json({"auths": {"r.io": {"auth": pair}}}) == {
        "auths": {"r.io": {"auth": "[redacted:labelled-secret]"}}
    }


def test_redact_json__credential_in_keys__keys_are_redacted_and_no_member_lost() -> None:
    keys = [f"ghp_{MAKE.chars(36)}" for _ in range(3)]
    redacted = redact_json({key: number for number, key in enumerate(keys)})
    assert redacted == {
        "[redacted:github-token]": 0,
        "[redacted:github-token] (2)": 1,
        "[redacted:github-token] (3)": 2,
    }
    assert redact_json(redacted) == redacted


def test_redact_json__value_found_once__goes_from_the_whole_document() -> None:
    token = MAKE.hex(20) + "zz9"
    redacted = text_of({"before": f"called with {token}", "config": {"api_token": token}, "after": [token]})
    assert token not in redacted


def test_redact_json__samples_in_strings__same_as_text() -> None:
    for sample in everything(3):
        assert redact_json({"x": [sample.text]}) == {"x": [redact_text(sample.text)]}
    for text in benign(3):
        assert redact_json([text]) == [text]


def test_redact_json__deeper_than_200_levels__marked_not_failed() -> None:
    for opening, closing in (('{"a":', "}"), ("[", "]")):
        deep = json.loads(opening * 900 + '"x"' + closing * 900) if opening == "[" else {}
        for _ in range(0 if opening == "[" else 900):
            deep = {"a": deep}
        redacted, rules = redact_json_with_rules(deep)
        assert "[redacted:too-deep]" in json.dumps(redacted)
        assert rules == {"too-deep"}
        assert redact_json(redacted) == redacted
    shallow: Any = PASSWORD
    for _ in range(150):
        shallow = {"a": [shallow]} if isinstance(shallow, str) else {"a": shallow}
    assert redact_json(shallow) == shallow


def test_redact_json__what_json_does_not_know__becomes_redacted_text() -> None:
    identifier = UUID(int=MAKE.random.getrandbits(128))
    value: Any = {
        "id": identifier,
        "raw": f"password={PASSWORD}".encode(),
        "pair": (1, 2),
        3: "x",
        "error": ValueError("y"),
    }
    assert redact_json(value) == {
        "id": str(identifier),
        "raw": "password=[redacted:password]",
        "pair": [1, 2],
        "3": "x",
        "error": "y",
    }


@given(documents())
@settings(deadline=None)
def test_redact_json__any_document__idempotent_new_and_input_untouched(document: Any) -> None:
    before = copy.deepcopy(document)
    redacted, rules = redact_json_with_rules(document)
    assert document == before
    assert redact_json(redacted) == redacted
    assert bool(rules) or redacted == document
