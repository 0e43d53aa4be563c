"""Secrets of a local installation: made once, kept in the data directory, readable by its owner only."""

import json
import os
import secrets
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured

_NAMES = ("SECRET_KEY", "TOKEN_PEPPER", "AUDIT_KEY")


class LocalSecrets:
    """Random secrets in ``<data_dir>/secrets.json`` (mode 0600), each made at first use.

    When not ``enabled`` (production) every secret is ``""``: the deploy check names the missing variable.
    """

    def __init__(self, data_dir: Path, *, enabled: bool) -> None:
        self._path = data_dir / "secrets.json"
        self._enabled = enabled

    def get(self, name: str) -> str:
        """Return the secret called ``name``, the same at every start."""
        if not self._enabled:
            return ""
        return self._load()[name]

    def _load(self) -> dict[str, str]:
        if not self._path.exists():
            self._create()
        try:
            values: dict[str, str] = json.loads(self._path.read_text())
            return {name: values[name] for name in _NAMES}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            raise ImproperlyConfigured(f"{self._path} cannot be read as the secrets of this installation.") from None

    def _create(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        values = {name: secrets.token_urlsafe(48) for name in _NAMES}
        draft = self._path.with_suffix(f".{os.getpid()}.draft")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(values, file)
        try:
            os.link(draft, self._path)  # atomic: of two processes starting at once the first one's secrets stay
        except FileExistsError:
            pass
        finally:
            draft.unlink()
