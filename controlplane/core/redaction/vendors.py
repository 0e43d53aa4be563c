"""Credentials known by their shape: the prefixes and layouts that vendors give the keys they issue.

Each rule has literals (lower case) of which one must stand in the line before its pattern is tried. Quantifiers are
bounded or possessive and every pattern starts at a literal or a boundary, so that matching is linear. A token is taken
to its very end (open upper bounds), since what is left over of a longer one would be a piece of it.
Sources: the vendors' own pages on token formats (GitHub "Behind GitHub's new authentication token formats", AWS IAM
"Unique identifiers", Slack "Token types", Stripe "API keys", GitLab "Token overview", HashiCorp Vault "Tokens").
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from controlplane.core.redaction.findings import Finding
from controlplane.core.redaction.values import is_benign, is_mixed, is_reference, looks_random


@dataclass(frozen=True, slots=True)
class Rule:
    """A detection rule: `find(line, line in lower case)` yields findings, called where one of `literals` stands."""

    literals: tuple[str, ...]
    find: Callable[[str, str], Iterator[Finding]]


def shaped(name: str, literals: str, pattern: str, accept: Callable[[str], bool] | None = None) -> Rule:
    """A rule from a pattern. The value is the group `v`, or the whole match where the pattern has none."""
    compiled = re.compile(pattern, re.VERBOSE)
    group: int | str = "v" if "v" in compiled.groupindex else 0

    def find(line: str, _lower: str) -> Iterator[Finding]:
        for match in compiled.finditer(line):
            if accept is None or accept(match[group]):
                yield Finding(name, match.start(group), match.end(group))

    return Rule(tuple(literals.split()), find)


# A token does not start inside a word; an escaped line break, a percent-encoded character, a terminal colour are none.
_B = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt])|(?<=%[0-9A-F]{2})|(?<=\[\dm)|(?<=\[\d\dm))"


def _has_digit(value: str) -> bool:
    return any(char.isdigit() for char in value)


VENDOR_RULES: tuple[Rule, ...] = (
    shaped("opensre-token", "osre_", _B + r"osre_(?:team|admin|user|view)_[A-Za-z0-9_\-]{12,}+"),
    shaped("aws-access-key", "akia asia", _B + r"A(?:KI|SI)A[A-Z2-7]{12,}+(?![a-z])"),
    shaped(
        "aws-secret-key",
        "akia asia",
        r"""A(?:KI|SI)A[A-Z2-7]{12,28}(?:\\?["'])?[\s,:;|/]{1,8}(?:\\?["'])?(?P<v>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])""",
    ),
    shaped("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", _B + r"gh[pousr]_[A-Za-z0-9_.\-]{16,}+"),
    shaped("github-token", "github_pat_", _B + r"github_pat_[A-Za-z0-9_]{16,}+"),
    shaped("gitlab-token", "glpat- gldt- glrt- glptt- glcbt-", _B + r"gl(?:pat|dt|rt|ptt|cbt)-[A-Za-z0-9_.\-]{16,}+"),
    shaped(
        "slack-webhook",
        "hooks.slack",
        r"(?:https?:(?:\\?/){2})?hooks\.slack(?:-gov)?\.com(?:\\?/[A-Za-z0-9_\-]{3,}+){2,6}",
    ),
    shaped("slack-token", "xox xapp-", _B + r"(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9\-]{10,}+", _has_digit),
    shaped(
        "chat-webhook",
        "webhook",
        r"""(?:https?:(?:\\?/){2})?(?:[A-Za-z0-9.\-]{1,80}\.)?
            (?:webhook\.office(?:365)?\.com|outlook\.office(?:365)?\.com|discord(?:app)?\.com)
            (?:\\?/(?:api|v\d{1,2}))*(?:\\?/)(?:webhookb2|webhook|webhooks)(?:\\?/[A-Za-z0-9@_\-]{8,}+)[A-Za-z0-9@_\-/\\]*+""",
    ),
    shaped("grafana-token", "glsa_ glc_", _B + r"gl(?:sa|c)_[A-Za-z0-9+/=_]{20,}+"),
    shaped("newrelic-key", "nrak- nrii- nral-", _B + r"NR(?:AK|II|AL)-[A-Za-z0-9_\-]{16,}+"),
    shaped("newrelic-key", "nral", r"(?<![A-Za-z0-9])[0-9a-f]{36}(?:FFFF)?NRAL(?![A-Za-z0-9])"),
    shaped("stripe-key", "_live_ _test_", _B + r"(?:sk|rk|whsec)_(?:live|test)_[A-Za-z0-9]{10,}+"),
    shaped("stripe-key", "whsec_", _B + r"whsec_[A-Za-z0-9+/=]{20,}+"),
    shaped("anthropic-key", "sk-ant-", _B + r"sk-ant-[A-Za-z0-9_\-]{16,}+"),
    shaped(
        "openai-key",
        "sk-",
        r"(?:(?<![A-Za-z0-9_\-])|(?<=\\[nrt])|(?<=%[0-9A-F]{2}))sk-(?!ant-)(?:[a-z]{2,10}-)?[A-Za-z0-9_\-]{20,}+",
        _has_digit,
    ),
    shaped("huggingface-token", "hf_", _B + r"hf_[A-Za-z]{30,}+[A-Za-z0-9]*+"),
    shaped("npm-token", "npm_", _B + r"npm_[A-Za-z0-9]{30,}+"),
    shaped("pypi-token", "pypi-", _B + r"pypi-[A-Za-z0-9_\-]{50,}+"),
    shaped("terraform-token", "atlasv1", _B + r"[A-Za-z0-9]{10,20}\.atlasv1\.[A-Za-z0-9_=\-]{40,}+"),
    shaped("vault-token", "hvs. hvb. hvr.", _B + r"hv[sbr]\.[A-Za-z0-9_\-]{16,}+"),
    shaped("google-api-key", "aiza", _B + r"AIza[A-Za-z0-9_\-]{30,}+"),
    shaped("google-oauth", "ya29. gocspx-", _B + r"(?:ya29\.|GOCSPX-)[A-Za-z0-9_.\-]{16,}+"),
    shaped(
        "azure-client-secret",
        "q~",
        r"(?:(?<![A-Za-z0-9_~.\-])|(?<=%[0-9A-F]{2})|(?<=\\[nrt]))[A-Za-z0-9_~.\-]{3}[0-9]Q~[A-Za-z0-9_~.\-]{31,34}(?![A-Za-z0-9_~\-])",
    ),
    shaped("azure-sas", "sig=", r"[?&;](?:amp;)?sig=(?P<v>[A-Za-z0-9%+/=_\-]{16,}+)"),
    shaped(
        "url-signature", "signature=", r"[?&](?:amp;)?(?:X-(?:Amz|Goog)-)?Signature=(?P<v>[A-Za-z0-9%+/=_~\-]{16,}+)"
    ),
    shaped("digitalocean-token", "dop_v1_", _B + r"do[opr]_v1_[a-f0-9]{32,}+"),
    shaped("sendgrid-key", "sg.", _B + r"SG\.[A-Za-z0-9_\-]{16,40}\.[A-Za-z0-9_\-]{20,}+"),
    shaped("databricks-token", "dapi", _B + r"dapi[a-f0-9]{32}(?:-\d)?(?![A-Za-z0-9])"),
    shaped("docker-token", "dckr_", _B + r"dckr_(?:pat|oat)_[A-Za-z0-9_\-]{16,}+"),
    shaped("linear-key", "lin_api_", _B + r"lin_api_[A-Za-z0-9]{24,}+"),
    shaped("groq-key", "gsk_", _B + r"gsk_[A-Za-z0-9]{32,}+"),
    shaped("tailscale-key", "tskey-", _B + r"tskey-[a-z]{2,12}-[A-Za-z0-9\-]{16,}+"),
    shaped("atlassian-token", "atatt3", _B + r"ATATT3[A-Za-z0-9_\-=]{40,}+"),
    shaped("sentry-token", "sntry", _B + r"sntry[su]_[A-Za-z0-9+/=_\-]{32,}+"),
    shaped("age-key", "age-secret-key-", r"AGE-SECRET-KEY-1[A-Z0-9]{40,}+"),
    # A JWT in compact form (RFC 7519), signed or encrypted, also when cut off after the payload.
    shaped(
        "jwt",
        "eyj",
        _B + r"eyJ[A-Za-z0-9_\-]{12,}+\.[A-Za-z0-9_\-]{8,}+(?:\.[A-Za-z0-9_\-]*+){0,3}",
    ),
    shaped(
        "session-cookie",
        "sessionid= sessid=",
        r"(?<![A-Za-z])(?:J|PHP|ASP\.NET_|ASP)?(?i:sess(?:ion)?id)=(?P<v>[A-Za-z0-9._!%~\-]{16,}+)",
        looks_random,
    ),
)


_BEARER = re.compile(r"bearer[ \t:=]{1,4}[\"']?(?P<v>[a-z0-9._~+/=\-]{12,}+)")


def find_bearer(line: str, lower: str) -> Iterator[Finding]:
    """`Bearer …` wherever it stands (RFC 6750), when what follows looks made by a machine."""
    for match in _BEARER.finditer(lower):
        value = line[match.start("v") : match.end("v")].rstrip(".")
        if looks_random(value) and not is_reference(value) and (_has_digit(value) or len(value) >= 20):
            yield Finding("bearer-token", match.start("v"), match.start("v") + len(value))


_CURL = re.compile(r"""(?<![A-Za-z])(?:curl|wget|httpie?|xh|ab)[ ](?P<arguments>[^\n]{0,4000})""", re.VERBOSE)
_USER = re.compile(
    r"""(?<!\S)(?:-u[ ]?|--user[ =]|--proxy-user[ =]|-U[ ]|-a[ ]|-A[ ])
        (?P<esc>\\?)(?P<quote>["']?)(?P<user>[^\s:"'\\]{0,80}):(?P<v>(?:(?!\\?["'])[^\s])+)""",
    re.VERBOSE,
)


def find_curl_user(line: str, _lower: str) -> Iterator[Finding]:
    """`curl -u user:password` and the same flag of its relatives."""
    for command in _CURL.finditer(line):
        for match in _USER.finditer(line, command.start("arguments"), command.end("arguments")):
            if not is_benign(match["v"]) and not match["v"].startswith("//"):
                yield Finding("basic-auth", match.start("v"), match.end("v"))


_SHORT_FLAG = re.compile(
    r"""(?<![A-Za-z])(?:
          (?:mysql|mysqldump|mysqladmin|mariadb|mycli)(?=[ ])(?:[ ]+(?!-p)[^\s|;]{1,100}+){0,12}?
            [ ]+-p(?P<v1>[^\s"'|;=-][^\s"'|;]{2,})
        | sshpass[ ]+-p[ ]?["']?(?P<v2>[^\s"']{3,})
        | redis-cli(?=[ ])(?:[ ]+(?!-a)[^\s|;]{1,100}+){0,12}?[ ]+-a[ ]+["']?(?P<v3>[^\s"']{3,})
        | docker[ ]login(?=[ ])(?:[ ]+(?!-p)[^\s|;]{1,100}+){0,12}?[ ]+-p[ ]+["']?(?P<v4>[^\s"']{3,})
        | --from-literal[= ]["']?[\w.-]{1,80}=["']?(?P<v5>[^\s"']{1,})
        | (?<![\w-])login[ \t]+\S{1,80}[ \t]+password[ \t]+(?P<v6>\S{3,})
        )""",
    re.VERBOSE,
)


def find_short_flags(line: str, _lower: str) -> Iterator[Finding]:
    """Passwords behind one-letter flags of well-known clients, `kubectl --from-literal`, and netrc lines."""
    for match in _SHORT_FLAG.finditer(line):
        group = match.lastgroup
        if group and not is_benign(match[group]):
            yield Finding("password", match.start(group), match.end(group))


_IDENTIFIED_BY = re.compile(
    r"(?<![a-z])(?:identified(?: with \w{1,40})? by(?: password)?|password)[ \t]{1,4}"
    r"(?P<quote>['\"])(?P<v>[^'\"\n]{3,256})(?P=quote)"
)


def find_sql_passwords(line: str, lower: str) -> Iterator[Finding]:
    """`IDENTIFIED BY '…'`, `WITH PASSWORD '…'`."""
    for match in _IDENTIFIED_BY.finditer(lower):
        value = line[match.start("v") : match.end("v")]
        if not is_benign(value) and (" " not in value or is_mixed(value)):
            yield Finding("password", match.start("v"), match.end("v"))
