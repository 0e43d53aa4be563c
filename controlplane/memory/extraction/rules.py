"""Extraction without a model: plain statements of the person, taken word for word.

A statement is one sentence that the person wrote, so that its identifiers, numbers and negation are those of its
quote. Questions, guesses, requests, quoted lines and code are no statements; nor is what was recalled from memory in
the same run and said again.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from controlplane.core.redaction.findings import MARKER_PATTERN
from controlplane.memory.drafts import MemoryDraft, Quote
from controlplane.memory.extraction.candidates import MOST_CANDIDATES, Candidate
from controlplane.memory.transcripts import Said, Transcript

_MAX_STATEMENT: Final = 500
_LEAST_WORDS: Final = 3
_CODE: Final = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE: Final = re.compile(r"[^.!?\n]+(?:[.!?](?![\s)\"'”]|\Z)[^.!?\n]*)*[.!?]*")
_QUESTION: Final = re.compile(
    r"(?:who|what|when|where|why|which|whose|how|is|are|was|were|do|does|did|can|could|would|should|shall|will|has|have"
    r"|had|may|might|am|isn't|aren't|doesn't|don't you|didn't)\b",
    re.IGNORECASE,
)
_UNSURE: Final = re.compile(
    r"\b(?:maybe|perhaps|probably|possibly|might|could|i think|i guess|i believe|i suppose|i assume|seems?|apparently"
    r"|likely|not sure|if|unless|suppose|assuming|would|wonder|whether|hypothetically|for example|e\.g\.|forget)\b",
    re.IGNORECASE,
)
_PASSING: Final = re.compile(
    r"\b(?:now|currently|today|tonight|yesterday|tomorrow|at the moment|ago|just|since|again|still|down|slow|failing|"
    r"failed|broken|unhealthy|crashing|crashed|stuck)\b",
    re.IGNORECASE,
)
_REMEMBER: Final = re.compile(
    r"(?:please[ ,]+)?(?:remember|note|keep in mind|don't forget)(?![ ]to\b)"
    r"(?:[ ](?:this|that|for (?:next time|later)))?[ ]?[:,]?[ ]+",
    re.IGNORECASE,
)
_IDENTIFIER: Final = re.compile(r"\b(?=\w*\d)\w+\b|\b\w+(?:[-_/.=]\w+)+\b|\b[A-Z]{2,}\b")

_PREFERENCE: Final = re.compile(
    r"\bi(?:'d)?[ ](?:always[ ]|generally[ ]|strongly[ ])?(?:prefer|would rather)[ ](?P<what>.+)"
    r"|^(?:please[ ,]+)?(?:always|never|from now on,?|by default,?)[ ](?P<rule>.+)"
    r"|\bmy preferred[ ](?P<thing>[\w -]{2,60}?)[ ]is\b",
    re.IGNORECASE,
)
_TOPICS: Final = (
    ("time zone", re.compile(r"\b(?:utc|gmt|time ?zone|local time|timestamps?|times)\b", re.IGNORECASE)),
    ("answer length", re.compile(r"\b(?:short|brief|concise|long|detailed|verbose)\b", re.IGNORECASE)),
    ("language", re.compile(r"\b(?:in (?:english|german|french|spanish|italian|dutch|portuguese))\b", re.IGNORECASE)),
)
_PROFILE: Final = (
    ("name", re.compile(r"^my name is\b|^call me\b", re.IGNORECASE)),
    ("team", re.compile(r"^(?:i'm|i am) (?:on|in|part of) the [\w -]+ team\b|^my team is\b", re.IGNORECASE)),
    ("role", re.compile(r"^(?:i'm|i am) (?:an?|the) [\w -]*(?:engineer|lead|manager|architect|developer|sre|admin"
                        r"|administrator|dba|operator|director|analyst)\b|^my role is\b", re.IGNORECASE)),
    ("time zone", re.compile(r"^my time ?zone is\b", re.IGNORECASE)),
    ("location", re.compile(r"^(?:i'm|i am) based in\b|^i live in\b", re.IGNORECASE)),
    ("work", re.compile(r"^i (?:work (?:on|in|at|for|with)|own|maintain|look after)\b"
                        r"|^(?:i'm|i am) responsible for\b", re.IGNORECASE)),
)  # fmt: skip
_LESSON: Final = re.compile(
    r"\b(?:the root cause (?:was|is)|(?:it )?turned out (?:that|to be)|the fix (?:was|is)"
    r"|was (?:fixed|solved|resolved) by|fixed (?:it|this)|lesson(?: learned)?:|next time)\b",
    re.IGNORECASE,
)
_FACT: Final = re.compile(
    r"^(?:(?:the|our|all)[ ])?(?P<subject>[\w./-]+(?:[ ][\w./-]+){0,4}?)[ ](?P<relation>"
    r"(?:(?:does not|doesn't|do not|don't|never)[ ])?(?:runs?|depends?|relies|rely|listens?|connects?|talks?|writes?"
    r"|reads?|lives?|scales?|deploys?|authenticates?|sends?)[ ](?:on|in|to|from|at|behind|with|via)"
    r"|(?:(?:does not|doesn't|do not|don't)[ ])?(?:uses?|calls?|requires?|owns?)"
    r"|(?:is|are)(?:[ ]not|n't)?[ ](?:hosted|deployed|owned|backed|managed|replicated|sharded|exposed|scheduled|located"
    r"|limited|configured|served|stored|monitored|written|fronted|sized|pinned)"
    r"(?:[ ](?:on|in|by|to|from|at|behind|with|via|as))?"
    r"|(?:has|have)[ ](?=\d))\b",
    re.IGNORECASE,
)
_NO_SUBJECT: Final = frozenset(
    ("i", "we", "you", "it", "this", "that", "they", "he", "she", "there", "what", "which", "who", "please", "let")
)


class _Kind(NamedTuple):
    """What a sentence states: the memory's type, subject and attribute."""

    type: str
    subject: str
    attribute: str


def extract_by_rules(transcript: Transcript, known: Sequence[str]) -> list[Candidate]:
    """Return what the person stated: preferences, profile, facts of infrastructure, lessons; at most five.

    See :class:`controlplane.memory.extraction.candidates.Extractor`.
    """
    seen = {_folded(statement) for statement in known}
    recalled = [_folded(said.text) for said in transcript.said if said.speaker == "recalled"]
    found: list[Candidate] = []
    for said in transcript.said:
        if said.speaker != "user" or said.author != transcript.person:
            continue
        for sentence in _sentences(said.text):
            candidate = _candidate(transcript, said, sentence)
            if candidate is None:
                continue
            folded = _folded(candidate.draft.statement)
            if folded in seen or any(folded in text for text in recalled):
                continue
            seen.add(folded)
            found.append(candidate)
    found.sort(key=lambda item: not item.explicit)  # what was asked for comes first
    return found[:MOST_CANDIDATES]


def _candidate(transcript: Transcript, said: Said, sentence: str) -> Candidate | None:
    asked = _REMEMBER.match(sentence)
    statement = sentence[asked.end() :] if asked else sentence
    if not _is_statement(statement):
        return None
    kind = _kind(statement) or (_Kind("user", "me", _head(statement)) if asked else None)
    if kind is None:
        return None
    draft = MemoryDraft(kind.type, kind.subject[:200], kind.attribute[:100], statement)
    quote = Quote("user", statement, transcript.run_id, transcript.thread_id, (said.seq,), said.author, said.at)
    return Candidate(draft, (quote,), explicit=asked is not None)


def _sentences(text: str) -> Iterator[str]:
    for line in _CODE.sub("\n", text).splitlines():
        if line.lstrip().startswith((">", "|", "$", "#")):
            continue  # quoted, tabular or a command: not the person's own words
        for match in _SENTENCE.finditer(line):
            yield match.group().strip(" \t-*•")


def _is_statement(sentence: str) -> bool:
    return (
        len(sentence.split()) >= _LEAST_WORDS
        and len(sentence) <= _MAX_STATEMENT
        and "?" not in sentence
        and _QUESTION.match(sentence) is None
        and _UNSURE.search(sentence) is None
        and MARKER_PATTERN.search(sentence) is None  # what lost a value says nothing worth keeping
    )


def _kind(sentence: str) -> _Kind | None:
    if match := _PREFERENCE.search(sentence):
        return _Kind("preference", "me", _topic(sentence, match["what"] or match["rule"] or match["thing"]))
    for attribute, pattern in _PROFILE:
        if pattern.search(sentence):
            return _Kind("user", "me", attribute)
    if _LESSON.search(sentence):
        identifier = _IDENTIFIER.search(sentence)
        return _Kind("investigation_learning", identifier.group() if identifier else "incidents", _head(sentence))
    if (match := _FACT.search(sentence)) and _PASSING.search(sentence) is None:
        subject = match["subject"]
        names_something = _IDENTIFIER.search(sentence) or sentence.lower().startswith("our ")
        if names_something and subject.split()[0].lower() not in _NO_SUBJECT:
            return _Kind("infrastructure", subject, _positive(match["relation"]))
    return None


def _topic(sentence: str, words: str) -> str:
    return next((topic for topic, pattern in _TOPICS if pattern.search(sentence)), _head(words))


def _positive(relation: str) -> str:
    """The relation without negation and person: a fact and its denial are about the same attribute."""
    words = re.sub(r"\b(?:does not|doesn't|do not|don't|never|not)\b|n't\b", "", relation.lower()).split()
    verb = words[0]
    if verb not in ("is", "has"):
        words[0] = "rely" if verb == "relies" else verb.removesuffix("s")
    return " ".join(words)


def _head(words: str) -> str:
    return " ".join(word.strip(".,;:!").lower() for word in words.split()[:6])


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(".!")
