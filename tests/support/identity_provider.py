"""An identity provider of our own, over TLS on loopback: shaped like Entra, and beside it a plain OpenID Connect one.

It holds clients to what the real ones do (exact redirect URI, S256, codes that work once, the client's credential), and
does on request what a broken or hostile one might: bad tokens, groups that cannot be read, keys that change.
"""

import base64
import hashlib
import hmac
import html
import json
import secrets
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit
from uuid import UUID, uuid4

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509 import load_pem_x509_certificate
from typing_extensions import override

from tests.support.certificates import make_authority

CLIENT_ID: Final = "11111111-aaaa-4bbb-8ccc-222222222222"
CLIENT_SECRET: Final = "a-secret-of-the-client-0123456789"
TENANT: Final = UUID("aaaaaaaa-0000-4000-8000-000000000001")
OTHER_TENANT: Final = UUID("bbbbbbbb-0000-4000-8000-000000000002")
#: As many ids as fit into a token; beyond that it says where to ask.
MOST_IN_TOKEN: Final = 200
PAGE: Final = 100

Claims = dict[str, Any]
#: What is done to header and claims before they are signed; may return the token whole.
Tamper = Callable[[dict[str, Any], Claims], str | None]


@dataclass(frozen=True)
class Account:
    """Somebody in a directory."""

    username: str
    name: str = "Ada Lovelace"
    tid: UUID = TENANT
    oid: UUID = field(default_factory=uuid4)
    roles: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    more: Claims = field(default_factory=dict)

    def but(self, **changes: Any) -> "Account":
        """Return the same person otherwise."""
        return replace(self, **changes)


@dataclass
class _Code:
    account: Account
    query: dict[str, str]
    issuer: str
    at: float


class Provider:
    """The running provider, with what tests change about it."""

    def __init__(self, url: str, authority_file: Path) -> None:
        self.url = url
        self.authority_file = authority_file
        self.clients = {CLIENT_ID: CLIENT_SECRET}
        self.certificates: dict[str, str] = {}
        self.redirects: set[str] = set()
        self.accounts: dict[str, Account] = {}
        self.tamper: Tamper | None = None
        self.graph_status = 200
        self.graph_next: str | None = None
        self.discovery: dict[str, Any] = {}
        self.asked: list[str] = []
        self.signed_out: list[str] = []
        self._codes: dict[str, _Code] = {}
        self._graph_tokens: set[str] = set()
        self.keys: list[tuple[str, rsa.RSAPrivateKey]] = []
        self.rotate_keys()

    @property
    def cloud(self) -> dict[str, str]:
        """As a row of the setting ``ENTRA_CLOUDS``."""
        return {"login": self.url, "graph": f"{self.url}/graph"}

    @property
    def issuer(self) -> str:
        """Of the plain OpenID Connect side: one without a path."""
        return self.url

    def add(self, account: Account) -> Account:
        """Let somebody sign in, by the name it has; the last of a name counts."""
        self.accounts[account.username] = account
        return account

    def rotate_keys(self) -> None:
        """Sign by a new key from now on, and publish no other."""
        self.keys = [(secrets.token_hex(8), rsa.generate_private_key(public_exponent=65537, key_size=2048))]

    def approve(self, url: str, username: str) -> str:
        """Do what the person in the browser would at an authorization URL, and return where that leads back to."""
        parts = urlsplit(url)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        status, target = self.authorize(parts.path, query, username)
        assert status == 302, target
        return target

    def authorize(self, path: str, query: dict[str, str], username: str) -> tuple[int, str]:
        """Answer the form of the authorization page: 302 and where to, or 400 and why."""
        refused = self.refusal(path, query)
        if refused:
            return 400, refused
        back = {"state": query["state"]}
        account = self.accounts.get(username)
        tenant = path.split("/")[1]
        if account is None or (tenant not in {"organizations", "authorize"} and str(account.tid) != tenant):
            return 302, f"{query['redirect_uri']}?{urlencode(back | {'error': 'access_denied'})}"
        code = secrets.token_urlsafe(24)
        issuer = self.issuer if tenant == "authorize" else f"{self.url}/{account.tid}/v2.0"
        self._codes[code] = _Code(account, query, issuer, time.time())
        return 302, f"{query['redirect_uri']}?{urlencode(back | {'code': code, 'session_state': 'x'})}"

    def refusal(self, path: str, query: dict[str, str]) -> str:
        """Return why an authorization request is none, or ``""``."""
        checks = {
            "unknown client": query.get("client_id") in self.clients,
            "AADSTS50011 redirect": query.get("redirect_uri") in self.redirects,
            "response type": query.get("response_type") == "code",
            "PKCE": query.get("code_challenge_method") == "S256" and bool(query.get("code_challenge")),
            "scope": "openid" in query.get("scope", "").split(),
            "state": bool(query.get("state")),
            "tenant": path.split("/")[1] in {str(TENANT), str(OTHER_TENANT), "organizations", "authorize"},
        }
        return next((name for name, good in checks.items() if not good), "")

    def token(self, path: str, form: dict[str, str]) -> tuple[int, dict[str, Any]]:
        """Answer the token endpoint."""
        if not self._is_client(path, form):
            return 401, {"error": "invalid_client", "error_codes": [7000215], "error_description": "secret wrong"}
        if form.get("grant_type") == "client_credentials":
            token = secrets.token_urlsafe(24)
            self._graph_tokens.add(token)
            return 200, {"token_type": "Bearer", "expires_in": 3600, "access_token": token}
        code = self._codes.pop(form.get("code", ""), None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
        good = (
            code is not None
            and time.time() - code.at < 60
            and form.get("redirect_uri") == code.query["redirect_uri"]
            and form.get("client_id") == code.query["client_id"]
            and challenge.rstrip(b"=").decode() == code.query["code_challenge"]
        )
        if code is None or not good:
            return 400, {"error": "invalid_grant", "error_codes": [70008]}
        answer: dict[str, Any] = {"token_type": "Bearer", "expires_in": 3600, "access_token": secrets.token_urlsafe(24)}
        client_info = json.dumps({"uid": str(code.account.oid), "utid": str(code.account.tid)}).encode()
        answer["client_info"] = base64.urlsafe_b64encode(client_info).rstrip(b"=").decode()
        return 200, answer | {"id_token": self.mint(code.account, code.issuer, code.query)}

    def mint(self, account: Account, issuer: str, query: dict[str, str]) -> str:
        """Return an ID token."""
        now = int(time.time())
        claims: Claims = {
            "aud": query["client_id"],
            "iss": issuer,
            "iat": now,
            "nbf": now,
            "exp": now + 3600,
            "nonce": query.get("nonce"),
            "sub": hashlib.sha256(f"{query['client_id']}{account.oid}".encode()).hexdigest()[:43],
            "name": account.name,
            "preferred_username": account.username,
            "email": account.username,
        }
        if issuer != self.issuer:
            claims |= {"tid": str(account.tid), "oid": str(account.oid), "ver": "2.0"}
        if account.roles:
            claims["roles"] = list(account.roles)
        if len(account.groups) <= MOST_IN_TOKEN:
            claims["groups"] = list(account.groups)
        else:
            claims["_claim_names"] = {"groups": "src1"}
            source = {"endpoint": f"https://graph.windows.net/{account.tid}/users/{account.oid}/getMemberObjects"}
            claims["_claim_sources"] = {"src1": source}
        claims |= account.more
        kid, key = self.keys[0]
        header = {"kid": kid, "alg": "RS256"}
        if self.tamper is not None:
            whole = self.tamper(header, claims)
            if whole is not None:
                return whole
        return jwt.encode(claims, key, algorithm=str(header.pop("alg")), headers=header)

    def public_pem(self) -> bytes:
        """Return the public key, which everybody has."""
        return (
            self.keys[0][1]
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )

    def jwks(self) -> dict[str, Any]:
        """Return the key set."""
        keys = [
            json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key())) | {"kid": kid, "use": "sig"}
            for kid, key in self.keys
        ]
        return {"keys": keys}

    def configuration(self, tenant: str) -> dict[str, Any]:
        """Return a discovery document; ``tenant`` is ``""`` for the plain OpenID Connect side."""
        if not tenant:
            base, name = self.url, {"authorize": "authorize", "token": "token", "keys": "keys", "logout": "logout"}
            found = {"issuer": self.issuer}
        else:
            base = f"{self.url}/{tenant}"
            name = {
                "authorize": "oauth2/v2.0/authorize",
                "token": "oauth2/v2.0/token",
                "keys": "discovery/v2.0/keys",
                "logout": "oauth2/v2.0/logout",
            }
            # The literal template of Entra: no issuer of any token.
            place = "{tenantid}" if tenant == "organizations" else tenant
            found = {"issuer": f"{self.url}/{place}/v2.0"}
        found |= {
            "authorization_endpoint": f"{base}/{name['authorize']}",
            "token_endpoint": f"{base}/{name['token']}",
            "jwks_uri": f"{base}/{name['keys']}",
            "end_session_endpoint": f"{base}/{name['logout']}",
        }
        return found | self.discovery

    def graph(self, method: str, path: str, authorization: str) -> tuple[int, dict[str, Any]]:
        """Answer Microsoft Graph."""
        if authorization.removeprefix("Bearer ") not in self._graph_tokens:
            return 401, {"error": {"code": "InvalidAuthenticationToken"}}
        if self.graph_status != 200:
            return self.graph_status, {"error": {"code": "Authorization_RequestDenied"}}
        if path.startswith("/graph/v1.0/groups"):
            return 200, {"value": []}
        parts = urlsplit(path).path.split("/")
        first = method == "POST" and parts[-1] == "getMemberObjects"
        oid, number = (parts[-2], 0) if first else (parts[-2], int(parts[-1]))
        account = next((one for one in self.accounts.values() if str(one.oid) == oid and one.tid == TENANT), None)
        if account is None:
            return 404, {"error": {"code": "Request_ResourceNotFound"}}
        start = number * PAGE
        answer: dict[str, Any] = {"value": list(account.groups[start : start + PAGE])}
        if start + PAGE < len(account.groups):
            following = f"{self.url}/graph/v1.0/pages/{oid}/{number + 1}"
            answer["@odata.nextLink"] = self.graph_next or following
        return 200, answer

    def _is_client(self, path: str, form: dict[str, str]) -> bool:
        client_id = form.get("client_id", "")
        assertion = form.get("client_assertion")
        if assertion is not None:
            certificate = load_pem_x509_certificate(self.certificates[client_id].encode())
            key: Any = certificate.public_key()
            claims = jwt.decode(assertion, key, algorithms=["PS256", "RS256"], audience=f"{self.url}{path}")
            return bool(claims["iss"] == claims["sub"] == client_id)
        return hmac.compare_digest(self.clients.get(client_id, ""), form.get("client_secret", "-"))


@contextmanager
def identity_provider(folder: Path) -> Iterator[Provider]:
    """Serve for the length of the block. Its authority's certificate is in ``folder``."""
    authority_file, server_file = make_authority(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(server_file)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    provider = Provider(f"https://localhost:{server.server_address[1]}", authority_file)
    server.provider = provider  # type: ignore[attr-defined]  # for the handler
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, name="identity-provider")
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @override
    def log_message(self, format: str, *args: Any) -> None:
        pass

    @property
    def provider(self) -> Provider:
        return self.server.provider  # type: ignore[attr-defined, no-any-return]  # set by identity_provider()

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        self.provider.asked.append(parts.path)
        if parts.path.endswith("/.well-known/openid-configuration"):
            tenant = parts.path.split("/")[1]
            self._json(200, self.provider.configuration("" if tenant == ".well-known" else tenant))
        elif parts.path.endswith("/keys"):
            self._json(200, self.provider.jwks())
        elif parts.path.endswith("/authorize"):
            self._choose(parts.path, query)
        elif parts.path.endswith("/logout"):
            self.provider.signed_out.append(self.path)
            self._redirect(query.get("post_logout_redirect_uri", "/"))
        elif parts.path.startswith("/graph/"):
            self._json(*self.provider.graph("GET", self.path, self.headers.get("Authorization", "")))
        else:
            self._json(404, {"error": "not_found"})

    def do_POST(self) -> None:
        parts = urlsplit(self.path)
        self.provider.asked.append(parts.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        form = {name: values[0] for name, values in parse_qs(body).items()}
        if parts.path.endswith("/token"):
            self._json(*self.provider.token(parts.path, form))
        elif parts.path.endswith("/authorize"):
            status, target = self.provider.authorize(parts.path, json.loads(form["query"]), form.get("username", ""))
            self._redirect(target) if status == 302 else self._json(status, {"error": target})
        elif parts.path.startswith("/graph/"):
            self._json(*self.provider.graph("POST", self.path, self.headers.get("Authorization", "")))
        else:
            self._json(404, {"error": "not_found"})

    def _choose(self, path: str, query: dict[str, str]) -> None:
        refused = self.provider.refusal(path, query)
        if refused:
            self._json(400, {"error": refused})
            return
        buttons = "".join(
            f'<button name="username" value="{html.escape(name)}">{html.escape(name)}</button>'
            for name in self.provider.accounts
        )
        kept = html.escape(json.dumps(query), quote=True)
        page = (
            '<!doctype html><html lang="en"><title>Pick an account</title><h1>Pick an account</h1><form method="post">'
            f'<input type="hidden" name="query" value="{kept}">{buttons}</form></html>'
        )
        self._send(200, "text/html; charset=utf-8", page.encode())

    def _redirect(self, target: str) -> None:
        self.send_response(302)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _json(self, status: int, document: dict[str, Any]) -> None:
        self._send(status, "application/json", json.dumps(document).encode())

    def _send(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
