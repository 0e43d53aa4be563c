"""The release this code is, as ``pyproject.toml`` says; a test compares the two."""

from typing import Final

VERSION: Final = "0.1.0"
