"""Texts as what an index knows of them: stems and names, and passages below their headings."""

import re
from collections.abc import Iterator
from typing import Final

import Stemmer

#: Goes into an index's provenance: an index made by other rules is made anew.
TOKENIZER: Final = "stems/1"

#: A word, or words that stand together as one name: ``kube-state-metrics``, ``a.b_c``, ``job=api``.
_NAME: Final = re.compile(r"[^\W_]+(?:[-_./=:][^\W_]+)*")
#: The words of a name: ``KubePodCrashLooping`` is four, ``etcd3`` two, ``HTTPError`` two. Other alphabets than Latin's
#: have no such names, or none that a pattern tells apart.
_PART: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_PART_ELSEWHERE: Final = re.compile(r"[^\W\d_]+|\d+")
_HEADING: Final = re.compile(r"#{1,6}\s")
_STOP: Final = frozenset(
    word
    for line in (
        "a an and are as at be been but by can could do does for from had has have how i if in into is it its may more",
        "most no not of on one or our out over should so some such than that the their them then there these they this",
        "those to too up was we were what when where which while who why will with would you your",
    )
    for word in line.split()
)
#: What one text may add to an index; the rest of a longer one is not found by its words.
MAX_TERMS: Final = 20_000
MAX_PASSAGE_CHARS: Final = 4_000


def terms_of(text: str) -> list[str]:
    """Return the terms of ``text`` in order, at most :data:`MAX_TERMS`.

    Each word gives its English stem, each name of several words itself in lower case besides, so that an exact name
    counts for more than its words. Words that stand in every text give nothing.

    Source: Porter, Snowball's English stemmer (https://snowballstem.org/algorithms/english/stemmer.html).
    """
    found: list[str] = []
    for name in _NAME.finditer(text):
        if len(found) >= MAX_TERMS:
            break
        parts = _parts(name[0])
        if len(parts) > 1:
            found.append(name[0].casefold())
        found += [part.casefold() for part in parts if part.casefold() not in _STOP]
    # a stemmer keeps state while it works, and threads share this module
    stems: list[str] = Stemmer.Stemmer("english").stemWords(found[:MAX_TERMS])
    return stems


def spoken(name: str) -> str:
    """Return a name as its words: ``KubePodCrashLooping`` is ``Kube Pod Crash Looping``."""
    return " ".join(_parts(name))


def passages_of(title: str, text: str) -> Iterator[str]:
    """Yield a text in passages, one for each heading of its markdown, the title before each.

    An embedder finds whole documents less well than their passages, and passages without their title less well too.
    """
    said = spoken(title)
    passage: list[str] = []
    for line in text.splitlines():
        if _HEADING.match(line) and any(part.strip() for part in passage):
            yield _passage(said, passage)
            passage = []
        passage.append(line)
    if any(part.strip() for part in passage):
        yield _passage(said, passage)
    elif said:
        yield said


def _parts(name: str) -> list[str]:
    return (_PART if name.isascii() else _PART_ELSEWHERE).findall(name)


def _passage(title: str, lines: list[str]) -> str:
    return f"{title}. {chr(10).join(lines)}"[:MAX_PASSAGE_CHARS]
