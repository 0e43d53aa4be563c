"""Where the code may learn who somebody is: from a session and from a token, and from nothing else a client sends."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

#: Every header of a request that the code reads. None says who somebody is; a new one is put down here on purpose.
READ = {
    "Authorization",
    "X-OpenSRE-Team-Token",
    "User-Agent",
    "Content-Type",
    "Idempotency-Key",
    "If-Match",
    "If-None-Match",
    "HX-Request",
    # Only that there is one is looked at, to tell a proxy's request from one of this machine.
    "X-Forwarded-For",
    "Forwarded",
    "X-Real-IP",
    "X-Forwarded-Host",
    # Whether a page of ours asks: set by browsers, and out of reach of scripts.
    "Sec-Fetch-Site",
}
_HEADER = re.compile(r"""request\.headers(?:\.get\(|\[)\s*["']([\w-]+)["']""")
_META = re.compile(r"""META(?:\.get\(|\[)\s*["'](HTTP_\w+|REMOTE_USER)["']""")
_IDENTITY = re.compile(
    r"X-(Org|Team-Id|Team-Node|User|Role|Internal|Admin-Token|Remote-User|Auth|Tenant|Impersonat)", re.IGNORECASE
)


def sources() -> Iterator[Path]:
    for package in ("controlplane", "web"):
        yield from (Path(settings.BASE_DIR) / package).rglob("*.py")


def test_headers__those_that_the_code_reads__are_known() -> None:
    found = {name for path in sources() for name in _HEADER.findall(path.read_text(encoding="utf-8"))}
    assert found - READ == set()


def test_environment_of_a_request__no_header_is_read_from_it() -> None:
    found = {(path.name, name) for path in sources() for name in _META.findall(path.read_text(encoding="utf-8"))}
    assert found == set()


def test_texts__no_header_of_identity_is_named_anywhere() -> None:
    found = {
        (path.name, node.value)
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 40
        if _IDENTITY.match(node.value)
    }
    assert found == set()


def test_middleware__none_takes_a_user_from_a_proxy() -> None:
    assert not [name for name in settings.MIDDLEWARE if "RemoteUser" in name]
    assert not [name for name in settings.AUTHENTICATION_BACKENDS if "RemoteUser" in name]
