"""Rules for short texts that people type: names, labels; and names as parts of a JSON Pointer."""

import unicodedata
from typing import Final

from controlplane.core.errors import invalid
from controlplane.core.redaction import redact_text


def single_line(value: str, *, pointer: str, max_length: int = 200) -> str:
    """Return ``value`` without surrounding space, as one printable line of 1 to ``max_length`` characters.

    Raises:
        InvalidInput: ``blank``, ``too_long`` or ``control_character``, pointing at ``pointer``.
    """
    text = value.strip()
    if not text:
        raise invalid(pointer, "blank", "This must not be blank.")
    if len(text) > max_length:
        raise invalid(pointer, "too_long", f"This has {len(text)} characters; at most {max_length} are accepted.")
    if any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in text):
        raise invalid(pointer, "control_character", "This must be one line without control characters.")
    return text


def name_line(value: str, *, pointer: str, max_length: int = 200) -> str:
    """Return a name: a :func:`single_line` that is no credential, since names are shown and kept everywhere.

    Raises:
        InvalidInput: those of :func:`single_line`, or ``looks_like_a_secret``.
    """
    text = single_line(value, pointer=pointer, max_length=max_length)
    if redact_text(text) != text:
        raise invalid(pointer, "looks_like_a_secret", "This looks like a credential; give it a name instead.")
    return text


def pointer_token(name: str) -> str:
    """Return a name as one reference token of a JSON Pointer. Source: RFC 6901, section 3."""
    return name.replace("~", "~0").replace("/", "~1")


def shown_token(name: object) -> str:
    """Return a name that anybody may have chosen as a reference token fit to be shown: redacted, on one line, cut."""
    shown = redact_text(str(name)[:200])[:80]
    return pointer_token("".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in shown))


#: Characters that show nothing and change how the text around them is shown: controls but for line break and tab, and
#: overrides of writing direction. Source: Unicode Standard Annex 9, section 2; Unicode Technical Report 36.
_UNSEEN: Final = dict.fromkeys(
    [
        *(code for code in range(0x20) if code not in (0x09, 0x0A)), 0x7F, *range(0x80, 0xA0),
        *range(0x202A, 0x202F), *range(0x2066, 0x206A), 0x200E, 0x200F, 0x061C,
    ],
    "\ufffd",
)  # fmt: skip


def visible(value: str) -> str:
    """Return a text of unknown origin with what would reorder or hide it on a screen replaced by U+FFFD."""
    return value.translate(_UNSEEN)
