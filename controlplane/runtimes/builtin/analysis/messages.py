"""What events and log lines report, told from their words. General wording of platforms, runtimes and drivers."""

import re
from dataclasses import dataclass
from typing import Final

from controlplane.runtimes.builtin.analysis.signs import SignKind


@dataclass(frozen=True, slots=True)
class Wording:
    """Ways to say that something of ``kind`` happened; ``pattern`` matches lower case."""

    kind: SignKind
    pattern: re.Pattern[str]


def _said(kind: SignKind, *phrases: str) -> Wording:
    return Wording(kind, re.compile("|".join(phrases)))


#: Events of a database platform, most telling first.
DATABASE_EVENTS: Final = (
    _said(
        SignKind.STORAGE_FULL,
        "out of storage",
        "storage[- ]full",
        "disk (?:is )?full",
        "no space left",
        r"storage (?:space )?is (?:\w+ )?low",
        "insufficient storage",
        "low storage",
        "free storage (?:space|capacity).{0,40}(?:low|remaining|exhaust)",
        r"(?:disk|storage|volume|filesystem)\b.{0,30}\b(?:9[5-9]|100) ?%",
    ),
    _said(
        SignKind.CONNECTIONS_FULL,
        "too many (?:connections|clients)",
        "remaining connection slots",
        "connections?.{0,60}(?:maximum|limit|exhaust)",
        "connections (?:may be |are |were )?refused",
        "(?:maximum|limit).{0,30}connections",
    ),
    _said(
        SignKind.FAILOVER,
        "fail ?over",
        "promot(?:ed|ion)",
        "host replacement",
        "recovery of the",
        "hardware",
        "crash recovery",
        "restarted",
        "rebooted",
        "shutdown",
        "unresponsive",
        "availability zone",
    ),
    _said(
        SignKind.REPLICA_LAG,
        "replica(?:tion)?.{0,40}(?:lag|behind|stopped|broken|error)",
        "replay is behind",
    ),
    _said(
        SignKind.WAL_RETAINED,
        "replication slot.{0,80}(?:inactive|retain|behind|lag)",
        "(?:retained|unconsumed) (?:wal|write-ahead log)",
    ),
    _said(SignKind.MEMORY_LOW, "out of memory", r"\boom\b", "low memory", "memory pressure", "insufficient memory"),
    _said(
        SignKind.CHANGED,
        "parameter group",
        "configuration change",
        "modif(?:y|ied|ication)",
        "upgraded",
        "patch(?:ed|ing)",
        "scal(?:ed|ing)",
        "deploy(?:ed|ment)",
        "rollout",
        "security group",
    ),
)

#: Log lines: why a program fails, most telling first. The last one matches anything.
PROGRAM_FAULTS: Final = (
    _said(
        SignKind.OOM_KILLED,
        "out of memory",
        "oom-?kill",
        "outofmemoryerror",
        "cannot allocate memory",
        "memory cgroup",
        "memoryerror",
        "java heap space",
    ),
    _said(
        SignKind.STORAGE_FULL,
        "no space left on device",
        "disk quota exceeded",
        "disk full",
        "could not extend file",
    ),
    _said(
        SignKind.CONNECTIONS_FULL,
        "too many (?:connections|clients|open files)",
        "connection pool (?:is )?(?:exhausted|timeout|full)",
        "remaining connection slots",
        "pool.{0,20}exhausted",
    ),
    _said(
        SignKind.DEPENDENCY,
        "connection (?:refused|reset|timed? ?out)",
        "econnrefused|econnreset|etimedout|enotfound|nxdomain",
        "no such host",
        "name or service not known",
        "temporary failure in name resolution",
        "dial tcp",
        "i/o timeout",
        "host is unreachable|no route to host",
        "upstream (?:connect|request|timed)",
        "50[234] (?:bad gateway|service unavailable|gateway)",
        "service unavailable",
        "(?:could not|cannot|failed to|unable to) connect",
        "tls handshake|certificate (?:has expired|verify failed)",
        "circuit ?breaker",
        "deadline exceeded",
    ),
    _said(
        SignKind.BAD_CONFIG,
        "missing (?:required )?(?:env|environment|config|setting|variable|key|secret)",
        "(?:environment variable|env var|setting|config(?:uration)?(?: key| value| file)?|secret|configmap).{0,60}"
        "(?:not set|missing|required|not found|invalid|undefined|unset)",
        "invalid (?:config|value for|argument|flag|option)",
        "unknown (?:flag|option|command)",
        "failed to (?:load|parse|read) config",
        "no such file or directory",
        "permission denied|access denied|unauthorized|forbidden",
        "authentication failed|password authentication",
        "address already in use",
        "executable file not found|exec format error",
    ),
    _said(
        SignKind.BAD_DATA,
        "schema (?:mismatch|validation)",
        "malformed|corrupt",
        "unexpected (?:null|end of (?:input|file|json))",
        "invalid (?:json|record|row|payload|date|utf-?8|byte sequence)",
        "deserializ|parse error",
        "violates .{0,30}constraint|null value in column|duplicate key",
        "checksum mismatch|bad record",
    ),
    _said(
        SignKind.CODE_FAULT,
        "traceback|exception|unhandled",
        "panic:",
        "nil pointer|null ?pointer",
        "segmentation fault|sigsegv",
        "(?:type|key|attribute|value|index)error",
        "undefined is not|cannot read propert",
        "stack ?overflow",
        "assertion (?:failed|error)",
        "index out of (?:range|bounds)|division by zero",
    ),
    _said(SignKind.LOG_ERRORS, "."),
)

#: The same without the last, for texts that need not tell of a fault at all.
NAMED_FAULTS: Final = tuple(wording for wording in PROGRAM_FAULTS if wording.kind is not SignKind.LOG_ERRORS)

# The name is only looked at, not taken, so that what turns out to be no name can introduce the next one.
_HOST: Final = re.compile(
    r"(?:host(?:name)?|upstream|server|to|at|tcp|connect(?:ing)?(?: to)?|lookup|resolve)[ =:\"']+"
    r"(?=(?:\w+://)?(?P<host>[a-z][a-z0-9-]*(?:[.-][a-z0-9-]+)*(?::\d+)?|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?))",
    re.IGNORECASE,
)
_NO_HOST: Final = frozenset(
    (
        "lookup", "request", "the", "a", "an", "be", "it", "host", "server", "database", "upstream", "is", "at", "to",
        "on", "in", "of", "for", "from", "by", "failed", "connect", "resolve", "connection", "timeout", "error",
        "localhost", "timed",
    )
)  # fmt: skip


def reported(message: str, wordings: tuple[Wording, ...]) -> SignKind | None:
    """Return what a message (lower case) reports, or ``None``."""
    found = rank(message, wordings)
    return wordings[found].kind if found is not None else None


def rank(message: str, wordings: tuple[Wording, ...]) -> int | None:
    """Return the place of the first wording that a message (lower case) has: the lower, the more telling."""
    return next((place for place, wording in enumerate(wordings) if wording.pattern.search(message)), None)


def dependency_in(message: str) -> str:
    """Return the host that a failed connection was for, or an empty text when the message does not say."""
    for match in _HOST.finditer(message):
        host = match["host"].rstrip(".")
        if host.lower() not in _NO_HOST and (len(host) > 3 or not host.isalpha()):
            return host
    return ""


_IMAGE_WORDS: Final = re.compile(r"image \"?'?(?P<image>[\w./:@-]+)", re.IGNORECASE)
_PULL_CAUSES: Final = (
    (
        "missing",
        re.compile(
            "not found|manifest unknown|does not exist|no such image|name unknown|invalid reference|invalidimagename"
        ),
    ),
    ("denied", re.compile("unauthorized|denied|authentication required|forbidden|no basic auth|credentials")),
    (
        "unreachable",
        re.compile("timeout|timed out|refused|no such host|unreachable|eof|too ?many ?requests|rate limit|50[0-9]"),
    ),
)


def image_in(message: str) -> str:
    """Return the image a message speaks of, or an empty text."""
    match = _IMAGE_WORDS.search(message)
    return match["image"].rstrip(".,:") if match else ""


def pull_cause(message: str) -> str:
    """Return why an image cannot be pulled: ``missing``, ``denied``, ``unreachable``, or empty if it is not said."""
    lowered = message.lower()
    return next((cause for cause, pattern in _PULL_CAUSES if pattern.search(lowered)), "")
