"""Bad ID tokens, each through the whole sign-in with real msal: nobody is signed in, and the log says which rule."""

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
import structlog
from cryptography.hazmat.primitives.asymmetric import rsa

from controlplane.access.models import ExternalIdentity, IdentityProvider
from tests.access.entra.support import Visit, map_to, reasons, set_up
from tests.factories import Tree
from tests.support.identity_provider import CLIENT_ID, OTHER_TENANT, TENANT, Account, Claims, Provider, Tamper

ADA = Account("ada@example.com", roles=("sre",))
STRANGER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
Head = dict[str, Any]


@pytest.fixture(autouse=True)
def provider(tree: Tree, peer: Provider) -> IdentityProvider:
    made = set_up(tree, peer)
    map_to(made, "role", "sre", tree.root, "owner")
    peer.add(ADA)
    return made


def changed(values: dict[str, Any], name: str, value: Any) -> None:
    """Set a member; ``None`` takes it away."""
    values[name] = value
    if value is None:
        del values[name]


def claim(name: str, value: Any) -> Tamper:
    return lambda _head, claims: changed(claims, name, value)


def header(name: str, value: Any) -> Tamper:
    return lambda head, _claims: changed(head, name, value)


def lasting(seconds: int) -> Tamper:
    return lambda _head, claims: changed(claims, "exp", claims["iat"] + seconds)


def issued(later_s: int) -> Tamper:
    return lambda _head, claims: claims.update({name: claims[name] + later_s for name in ("iat", "nbf")})


def signed_by_a_stranger(head: Head, claims: Claims) -> str:
    return jwt.encode(claims, STRANGER, algorithm="RS256", headers={"kid": head["kid"]})


def key_in_header(head: Head, claims: Claims) -> str:
    own = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(STRANGER.public_key()))
    return jwt.encode(claims, STRANGER, algorithm="RS256", headers={"kid": head["kid"], "jwk": own})


def unsigned(head: Head, claims: Claims) -> str:
    return jwt.encode(claims, "", algorithm="none", headers={"kid": head["kid"]})


def part(value: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


BAD: dict[str, tuple[Tamper, str]] = {
    "signature": (signed_by_a_stranger, "token_signature"),
    "alg none": (unsigned, "token_algorithm"),
    "key in the header": (key_in_header, "token_signature"),
    "unknown key": (header("kid", "unknown"), "token_key"),
    "algorithm PS256": (header("alg", "PS256"), "token_algorithm"),
    "audience": (claim("aud", "33333333-aaaa-4bbb-8ccc-444444444444"), "token_audience"),
    "no audience": (claim("aud", None), "token_malformed"),
    "two audiences": (claim("aud", [CLIENT_ID, "another"]), "token_audience"),
    "issuer of another host": (claim("iss", f"https://evil.example/{TENANT}/v2.0"), "token_issuer"),
    "issuer of version 1": (claim("iss", f"https://sts.windows.net/{TENANT}/"), "token_issuer"),
    "no issuer": (claim("iss", None), "token_malformed"),
    "expired": (lasting(-61), "token_expired"),
    "no expiry": (claim("exp", None), "token_malformed"),
    "from the future": (issued(120), "token_early"),
    "nonce": (claim("nonce", "0" * 64), "token_nonce"),
    "no nonce": (claim("nonce", None), "token_nonce"),
    "tenant": (claim("tid", str(OTHER_TENANT)), "tenant"),
    "no tenant": (claim("tid", None), "token_malformed"),
    "tenant no GUID": (claim("tid", "example.com"), "token_malformed"),
    "version": (claim("ver", "1.0"), "token_version"),
    "no version": (claim("ver", None), "token_version"),
    "no oid": (claim("oid", None), "token_malformed"),
    "oid no GUID": (claim("oid", "ada"), "token_malformed"),
    "oid a number": (claim("oid", 7), "token_malformed"),
    "no subject": (claim("sub", None), "token_malformed"),
    "guest": (claim("acct", 1), "guest"),
    "empty": (lambda _head, _claims: "", "token_malformed"),
    "no JWT": (lambda _head, _claims: "x.y.z", "token_malformed"),
}


@pytest.mark.parametrize("fault", BAD)
def test_id_token__bad__nobody_is_signed_in(tree: Tree, peer: Provider, fault: str) -> None:
    peer.tamper, reason = BAD[fault]
    visit = Visit.to(peer, tree)
    answer = visit.sign_in(ADA.username)
    assert (answer.status_code, visit.user_id) == (403, None)
    assert "did not let you in" in answer.content.decode()
    assert not ExternalIdentity.objects.exists()
    assert reasons() == [reason]


def test_id_token__hs256_under_the_public_key__is_refused(tree: Tree, peer: Provider) -> None:
    def confused(head: Head, claims: Claims) -> str:
        text = f"{part({'alg': 'HS256', 'typ': 'JWT', 'kid': head['kid']})}.{part(claims)}"
        mac = hmac.new(peer.public_pem(), text.encode(), hashlib.sha256).digest()
        return f"{text}.{base64.urlsafe_b64encode(mac).rstrip(b'=').decode()}"

    peer.tamper = confused
    visit = Visit.to(peer, tree)
    assert (visit.sign_in(ADA.username).status_code, visit.user_id) == (403, None)
    assert reasons() == ["token_algorithm"]


@pytest.mark.parametrize("tamper", [lasting(-30), issued(30), claim("groups", []), claim("tid", str(TENANT).upper())])
def test_id_token__odd_but_within_the_rules__is_accepted(tree: Tree, peer: Provider, tamper: Tamper) -> None:
    peer.tamper = tamper
    assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 302


@pytest.mark.parametrize("name", ["name", "preferred_username", "email"])
def test_id_token__text_that_no_database_stores_or_nobody_sees__is_shown_without_it(
    tree: Tree, peer: Provider, name: str
) -> None:
    peer.tamper = claim(name, "A\ud800da\u200b\x00")
    assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 302
    user = ExternalIdentity.objects.get().user
    assert {"name": user.name, "preferred_username": user.username, "email": user.email}[name] == "Ada"


def test_id_token__name_of_nothing_that_is_seen__is_called_by_the_object_id(tree: Tree, peer: Provider) -> None:
    peer.tamper = claim("preferred_username", "\u200b\u200b")
    Visit.to(peer, tree).sign_in(ADA.username)
    assert ExternalIdentity.objects.get().user.username == str(ADA.oid)


def test_refusal__page_and_log__hold_nothing_of_token_code_or_secret(tree: Tree, peer: Provider) -> None:
    minted: list[str] = []

    def tamper(head: Head, claims: Claims) -> str:
        minted.append(signed_by_a_stranger(head, claims))
        return minted[0]

    peer.tamper = tamper
    visit = Visit.to(peer, tree)
    back = visit.approved(ADA.username)
    code = back.partition("code=")[2].partition("&")[0]
    with structlog.testing.capture_logs() as logs:
        page = visit.client.get(back).content.decode()
    assert [entry["reason"] for entry in logs if entry["event"] == "sign_in.refused"] == ["token_signature"]
    for secret in (minted[0], minted[0].split(".")[1], code, peer.clients[CLIENT_ID]):
        assert secret not in page
        assert secret not in str(logs)
