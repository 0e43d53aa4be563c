"""What events and log lines report, told from their words. General wording of platforms, runtimes and drivers."""

import re
from dataclasses import dataclass
from typing import Final

from controlplane.runtimes.builtin.analysis.signs import SignKind


@dataclass(frozen=True, slots=True)
class Wording:
    """A way to say something: ``kind`` is what is reported."""

    kind: SignKind
    pattern: re.Pattern[str]


def _wordings(*pairs: tuple[SignKind, str]) -> tuple[Wording, ...]:
    return tuple(Wording(kind, re.compile(pattern)) for kind, pattern in pairs)


#: Events of a database platform, most telling first; matched against lower case without names of objects.
DATABASE_EVENTS: Final = _wordings(
    (
        SignKind.STORAGE_FULL,
        r"out of storage|storage[- ]full|disk (?:is )?full|no space left|storage (?:space )?is (?:\w+ )?low|"
        r"insufficient storage|low storage|free storage (?:space|capacity).{0,40}(?:low|remaining|exhaust)",
    ),
    (
        SignKind.CONNECTIONS_FULL,
        r"too many (?:connections|clients)|remaining connection slots|connections?.{0,60}(?:maximum|limit|refused|exhaust)|"
        r"(?:maximum|limit).{0,30}connections",
    ),
    (
        SignKind.FAILOVER,
        r"failover|fail over|promot(?:ed|ion)|host replacement|recovery of the|hardware|crash recovery|"
        r"restarted|rebooted|shutdown|unresponsive|availability zone",
    ),
    (
        SignKind.REPLICA_LAG,
        r"replica(?:tion)?.{0,40}(?:lag|behind|stopped|broken|error)|replay is behind|replication slot",
    ),
    (SignKind.MEMORY_LOW, r"out of memory|\boom\b|low memory|memory pressure|insufficient memory"),
    (
        SignKind.CHANGED,
        r"parameter group|configuration change|modif(?:y|ied|ication)|upgraded|patch(?:ed|ing)|scal(?:ed|ing)|"
        r"deploy(?:ed|ment)|rollout|security group",
    ),
)

#: Log lines (and events of containers): why a program fails, most telling first; matched in lower case.
PROGRAM_FAULTS: Final = _wordings(
    (
        SignKind.OOM_KILLED,
        r"out of memory|oom-?kill|outofmemoryerror|cannot allocate memory|memory cgroup|memoryerror|"
        r"javascript heap out of memory|java heap space",
    ),
    (SignKind.STORAGE_FULL, r"no space left on device|disk quota exceeded|disk full|could not extend file"),
    (
        SignKind.CONNECTIONS_FULL,
        r"too many (?:connections|clients|open files)|connection pool (?:is )?(?:exhausted|timeout|full)|"
        r"remaining connection slots|pool.{0,20}exhausted",
    ),
    (
        SignKind.DEPENDENCY,
        r"connection (?:refused|reset|timed? ?out)|econnrefused|econnreset|etimedout|no such host|enotfound|nxdomain|"
        r"name or service not known|temporary failure in name resolution|dial tcp|i/o timeout|host is unreachable|"
        r"no route to host|upstream (?:connect|request|timed)|(?:502|503|504) (?:bad gateway|service unavailable|gateway)|"
        r"service unavailable|could not connect|cannot connect|failed to connect|unable to connect|"
        r"tls handshake|certificate (?:has expired|verify failed)|circuit ?breaker|deadline exceeded",
    ),
    (
        SignKind.BAD_CONFIG,
        r"missing (?:required )?(?:env|environment|config|setting|variable|key|secret)|"
        r"(?:environment variable|env var|setting|config(?:uration)?(?: key| value| file)?|secret|configmap).{0,60}"
        r"(?:not set|missing|required|not found|invalid|undefined|unset)|invalid (?:config|value for|argument|flag|option)|"
        r"unknown (?:flag|option|command)|failed to (?:load|parse|read) config|no such file or directory|"
        r"permission denied|access denied|authentication failed|password authentication|unauthorized|forbidden|"
        r"address already in use|executable file not found|exec format error",
    ),
    (
        SignKind.BAD_DATA,
        r"schema (?:mismatch|validation)|malformed|corrupt|unexpected (?:null|end of (?:input|file|json))|"
        r"invalid (?:json|record|row|payload|date|utf-?8|byte sequence)|deserializ|parse error|"
        r"violates .{0,30}constraint|null value in column|duplicate key|checksum mismatch|bad record",
    ),
    (
        SignKind.CODE_FAULT,
        r"traceback|exception|panic:|nil pointer|null pointer|nullpointer|segmentation fault|sigsegv|"
        r"typeerror|keyerror|attributeerror|valueerror|indexerror|undefined is not|cannot read propert|"
        r"stack ?overflow|assertion (?:failed|error)|unhandled|index out of (?:range|bounds)|division by zero",
    ),
    (SignKind.LOG_ERRORS, r"."),
)

_QUOTED_HOST: Final = re.compile(
    r"(?:host(?:name)?|upstream|server|to|at|tcp|connect(?:ing)?(?: to)?|lookup|resolve)[ =:\"']+"
    r"(?:\w+://)?(?P<host>[a-z][a-z0-9-]*(?:[.-][a-z0-9-]+)*(?::\d+)?|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?)",
    re.IGNORECASE,
)
_NO_HOST: Final = frozenset(
    "the a an be it host server database upstream is at to on in of for from by failed connect database. resolve "
    "connection timeout error localhost timed".split()
)


def reported(message: str, wordings: tuple[Wording, ...]) -> SignKind | None:
    """Return what a message (lower case) reports, or ``None``."""
    for wording in wordings:
        if wording.pattern.search(message):
            return wording.kind
    return None


def dependency_in(message: str) -> str:
    """Return the host that a failed connection was for, or an empty text when the message does not say."""
    for match in _QUOTED_HOST.finditer(message):
        host = match["host"].rstrip(".")
        if host.lower() not in _NO_HOST and (("." in host) or ("-" in host) or (":" in host) or len(host) > 3):
            return host
    return ""


_IMAGE_WORDS: Final = re.compile(r"image \"?'?(?P<image>[\w./:@-]+)", re.IGNORECASE)
_PULL_CAUSES: Final = (
    (
        "missing",
        r"not found|manifest unknown|does not exist|no such image|name unknown|invalid reference|invalidimagename",
    ),
    ("denied", r"unauthorized|denied|authentication required|forbidden|no basic auth|credentials"),
    ("unreachable", r"timeout|timed out|refused|no such host|unreachable|eof|too ?many ?requests|rate limit|50[0-9]"),
)


def image_in(message: str) -> str:
    """Return the image a message speaks of, or an empty text."""
    match = _IMAGE_WORDS.search(message)
    return match["image"].rstrip(".,:") if match else ""


def pull_cause(message: str) -> str:
    """Return why an image cannot be pulled: ``missing``, ``denied``, ``unreachable``, or empty if it is not said."""
    lowered = message.lower()
    return next((cause for cause, pattern in _PULL_CAUSES if re.search(pattern, lowered)), "")
