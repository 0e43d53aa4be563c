"""A provider on loopback for the session, as each test finds it anew, and organizations that sign in by it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pytest_django import Settings

from controlplane.access.entra.outgoing import forget_documents
from tests.access.entra.support import PUBLIC_URL, SECRET_NAME
from tests.support.identity_provider import CLIENT_ID, CLIENT_SECRET, Provider, identity_provider


@pytest.fixture(scope="session")
def running_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    folder: Path = tmp_path_factory.mktemp("identity-provider")
    with identity_provider(folder) as provider:
        yield provider


@pytest.fixture
def peer(running_provider: Provider, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    """The provider, and an installation that may reach it and knows the client's secret."""
    kept: dict[str, Any] = {"clients": {CLIENT_ID: CLIENT_SECRET}, "certificates": {}, "redirects": set()}
    kept |= {"accounts": {}, "tamper": None, "graph_status": 200, "graph_next": None, "discovery": {}, "asked": []}
    for name, value in (kept | {"signed_out": []}).items():
        setattr(running_provider, name, value)
    settings.ENTRA_CLOUDS = {"test": running_provider.cloud}
    settings.SSO_CA_FILE = str(running_provider.authority_file)
    settings.PUBLIC_URL = PUBLIC_URL
    settings.OUTBOUND_PRIVATE_ALLOW = ["127.0.0.0/8", "::1/128"]
    settings.CREDENTIAL_ENV_ALLOW = ["OPENSRE_CRED_*"]
    monkeypatch.setenv(SECRET_NAME, CLIENT_SECRET)
    forget_documents()
    yield running_provider
    forget_documents()
