"""What a team's configuration says of memory."""

from collections.abc import Mapping
from typing import Any

from controlplane.core.redaction import PERSONAL_KINDS, Personal


def personal_kinds(document: Mapping[str, Any]) -> frozenset[Personal]:
    """Return which personal data of others is replaced before anything is stored or sent to an extractor.

    Args:
        document: an effective configuration. ``memory.redact_personal`` names the kinds; an empty list means none.

    What is unset, ``null``, or nothing that a write accepts today is all kinds: a mistake never lets data through.
    """
    section = document.get("memory")
    named = section.get("redact_personal") if isinstance(section, Mapping) else None
    if not isinstance(named, list) or any(kind not in PERSONAL_KINDS for kind in named):
        return frozenset(PERSONAL_KINDS)
    return frozenset(Personal(kind) for kind in named)
