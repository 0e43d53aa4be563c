"""What ``manage.py check --deploy`` says of an unsafe production start, naming the variable to set.

In local mode the same command says that it is local mode: nothing below applies there.
"""

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
    return [*_secret_faults(), *_host_faults(), *_database_faults(), *_credential_faults()]


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


def _database_faults() -> Iterator[CheckMessage]:
    if settings.DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
        hint = "DATABASE_URL=postgres://user:password@host:5432/opensre"
        yield Error(
            "DATABASE_URL names no PostgreSQL database; SQLite is for local mode.", hint=hint, id="opensre.E006"
        )


def _credential_faults() -> Iterator[CheckMessage]:
    if "*" in settings.CREDENTIAL_ENV_ALLOW:
        message = "CREDENTIAL_ENV_ALLOW lets out every variable but the installation's own."
        yield Warning(message, hint="Name a prefix, for example OPENSRE_CRED_*.", id="opensre.W003")
    directory = settings.CREDENTIAL_FILES_DIR
    if directory and not Path(directory).is_dir():
        yield Warning("CREDENTIAL_FILES_DIR is no directory that this process can read.", id="opensre.W004")


@register()
def check_numbers(**_kwargs: Any) -> list[CheckMessage]:
    """Return an error for every number with which the process would start and then not work."""
    lowest = {
        "WORKER_CONCURRENCY": 1,
        "LEASE_SECONDS": 1,
        "SWEEP_SECONDS": 0.05,
        "STREAM_HEARTBEAT_SECONDS": 0.05,
        "STREAM_LIFETIME_SECONDS": 1,
    }
    return [
        Error(f"{name} must be at least {least}.", id="opensre.E007")
        for name, least in lowest.items()
        if getattr(settings, name) < least
    ]
