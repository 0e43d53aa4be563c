"""The one redaction boundary: every text and document passes here before it is appended, stored, logged or sent.

A value that is a credential is replaced by `[redacted:<rule>]`; everything else stays as it is. Redaction is
idempotent, linear in the size of the input, and the same whether a text comes whole or in chunks. Only rule names are
reported, never a value or a piece of one.
"""

from controlplane.core.redaction.documents import JsonValue, redact_json, redact_json_with_rules
from controlplane.core.redaction.findings import (
    Finding,
    SecretScanner,
    UnionScanner,
    apply_findings,
    marker,
    merge_findings,
)
from controlplane.core.redaction.personal import PERSONAL_KINDS, Personal, find_personal, redact_personal
from controlplane.core.redaction.stream import StreamRedactor
from controlplane.core.redaction.texts import default_scanner, redact_text, redact_text_with_rules

__all__ = [
    "PERSONAL_KINDS",
    "Finding",
    "JsonValue",
    "Personal",
    "SecretScanner",
    "StreamRedactor",
    "UnionScanner",
    "apply_findings",
    "default_scanner",
    "find_personal",
    "marker",
    "merge_findings",
    "redact_json",
    "redact_json_with_rules",
    "redact_personal",
    "redact_text",
    "redact_text_with_rules",
]
