"""What ``manage.py check --deploy`` says of an unsafe production start, naming the variable to set.

In local mode the same command says that it is local mode: nothing below applies there.
"""

import ipaddress
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.checks import CheckMessage, Error, Info, Tags, Warning, register  # noqa: A004 (Django's name)
from django.core.exceptions import ImproperlyConfigured

#: Shortest accepted key: 32 characters, the output size of the SHA-256 that peppers and audit keys feed (RFC 2104).
MIN_KEY_LENGTH = 32
MAKE_ONE = 'python -c "import secrets; print(secrets.token_urlsafe(48))"'


@register(Tags.security, deploy=True)
def check_production(**_kwargs: Any) -> list[CheckMessage]:
    """Return the faults of the settings for production use; one note in local mode. No value is shown."""
    if not settings.PRODUCTION:
        return [
            Info(
                "OPENSRE_MODE is 'local': one machine, secrets made in OPENSRE_DATA_DIR, SQLite allowed. The security "
                "warnings of Django shown beside this one matter only in production.",
                hint="Set OPENSRE_MODE=production to have the production settings checked.",
                id="opensre.I001",
            )
        ]
    faults = (_secret_faults, _host_faults, _browser_faults, _database_faults, _bus_warnings, _credential_faults)
    return [message for found in faults for message in found()]


def _secret_faults() -> Iterator[CheckMessage]:
    try:
        secret_key = settings.SECRET_KEY
    except ImproperlyConfigured:  # what Django says of an empty one
        secret_key = ""
    if len(secret_key) < MIN_KEY_LENGTH:
        hint = f"Make one with: {MAKE_ONE}"
        yield Error(f"SECRET_KEY is missing or shorter than {MIN_KEY_LENGTH} characters.", hint=hint, id="opensre.E001")
    yield from _numbered_faults("TOKEN_PEPPERS", settings.TOKEN_PEPPERS, "opensre.E002")
    yield from _numbered_faults("AUDIT_KEYS", settings.AUDIT_KEYS, "opensre.E003")
    if settings.METRICS_TOKEN and len(settings.METRICS_TOKEN) < 16:
        yield Warning("METRICS_TOKEN is shorter than 16 characters.", id="opensre.W001")


def _numbered_faults(name: str, keys: Mapping[int, str], check_id: str) -> Iterator[CheckMessage]:
    hint = f'A JSON object of numbered keys: {{"1": "…"}}. Make one with: {MAKE_ONE}'
    if not any(keys.values()):
        yield Error(f"{name} is missing.", hint=hint, id=check_id)
        return
    for number, key in sorted(keys.items()):
        if len(key) < MIN_KEY_LENGTH:
            message = f"{name} has a key, number {number}, shorter than {MIN_KEY_LENGTH} characters."
            yield Error(message, hint=hint, id=check_id)


def _host_faults() -> Iterator[CheckMessage]:
    if settings.DEBUG:
        yield Error("DEBUG is on: error pages would show code and settings to everybody.", id="opensre.E004")
    if not settings.ALLOWED_HOSTS:
        hint = "The names people type, comma-separated: ALLOWED_HOSTS=opensre.example.com"
        yield Error("ALLOWED_HOSTS is missing.", hint=hint, id="opensre.E005")
    elif "*" in settings.ALLOWED_HOSTS:
        yield Warning("ALLOWED_HOSTS accepts every host name.", id="opensre.W002")


def _browser_faults() -> Iterator[CheckMessage]:
    if settings.SECURE_SSL_REDIRECT is False:
        hint = "Leave it out, unless the proxy in front redirects by itself."
        yield Warning("SECURE_SSL_REDIRECT is off: people may reach the pages over HTTP.", hint=hint, id="opensre.W005")
    if settings.SECURE_HSTS_SECONDS < 86_400:
        yield Warning("SECURE_HSTS_SECONDS is below a day: browsers forget to insist on HTTPS.", id="opensre.W006")
    if not (settings.SESSION_COOKIE_SECURE and settings.SESSION_COOKIE_NAME.startswith("__Host-")):
        yield Error("The session cookie would go over HTTP: OPENSRE_MODE must be production.", id="opensre.E008")


def _proxy_faults() -> Iterator[CheckMessage]:
    for proxy in settings.TRUSTED_PROXIES:
        try:
            network = ipaddress.ip_network(proxy, strict=False)
        except ValueError:
            yield Error(f"TRUSTED_PROXIES names no address or network: {proxy[:64]!r}.", id="opensre.E009")
            continue
        if network.prefixlen == 0:
            message = "TRUSTED_PROXIES trusts everybody: anyone could name any address as its own."
            yield Error(message, id="opensre.E009")


def _database_faults() -> Iterator[CheckMessage]:
    if settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
        hint = "DATABASE_URL=postgres://user:password@host:5432/opensre"
        yield Error(
            "DATABASE_URL names no PostgreSQL database; SQLite is for local mode.", hint=hint, id="opensre.E006"
        )


def _bus_warnings() -> Iterator[CheckMessage]:
    if settings.EVENT_BUS == "process":
        message = "EVENT_BUS is process: processes find what others did by polling alone."
        yield Warning(message, hint="Leave it out: auto is the bus over PostgreSQL.", id="opensre.W007")


def _bus_faults() -> Iterator[CheckMessage]:
    bus = settings.EVENT_BUS
    if bus == "postgres" and settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
        yield Error("EVENT_BUS is postgres, and DATABASE_URL names no PostgreSQL database.", id="opensre.E011")
    if settings.BUS_DATABASE_URL.split(":", 1)[0] not in {"", "postgres", "postgresql"}:
        yield Error("BUS_DATABASE_URL must begin with postgres://.", id="opensre.E011")
    if bus == "redis" and settings.REDIS_URL.split(":", 1)[0] not in {"redis", "rediss", "unix"}:
        yield Error("EVENT_BUS is redis: REDIS_URL must begin with redis://, rediss:// or unix://.", id="opensre.E011")


def _credential_faults() -> Iterator[CheckMessage]:
    if "*" in settings.CREDENTIAL_ENV_ALLOW:
        message = "CREDENTIAL_ENV_ALLOW lets out every variable but the installation's own."
        yield Warning(message, hint="Name a prefix, for example OPENSRE_CRED_*.", id="opensre.W003")
    directory = settings.CREDENTIAL_FILES_DIR
    if directory and not Path(directory).is_dir():
        yield Warning("CREDENTIAL_FILES_DIR is no directory that this process can read.", id="opensre.W004")


#: Settings whose variable has another name.
_VARIABLES = {"SESSION_COOKIE_AGE": "SESSION_LIFETIME_SECONDS"}


@register()
def check_proxies(**_kwargs: Any) -> list[CheckMessage]:
    """Return an error for every entry of ``TRUSTED_PROXIES`` that is none, in every mode."""
    return list(_proxy_faults())


@register()
def check_bus(**_kwargs: Any) -> list[CheckMessage]:
    """Return an error for every setting of the bus with which it could never connect, in every mode."""
    return list(_bus_faults())


@register()
def check_numbers(**_kwargs: Any) -> list[CheckMessage]:
    """Return an error for every number with which the process would start and then not work."""
    lowest = {
        "WORKER_CONCURRENCY": 1,
        "WORKER_DRAIN_SECONDS": 0,
        "RUNS_MAX_GLOBAL": 0,
        "TASKS_CONCURRENCY": 1,
        "LEASE_SECONDS": 1,
        "SWEEP_SECONDS": 0.05,
        "STREAM_HEARTBEAT_SECONDS": 0.05,
        "STREAM_LIFETIME_SECONDS": 1,
        "STREAMS_MAX": 1,
        "STREAMS_MAX_PER_ORGANIZATION": 1,
        "SESSION_IDLE_SECONDS": 60,
        "SESSION_COOKIE_AGE": 60,
        "SIGN_IN_FAILURES": 2,
        "SIGN_IN_LOCK_SECONDS": 1,
    }
    return [
        Error(f"{_VARIABLES.get(name, name)} must be at least {least}.", id="opensre.E007")
        for name, least in lowest.items()
        if getattr(settings, name) < least
    ]
