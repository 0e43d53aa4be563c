"""The database setting: SQLite (WAL) when embedded, PostgreSQL when ``DATABASE_URL`` names one."""

import os
from pathlib import Path
from typing import Any

import environ
from django.core.exceptions import ImproperlyConfigured

#: Pragmas of every SQLite connection. WAL lets readers go on while one writer commits; NORMAL is durable against a
#: killed process (not against a power cut of the last commits). Source: https://www.sqlite.org/pragma.html
SQLITE_PRAGMAS = "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA foreign_keys=ON; PRAGMA temp_store=MEMORY;"
SQLITE_BUSY_SECONDS = 15


def sqlite_settings(path: str | Path) -> dict[str, Any]:
    """Return the setting of an SQLite file whose writers take the write lock at BEGIN, so that none fails half-way."""
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": str(path),
        "OPTIONS": {
            "timeout": SQLITE_BUSY_SECONDS,
            "transaction_mode": "IMMEDIATE",
            "init_command": SQLITE_PRAGMAS,
        },
    }


def postgres_settings(url: str) -> dict[str, Any]:
    """Return the setting of a ``postgres://user:password@host:port/name`` URL, with a pool of connections."""
    try:
        settings: dict[str, Any] = dict(environ.Env.db_url_config(url))
    except ValueError:
        raise ImproperlyConfigured("DATABASE_URL must have the form postgres://user:password@host:port/name.") from None
    options = dict(settings.get("OPTIONS") or {})
    options.setdefault("pool", {"min_size": 1, "max_size": 20, "timeout": 10})
    options.setdefault("connect_timeout", 5)
    settings["OPTIONS"] = options
    settings["CONN_MAX_AGE"] = 0
    return settings


def database_settings(url: str, data_dir: Path) -> dict[str, Any]:
    """Return Django's database setting for ``url``; an empty one means the embedded SQLite file in ``data_dir``.

    Raises:
        ImproperlyConfigured: for any other engine or form; it names the variable and never shows the URL.
    """
    if not url:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = data_dir / "opensre.sqlite3"
        if os.access(data_dir, os.W_OK):
            # Readable by its owner alone from the start; SQLite gives its journal files the same rights.
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        return sqlite_settings(path)
    scheme = url.split(":", 1)[0]
    if scheme in {"postgres", "postgresql"}:
        return postgres_settings(url)
    if scheme == "sqlite":
        return sqlite_settings(url.removeprefix("sqlite:///"))
    raise ImproperlyConfigured("DATABASE_URL must begin with postgres:// or sqlite:///.")
