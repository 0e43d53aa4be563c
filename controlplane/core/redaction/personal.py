"""Personal data of others in a text: e-mail addresses, phone numbers, payment card numbers.

Which of them go is policy; credentials always go, by the rules beside this file. A pure function of the text: linear in
its size, idempotent, and what it leaves in place of a finding is a marker as of a credential (``[redacted:email]``).

Sources: addresses after RFC 5321, section 4.1.2 (dot-string form); international numbers after ITU-T E.164 (at most 15
digits); the check digit of cards after ISO/IEC 7812-1, annex B (Luhn).
"""

import re
from collections.abc import Callable, Collection, Iterator
from enum import StrEnum
from typing import Final

from controlplane.core.redaction.findings import MARKER_PATTERN, Finding, apply_findings, merge_findings


class Personal(StrEnum):
    """A kind of personal data; the value is the rule's name and stands in the marker."""

    CARD = "payment-card"
    EMAIL = "email"
    PHONE = "phone"


#: All kinds, in the order in which an overlap is named.
PERSONAL_KINDS: Final = (Personal.CARD, Personal.EMAIL, Personal.PHONE)

_EMAIL: Final = re.compile(
    r"(?<![A-Za-z0-9.!#$%&'*+/=?^_`{|}~:@-])(?P<value>[A-Za-z0-9_+%'-]++(?:\.[A-Za-z0-9_+%'-]++){0,20}+@"
    r"(?P<domain>[A-Za-z0-9-]{1,63}+(?:\.[A-Za-z0-9-]{1,63}+){1,10}+))"
)
_TOP_LEVEL: Final = re.compile(r"\.(?:[A-Za-z]{2,24}|xn--[A-Za-z0-9-]{1,59})\Z")
_DIGITS_GROUPED: Final = re.compile(r"(?<![\w.+/:=@#-])\d{4}(?:[ -]?\d{2,6}){2,4}+(?![\w@]|[.:/-]\d)")
_INTERNATIONAL: Final = re.compile(r"(?<![\w.+/:=@#-])\+[1-9](?:[ ./()-]{0,3}\d){6,20}+(?!\w)")
_NATIONAL: Final = re.compile(
    r"(?i:\b(?:phone|telephone|tel|mobile|cell|call|ring|fax|sms|text|whatsapp|handy|telefon)\b)"
    r"(?:[ ]?(?:number|nr|no)\b)?(?:[ ](?:is|at|on|me|him|her|them|us|under)\b){0,2}[.:]?[ ]{0,2}"
    r"(?P<value>(?:\(0?\d{2,4}\)|0?\d{2,5})(?:[ ./-]{0,2}\d{2,5}){1,4}+)(?![\w]|[.:/]\d)"
)
_LEAST_PHONE_DIGITS: Final = 7
_MOST_PHONE_DIGITS: Final = 15
#: Issuers' ranges: the first digits, and how many digits a number has. Source: ISO/IEC 7812-1 and the issuers' own.
_CARD_RANGES: Final = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|(?:5[1-5]\d{2}|2(?:22[1-9]|2[3-9]\d|[3-6]\d{2}|7[01]\d|720))\d{12}|3[47]\d{13}"
    r"|3(?:0[0-5]|[68]\d)\d{11}|6(?:011|5\d{2}|4[4-9]\d)\d{12}|35(?:2[89]|[3-8]\d)\d{12}"
)


def find_personal(
    text: str, kinds: Collection[Personal] = PERSONAL_KINDS, *, own: Collection[str] = ()
) -> list[Finding]:
    """Return the personal data in ``text``, sorted by position, none overlapping another.

    Args:
        text: anything a person, a tool or a log says.
        kinds: which to look for.
        own: values that are the person's own and stay, such as the address they sign in with; compared without case.
    """
    kept = {value.casefold() for value in own}
    found = (
        Finding(kind.value, start, end)
        for kind in PERSONAL_KINDS
        if kind in kinds
        for start, end in _FINDERS[kind](text)
        if text[start:end].casefold() not in kept
    )
    markers = [match.span() for match in MARKER_PATTERN.finditer(text)]
    return merge_findings(item for item in found if not any(s < item.end and item.start < e for s, e in markers))


def redact_personal(text: str, kinds: Collection[Personal] = PERSONAL_KINDS, *, own: Collection[str] = ()) -> str:
    """Return ``text`` with the personal data of others replaced by markers; see :func:`find_personal`."""
    findings = find_personal(text, kinds, own=own)
    return apply_findings(text, findings) if findings else text


def luhn_valid(digits: str) -> bool:
    """Return whether the last of ``digits`` is the check digit of those before. Source: ISO/IEC 7812-1, annex B."""
    total = 0
    for place, char in enumerate(reversed(digits)):
        value = int(char) * (2 if place % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def _cards(text: str) -> Iterator[tuple[int, int]]:
    for match in _DIGITS_GROUPED.finditer(text):
        digits = re.sub(r"[ -]", "", match.group())
        varied = len(set(digits)) > 2  # 0000…, 4444…: filler
        if varied and _CARD_RANGES.fullmatch(digits) and luhn_valid(digits):
            yield match.span()


def _emails(text: str) -> Iterator[tuple[int, int]]:
    if "@" not in text:  # most texts: one look instead of an attempt at every word
        return
    for match in _EMAIL.finditer(text):
        domain = match["domain"].rstrip("-")
        scp = text[match.end() : match.end() + 1] in (":", "/")  # git@host:path and user@host/path name a machine
        if _TOP_LEVEL.search(domain) and not scp:
            yield match.start("value"), match.start("domain") + len(domain)


def _phones(text: str) -> Iterator[tuple[int, int]]:
    for match in _INTERNATIONAL.finditer(text):
        if _is_phone(match.group()):
            yield match.span()
    for match in _NATIONAL.finditer(text):
        if _is_phone(match["value"]):
            yield match.span("value")


def _is_phone(value: str) -> bool:
    digits = sum(char.isdigit() for char in value)
    return _LEAST_PHONE_DIGITS <= digits <= _MOST_PHONE_DIGITS and len(set(filter(str.isdigit, value))) > 1


_FINDERS: Final[dict[Personal, Callable[[str], Iterator[tuple[int, int]]]]] = {
    Personal.CARD: _cards,
    Personal.EMAIL: _emails,
    Personal.PHONE: _phones,
}
