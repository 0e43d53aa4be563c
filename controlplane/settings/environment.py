"""Typed reading of environment variables: a value is taken as it stands, and a wrong one is named, never shown.

``django-environ`` reads the ``.env`` file and database URLs. Its own casts are not used: they take a value that begins
with ``$`` for the name of another variable, ``maybe`` for false and ``1,5x`` for 1.5.
"""

import json
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias, TypeVar

import environ
from django.core.exceptions import ImproperlyConfigured

T = TypeVar("T")
# The reader's methods are called after the types they return and hide them inside the class.
Text: TypeAlias = str
Flag: TypeAlias = bool
Whole: TypeAlias = int
Real: TypeAlias = float
Items: TypeAlias = list[str]

_TRUE = frozenset({"1", "true", "yes", "on"})
_FALSE = frozenset({"0", "false", "no", "off"})
_ENV_LINE = re.compile(r"\A(?:export )?[A-Za-z_0-9]+=")


class Environment:
    """Reads variables of one environment, by default the process's. An empty variable counts as not set.

    Every method raises ``ImproperlyConfigured`` with the variable's name and the form it must have.
    """

    def __init__(self, variables: Mapping[Text, Text] | None = None) -> None:
        self._variables = os.environ if variables is None else variables
        #: Every name asked for so far: what configures the process is not to be had as a credential.
        self.names: set[Text] = set()

    def str(self, name: Text, *, default: Text) -> Text:
        """Return the text as it stands: a ``$`` is a ``$``."""
        return self._get(name) or default

    def choice(self, name: Text, choices: Sequence[Text], *, default: Text) -> Text:
        """Return the text, which must be one of ``choices``."""
        return self._read(name, lambda value: choices[choices.index(value)], f"one of: {', '.join(choices)}", default)

    def bool(self, name: Text, *, default: Flag) -> Flag:
        """Return true for ``1 true yes on``, false for ``0 false no off``, in any case."""
        return self._read(name, _flag, "true or false", default)

    def int(self, name: Text, *, default: Whole) -> Whole:
        """Return a whole number."""
        return self._read(name, int, "a whole number", default)

    def float(self, name: Text, *, default: Real) -> Real:
        """Return a finite number, written with a decimal point."""
        return self._read(name, _finite, "a number", default)

    def list(self, name: Text, *, default: Items) -> Items:
        """Return the items between commas, without the blanks around them."""
        return self._read(name, _items, "items separated by commas", default)

    def pairs(self, name: Text) -> dict[Text, Text]:
        """Return the items of ``key=value,key=value``; none when unset."""
        nothing: dict[Text, Text] = {}
        return self._read(name, _pairs, "items of the form key=value separated by commas", nothing)

    def numbered_keys(self, name: Text, *, default: Text) -> dict[Whole, Text]:
        """Return the keys of a JSON object such as ``{"1": "…", "2": "…"}``; when unset, ``default`` is number 1."""
        return self._read(name, _numbered_keys, 'a JSON object of numbered keys, such as {"1": "…"}', {1: default})

    def _read(self, name: Text, parse: Callable[[Text], T], form: Text, default: T) -> T:
        value = self._get(name)
        if not value:
            return default
        try:
            return parse(value)
        except ValueError:
            raise ImproperlyConfigured(f"{name} must be {form}.") from None

    def _get(self, name: Text) -> Text | None:
        self.names.add(name)
        return self._variables.get(name)


def load_env_file(path: Path) -> None:
    """Add the variables of a ``.env`` file to the environment, if there is one; what is already set wins.

    Raises:
        ImproperlyConfigured: naming the line that is neither ``NAME=value`` nor a comment.
    """
    if not path.is_file():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if line and not line.startswith("#") and not _ENV_LINE.match(line):
            raise ImproperlyConfigured(f"Line {number} of {path.name} is neither NAME=value nor a comment.")
    environ.Env.read_env(str(path))


def require_directory(name: str, path: Path) -> None:
    """Make the directory ``path``, with those above it, unless it exists.

    Raises:
        ImproperlyConfigured: naming the variable ``name`` that says where it is to be.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)  # incidents, sessions and keys are nobody else's
    except OSError as error:
        raise ImproperlyConfigured(f"{name}: {path} cannot be made ({error.strerror}).") from None


def _flag(value: str) -> bool:
    word = value.strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError("neither true nor false")
    return word in _TRUE


def _finite(value: str) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def _items(value: str) -> list[str]:
    return [item.strip() for item in value.split(",") if item.strip()]


def _pairs(value: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for item in _items(value):
        key, separator, amount = (part.strip() for part in item.partition("="))
        if not (key and separator and amount) or key in found:
            raise ValueError("not key=value, or a key given twice")
        found[key] = amount
    return found


def _numbered_keys(value: str) -> dict[int, str]:
    keys = json.loads(value)
    if not isinstance(keys, dict) or not keys or not all(isinstance(key, str) for key in keys.values()):
        raise ValueError("not an object of strings")
    return {int(number): key for number, key in keys.items()}
