"""What the vendors of the catalogue answer to the GETs of a connection test: to the right credential, and to any other.

Sources: the examples of the vendors' API pages that the catalogue's definitions name.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tests.runtimes.live.peer import Asked, Raw, answer

SECRET: Final = "s3cr3t-of-the-vendor"
OTHER: Final = "an0ther-of-the-vendor"
NAME: Final = "OPENSRE_CRED_VENDOR"
OTHER_NAME: Final = "OPENSRE_CRED_OTHER"
REFERENCE: Final = f"${{{NAME}}}"


@dataclass(frozen=True)
class Vendor:
    """One vendor: the fields of its entry beside the URL, its views by path, and how it refuses."""

    kind: str
    entry: Mapping[str, Any]
    headers: Mapping[str, str]
    views: Mapping[str, Any]
    refusal: Raw
    refusal_code: str
    version: str | None = None
    public: tuple[str, ...] = ()
    also: Callable[[Asked], bool] = lambda _: True

    def respond(self, asked: Asked) -> Raw:
        if asked.path not in self.views:
            return answer({"message": "Not Found"}, 404)
        known = all(asked.headers.get(name) == value for name, value in self.headers.items())
        if asked.path not in self.public and not known:
            return self.refusal
        assert self.also(asked), asked
        return answer(self.views[asked.path])


_BEARER: Final = {"auth": {"type": "bearer", "token": REFERENCE}}
_AUTHORIZED: Final = {"authorization": f"Bearer {SECRET}"}
_SEARCH: Final = {
    "name": "node-1",
    "cluster_name": "logs",
    "cluster_uuid": "QZGxSNwyTLyTs2_yhUGTNA",
    "tagline": "You Know, for Search",
}
_ELASTIC: Final = {**_SEARCH, "version": {"number": "8.17.1", "build_flavor": "default", "lucene_version": "9.12.0"}}
_OPENSEARCH: Final = {**_SEARCH, "version": {"distribution": "opensearch", "number": "2.18.0", "build_type": "tar"}}
_ELASTIC_REFUSAL: Final = answer(
    {"error": {"type": "security_exception", "reason": "unable to authenticate"}, "status": 401}, 401
)

VENDORS: Final = {
    "grafana": Vendor(
        "grafana",
        _BEARER,
        _AUTHORIZED,
        {
            "/api/health": {"commit": "83b9528bce", "database": "ok", "version": "11.4.0"},
            "/api/org": {"id": 1, "name": "Main Org.", "address": {}},
        },
        answer({"message": "Invalid API key", "messageId": "api-key.invalid", "statusCode": 401}, 401),
        "not_authenticated",
        "11.4.0",
        public=("/api/health",),
    ),
    "elasticsearch with a key": Vendor(
        "elasticsearch",
        {"api_key": REFERENCE},
        {"authorization": f"ApiKey {SECRET}"},
        {"/": _ELASTIC},
        _ELASTIC_REFUSAL,
        "not_authenticated",
        "8.17.1",
    ),
    "elasticsearch with a password": Vendor(
        "elasticsearch",
        {"auth": {"type": "basic", "username": "opensre", "password": REFERENCE}},
        {"authorization": "Basic " + b64encode(f"opensre:{SECRET}".encode()).decode()},
        {"/": _ELASTIC},
        _ELASTIC_REFUSAL,
        "not_authenticated",
        "8.17.1",
    ),
    "opensearch": Vendor(
        "opensearch",
        {"auth": {"type": "basic", "username": "opensre", "password": REFERENCE}},
        {"authorization": "Basic " + b64encode(f"opensre:{SECRET}".encode()).decode()},
        {"/": _OPENSEARCH},
        Raw(401, b"Unauthorized", "text/plain"),
        "not_authenticated",
        "2.18.0",
    ),
    "kubernetes": Vendor(
        "kubernetes",
        _BEARER,
        _AUTHORIZED,
        {
            "/version": {"major": "1", "minor": "31", "gitVersion": "v1.31.4", "platform": "linux/amd64"},
            "/api": {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []},
        },
        answer({"kind": "Status", "status": "Failure", "message": "Unauthorized", "code": 401}, 401),
        "not_authenticated",
        "v1.31.4",
        public=("/version",),
    ),
    "datadog": Vendor(
        "datadog",
        {"api_key": REFERENCE, "app_key": f"${{{OTHER_NAME}}}"},
        {"dd-api-key": SECRET, "dd-application-key": OTHER},
        {"/api/v2/validate_keys": {"status": "ok"}},
        answer({"errors": ["Forbidden"]}, 403),
        "not_permitted",
    ),
    "pagerduty": Vendor(
        "pagerduty",
        {"api_key": REFERENCE},
        {"authorization": f"Token token={SECRET}"},
        {"/abilities": {"abilities": ["sso", "teams"]}},
        answer({"error": {"code": 2006, "message": "You are not authorized"}}, 401),
        "not_authenticated",
        also=lambda asked: asked.headers["accept"] == "application/vnd.pagerduty+json;version=2",
    ),
    "github": Vendor(
        "github",
        _BEARER,
        _AUTHORIZED,
        {"/rate_limit": {"resources": {"core": {"limit": 5000, "remaining": 4999, "reset": 1}}, "rate": {}}},
        answer({"message": "Bad credentials", "status": "401"}, 401),
        "not_authenticated",
        also=lambda asked: asked.headers["x-github-api-version"] == "2022-11-28",
    ),
    "gitlab": Vendor(
        "gitlab",
        {"token": REFERENCE},
        {"private-token": SECRET},
        {"/api/v4/version": {"version": "17.7.0-ee", "revision": "b3c9d5a", "enterprise": True}},
        answer({"message": "401 Unauthorized"}, 401),
        "not_authenticated",
        "17.7.0-ee",
    ),
    "sentry": Vendor(
        "sentry",
        {**_BEARER, "organization": "acme/../x"},
        _AUTHORIZED,
        {"/api/0/organizations/acme%2F..%2Fx/": {"id": "2", "slug": "acme", "name": "Acme"}},
        answer({"detail": "Invalid token"}, 401),
        "not_authenticated",
    ),
    "slack": Vendor(
        "slack",
        {"bot_token": REFERENCE},
        _AUTHORIZED,
        {"/api/auth.test": {"ok": True, "url": "https://acme.slack.com/", "team": "Acme", "user": "opensre"}},
        answer({"ok": False, "error": "invalid_auth"}),
        "not_authenticated",
    ),
}
