"""Every URL of the project, as a browser meets it: headers, cookies, forms of other sites, redirects."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings
from django.contrib.admin.sites import site as admin_site
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, override_settings
from django.urls import URLPattern, URLResolver, get_resolver

from controlplane.access.models import AccessToken
from controlplane.core.actor import Role
from tests.factories import PASSWORD, Tree, make_operator, make_team_token, make_user
from web.browser_safety import HEADERS

SAMPLES = {"uuid": "0197a4c8-0000-7000-8000-000000000001", "int": "1", "slug": "payments", "str": "x", "path": "x"}
#: Answered without anybody signed in, and the same for everybody.
PUBLIC = re.compile(r"/(livez|readyz|metrics|api/v1/schema|api/v1/events/schemas|api/docs|static/.*)?\Z")

CALLBACK = re.compile(r"/login/[^/]+/callback\Z")


def urls(patterns: Any = None, prefix: str = "/") -> Iterator[tuple[str, str]]:
    """Yield each URL of the project with something plausible in its places, and its route."""
    for entry in get_resolver().url_patterns if patterns is None else patterns:
        route = f"{prefix}{_plain(str(entry.pattern))}"
        if isinstance(entry, URLResolver):
            yield from urls(entry.url_patterns, route)
        elif isinstance(entry, URLPattern):
            yield re.sub(r"<(?:(\w+):)?\w+>", lambda found: SAMPLES[found[1] or "str"], route), route


def _plain(pattern: str) -> str:
    return re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", pattern).strip("^$").replace("\\Z", "").replace("?$", "")


ALL = sorted({url for url, _ in urls()})


@pytest.fixture
def owner(tree: Tree) -> Client:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(make_user(tree.root, Role.OWNER))
    return client


@pytest.fixture
def operator(db: None) -> Client:
    client = Client(enforce_csrf_checks=True, raise_request_exception=False)
    client.force_login(make_operator())
    return client


def test_urls__are_those_of_the_project() -> None:
    assert {"/login/", "/app/security", "/api/v1/me", "/admin/login/", "/logout/"} <= set(ALL)
    assert len(ALL) > 80
    assert len([url for url in ALL if CALLBACK.match(url)]) == 1


@pytest.mark.parametrize("who", ["nobody", "owner", "operator"])
def test_every_url__headers__are_set(who: str, owner: Client, operator: Client) -> None:
    client = {"nobody": Client(raise_request_exception=False), "owner": owner, "operator": operator}[who]
    with override_settings(RATE_LIMITS={"requests": "off", "sign_in": "off"}):
        for url in ALL:
            answer = client.get(url)
            assert answer.status_code < 500, url
            _has_headers(url, answer)


def _has_headers(url: str, answer: Any) -> None:
    for name, value in HEADERS.items():
        assert answer[name] == value, (url, name)
    assert answer["X-Content-Type-Options"] == "nosniff", url
    assert answer["X-Frame-Options"] == "DENY", url
    # The address that a provider sends a browser back to has the code in it: no page learns it, ours included.
    referrer = "no-referrer" if CALLBACK.match(url) else "same-origin"
    assert answer["Referrer-Policy"] == referrer, url
    assert answer["Cross-Origin-Opener-Policy"] == "same-origin", url
    policy = answer["Content-Security-Policy"]
    assert "default-src 'none'" in policy, url
    assert "frame-ancestors 'none'" in policy, url
    assert "base-uri 'none'" in policy, url
    assert "form-action" in policy, url
    script = re.search(r"script-src ([^;]*)", policy)
    assert script is not None
    assert "'unsafe-inline'" not in script[1], url
    if not url.startswith("/admin/"):
        assert script[1] == "'self'", url
        assert not url.startswith("/app") or "unsafe" not in policy, url
    if answer.status_code == 200 and not PUBLIC.match(url):
        assert re.search(r"no-store|private, no-cache", answer.get("Cache-Control", "")), url


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_every_url__unsafe_method_without_csrf_token__does_nothing(owner: Client, method: str) -> None:
    with override_settings(RATE_LIMITS={"requests": "off", "sign_in": "off"}):
        for url in ALL:
            answer = getattr(owner, method)(url, "{}", content_type="application/json")
            # 401: addresses of OpenSRE's clients, which know tokens alone and no session.
            assert answer.status_code in {401, 403, 404, 405}, (url, answer.status_code)
            assert answer.status_code != 401 or not url.startswith(("/api/", "/app", "/login")), url
            if answer.status_code == 403 and url.startswith("/api/"):
                assert answer.json()["code"] == "csrf_failed", url


@pytest.mark.parametrize("path", ["/login/", "/login/second/step", "/login/link/x", "/logout/", "/admin/"])
def test_sign_in_pages__form_of_another_site__is_refused(path: str, db: None) -> None:
    client = Client(enforce_csrf_checks=True)
    token = "a" * 32
    client.cookies[settings.CSRF_COOKIE_NAME] = token
    form = {"username": "rita", "password": PASSWORD, "csrfmiddlewaretoken": token}
    answer = client.post(path, form, headers={"Origin": "https://evil.example"})
    assert answer.status_code in {302, 403, 405}
    assert answer.status_code == 403 or path == "/admin/"
    assert "_auth_user_id" not in client.session


def test_token__csrf__is_not_asked_for(tree: Tree) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post(
        "/api/v1/investigations", {}, "application/json",
        headers={"Authorization": f"Bearer {make_team_token(tree.payments)}"},
    )  # fmt: skip
    assert answer.status_code == 422


def test_cookies__are_out_of_reach_of_scripts_and_other_sites(tree: Tree) -> None:
    make_user(tree.payments, username="rita")
    client = Client()
    client.get("/login/")
    client.post("/login/", {"username": "rita", "password": PASSWORD})
    for name in (settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME):
        cookie = client.cookies[name]
        assert cookie["httponly"]
        assert cookie["samesite"] == "Lax"
        assert cookie["path"] == "/"
        assert not cookie["domain"]


def test_production__https__hsts_and_redirect(db: None) -> None:
    with override_settings(
        SECURE_SSL_REDIRECT=True,
        SECURE_HSTS_SECONDS=31_536_000,
        SECURE_HSTS_INCLUDE_SUBDOMAINS=True,
        SECURE_HSTS_PRELOAD=True,
    ):
        client = Client()
        assert client.get("/login/")["Location"] == "https://testserver/login/"
        assert client.get("/livez").status_code == 200
        answer = client.get("/login/", secure=True)
        assert answer["Strict-Transport-Security"] == "max-age=31536000; includeSubDomains; preload"


@pytest.mark.parametrize(
    "wanted", ["https://evil.example/", "//evil.example/", "/\\evil.example", "\t//evil.example", "javascript:alert(1)"]
)
def test_next__of_another_site__goes_home(tree: Tree, wanted: str) -> None:
    make_user(tree.payments, username="rita")
    client = Client()
    answer = client.post("/login/", {"username": "rita", "password": PASSWORD, "next": wanted})
    assert answer["Location"] == "/app/"
    assert client.get("/login/", {"next": wanted})["Location"] == "/app/"
    admin = client.get("/admin/login/", {"next": wanted})
    assert admin["Location"].startswith("/login/?next=")


@pytest.mark.parametrize(
    ("name", "content_type", "content"),
    [
        ("evidence.json", "application/json", b"<svg onload=alert(1)>"),
        ("evidence.html", "text/html", b"<script>alert(1)</script>"),
        ("../../etc/passwd", "application/json", b"[1]"),
        ("evidence.json", "application/json", b"x" * (8 * 1024 * 1024 + 1)),
        ("evidence.json", "application/json", b'{"a": NaN}'),
    ],
)
def test_upload__anything_but_a_json_object_of_a_size__is_refused(
    tree: Tree, name: str, content_type: str, content: bytes
) -> None:
    client = Client()
    client.force_login(make_user(tree.payments, Role.RESPONDER))
    form = {"prompt": "Why?", "team": "payments", "evidence": SimpleUploadedFile(name, content, content_type)}
    answer = client.post("/app/new", form)
    assert answer.status_code in {400, 413, 422}
    assert b"<script>alert(1)" not in answer.content
    assert b"onload=alert" not in answer.content


def test_admin__secrets__are_on_no_page(operator: Client, tree: Tree) -> None:
    make_user(tree.payments, username="rita")
    make_team_token(tree.payments)
    token = AccessToken.objects.get()
    for model, registered in admin_site._registry.items():
        base = f"/admin/{model._meta.app_label}/{model._meta.model_name}/"
        pages = [operator.get(base).content.decode()]
        pages += [operator.get(f"{base}{row.pk}/change/").content.decode() for row in model._default_manager.all()[:3]]
        assert registered is not None
        for page in pages:
            assert token.digest not in page, base
            assert not re.search(r"pbkdf2_sha256\$|md5\$", page), base
