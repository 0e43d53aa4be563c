"""Every address of the project with who may use it: the one list behind ``docs/permissions.md`` and the isolation test.

An address that is not listed here fails the isolation test, and so does one that answers anybody otherwise than its
rule says. :data:`RULE_WORDS` says what each rule means.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from controlplane.core.permissions import Action


class Rule(StrEnum):
    """What decides over a caller."""

    PUBLIC = "public"
    CALLER = "caller"
    PERSON = "person"
    ACCOUNT = "account"
    ORGANIZATION = "organization"
    OWN_NODE = "own node"
    NODE = "node"
    PART = "part"
    ROOT = "root"
    MEMBER = "member"
    TOKEN = "token"  # noqa: S105 (an object, not a secret)
    TEAM = "team"
    ROUTED = "routed"
    THREAD = "thread"
    OWN_TEAM = "own team"
    REVIEW = "review"
    OPERATOR = "operator"


RULE_WORDS: Final[dict[Rule, str]] = {
    Rule.PUBLIC: "Anybody, with or without a credential.",
    Rule.CALLER: "Whoever has a credential that works. What an answer lists is what the caller may see.",
    Rule.PERSON: "Whoever is signed in as a member. What a page lists is what the person may see.",
    Rule.ACCOUNT: "Whoever is signed in, about the own account; 403 while viewing as a team.",
    Rule.ORGANIZATION: "Whoever belongs to the organization that is named. What is listed or done is what one may.",
    Rule.OWN_NODE: "A credential that is bound to a node, about that node; a person's is bound to none: 403.",
    Rule.NODE: "Who may do the action on the node that is named.",
    Rule.PART: "Who may do the action anywhere in the organization that is named, and sees that part alone.",
    Rule.ROOT: "Who may do the action on the root of the organization that is named.",
    Rule.MEMBER: "Who may do the action where the person has a role; oneself may read. Whoever reads no members at all "
    "gets 403, existing or not.",
    Rule.TOKEN: "Who may do the action on the node of the token; its owner, where it is a personal one. To other "
    "people it is not there.",
    Rule.TEAM: "Who may do the action on the team that the body names; one not seen is 422, as one that is not there.",
    Rule.ROUTED: "Who may do the action on any team. The team is always one of those: the credential's own, else as "
    "labels and routes say; 422 where they name none in reach.",
    Rule.THREAD: "Who may do the action on the team of the investigation; of a private one only who started it.",
    Rule.OWN_TEAM: "Tokens alone, about the team that the token is bound to, else the only one in its reach; 422 where "
    "there are several. Investigations go by the client's own names, which mean nothing in another team.",
    Rule.REVIEW: "Who may decide on the node of the review, people alone, never its author, who may read and withdraw.",
    Rule.OPERATOR: "Operators of the installation; everybody else is sent to the sign-in.",
}


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one address.

    ``path`` is what the resolver has, converters left out. ``status`` is the answer to a good request of who may.
    """

    method: str
    path: str
    rule: Rule
    action: Action | None = None
    status: int = 200
    note: str = ""

    @property
    def is_page(self) -> bool:
        """Whether people's browsers go there: without a session they are led to the sign-in; tokens open nothing."""
        if self.rule in {Rule.PUBLIC, Rule.OWN_TEAM}:
            return False
        return not self.path.startswith(("api/v1/", "ws/"))


_ORG: Final = "api/v1/orgs/{org}"
_NODE: Final = f"{_ORG}/nodes/{{node}}"
_ROOT_UNSEEN: Final = "404 for who does not see the root."
_ON_ROOT: Final = "On the root; 404 for who writes members elsewhere alone."

ROUTES: Final[tuple[Route, ...]] = (
    # ---- the installation
    Route("GET", "livez", Rule.PUBLIC),
    Route("GET", "readyz", Rule.PUBLIC),
    Route("GET", "metrics", Rule.PUBLIC, note="From this machine or with METRICS_TOKEN; 404 from elsewhere."),
    Route("GET", "api/v1/schema", Rule.PUBLIC),
    Route("GET", "api/docs", Rule.PUBLIC),
    # ---- who one is
    Route("GET", "api/v1/me", Rule.CALLER),
    # ---- tree
    Route("GET", f"{_ORG}/nodes", Rule.ORGANIZATION),
    Route("POST", f"{_ORG}/nodes", Rule.NODE, Action.NODE_WRITE, 201, note="On the parent; one not seen is 422."),
    Route("GET", _NODE, Rule.NODE, Action.NODE_READ),
    Route("PATCH", _NODE, Rule.NODE, Action.NODE_WRITE),
    Route("DELETE", _NODE, Rule.NODE, Action.NODE_WRITE, 204),
    # ---- tokens
    Route("GET", f"{_NODE}/tokens", Rule.NODE, Action.TOKEN_READ, note="A person lists its own personal ones: 200."),
    Route("POST", f"{_NODE}/tokens", Rule.NODE, Action.TOKEN_WRITE, 201, note="A person makes its own personal ones."),
    Route("DELETE", f"{_NODE}/tokens/{{public_id}}", Rule.TOKEN, Action.TOKEN_WRITE, 204),
    Route("POST", f"{_NODE}/tokens/{{public_id}}/rotate", Rule.TOKEN, Action.TOKEN_WRITE, 201),
    Route("POST", f"{_NODE}/impersonation", Rule.NODE, Action.IMPERSONATE, 201, note="People alone."),
    Route("GET", f"{_ORG}/tokens", Rule.ORGANIZATION),
    Route("GET", f"{_ORG}/tokens/report", Rule.ORGANIZATION),
    Route("POST", f"{_ORG}/tokens/revoke", Rule.ORGANIZATION),
    Route("GET", f"{_ORG}/token-policy", Rule.ROOT, Action.TOKEN_READ, note=_ROOT_UNSEEN),
    Route("PUT", f"{_ORG}/token-policy", Rule.ROOT, Action.TOKEN_WRITE, note=_ROOT_UNSEEN),
    # ---- people
    Route("GET", f"{_NODE}/members", Rule.NODE, Action.MEMBER_READ),
    Route("POST", f"{_NODE}/members", Rule.NODE, Action.MEMBER_WRITE, 201, note="Only roles one holds oneself."),
    Route("DELETE", f"{_NODE}/members/{{membership_id}}", Rule.NODE, Action.MEMBER_WRITE, 204),
    Route("GET", f"{_ORG}/members", Rule.PART, Action.MEMBER_READ),
    Route("POST", f"{_ORG}/members", Rule.MEMBER, Action.MEMBER_WRITE, 201, note=_ON_ROOT),
    Route("GET", f"{_ORG}/members/{{person_id}}", Rule.MEMBER, Action.MEMBER_READ),
    Route("PATCH", f"{_ORG}/members/{{person_id}}", Rule.MEMBER, Action.MEMBER_WRITE, note=_ON_ROOT),
    Route("DELETE", f"{_ORG}/members/{{person_id}}", Rule.MEMBER, Action.MEMBER_WRITE, 204, note=_ON_ROOT),
    Route("POST", f"{_ORG}/members/{{person_id}}/invitation", Rule.MEMBER, Action.MEMBER_WRITE, 201, note=_ON_ROOT),
    Route("GET", f"{_ORG}/members/{{person_id}}/permissions", Rule.MEMBER, Action.MEMBER_READ),
    # ---- sign-in by a provider
    Route("GET", f"{_ORG}/identity-provider", Rule.ROOT, Action.IDENTITY_PROVIDER_READ),
    Route("PUT", f"{_ORG}/identity-provider", Rule.ROOT, Action.IDENTITY_PROVIDER_WRITE, note="Owners, as people."),
    Route("DELETE", f"{_ORG}/identity-provider", Rule.ROOT, Action.IDENTITY_PROVIDER_WRITE, 204, note="As above."),
    Route("POST", f"{_ORG}/identity-provider/test", Rule.ROOT, Action.IDENTITY_PROVIDER_WRITE, note="As above."),
    Route("GET", f"{_ORG}/identity-provider/mappings", Rule.ROOT, Action.IDENTITY_PROVIDER_READ),
    Route("POST", f"{_ORG}/identity-provider/mappings", Rule.ROOT, Action.IDENTITY_PROVIDER_WRITE, 201),
    Route(
        "DELETE", f"{_ORG}/identity-provider/mappings/{{mapping_id}}", Rule.ROOT, Action.IDENTITY_PROVIDER_WRITE, 204
    ),
    # ---- audit
    Route("GET", f"{_ORG}/audit", Rule.PART, Action.AUDIT_READ, note="?format=… is an event itself."),
    Route("GET", f"{_ORG}/audit/security", Rule.PART, Action.AUDIT_READ),
    Route("GET", f"{_ORG}/audit/verification", Rule.PART, Action.AUDIT_READ),
    # ---- credentials
    Route("GET", f"{_NODE}/grants", Rule.NODE, Action.CONFIG_READ),
    Route("POST", f"{_NODE}/grants", Rule.NODE, Action.CREDENTIAL_GRANT, 201),
    Route("DELETE", f"{_NODE}/grants/{{grant_id}}", Rule.NODE, Action.CREDENTIAL_GRANT, 204),
    # ---- reviews
    Route("GET", "api/v1/reviews", Rule.CALLER),
    Route("GET", "api/v1/reviews/{review_id}", Rule.REVIEW, Action.REVIEW_DECIDE),
    Route("POST", "api/v1/reviews/{review_id}/approve", Rule.REVIEW, Action.REVIEW_DECIDE),
    Route("POST", "api/v1/reviews/{review_id}/reject", Rule.REVIEW, Action.REVIEW_DECIDE),
    Route("POST", "api/v1/reviews/{review_id}/withdraw", Rule.REVIEW, Action.REVIEW_DECIDE, note="Its author alone."),
    # ---- configuration
    Route("GET", f"{_NODE}/config", Rule.NODE, Action.CONFIG_READ),
    Route("PUT", f"{_NODE}/config", Rule.NODE, Action.CONFIG_WRITE),
    Route("PATCH", f"{_NODE}/config", Rule.NODE, Action.CONFIG_WRITE),
    Route("POST", f"{_NODE}/config/unset", Rule.NODE, Action.CONFIG_WRITE),
    Route("POST", f"{_NODE}/config/rollback", Rule.NODE, Action.CONFIG_WRITE),
    Route("POST", f"{_NODE}/config/apply-template", Rule.NODE, Action.CONFIG_WRITE),
    Route("GET", f"{_NODE}/config/effective", Rule.NODE, Action.CONFIG_READ, note="?resolve=true: config.resolve."),
    Route("GET", f"{_NODE}/config/history", Rule.NODE, Action.CONFIG_READ),
    Route("GET", f"{_NODE}/config/history/{{version}}", Rule.NODE, Action.CONFIG_READ),
    Route("GET", f"{_NODE}/config/missing", Rule.NODE, Action.CONFIG_READ),
    Route("GET", f"{_NODE}/policies", Rule.NODE, Action.CONFIG_READ),
    Route("POST", f"{_NODE}/policies", Rule.NODE, Action.CONFIG_WRITE, 201),
    Route("DELETE", f"{_NODE}/policies/{{policy_id}}", Rule.NODE, Action.CONFIG_WRITE, 204),
    Route("GET", f"{_ORG}/routes", Rule.NODE, Action.NODE_READ, note="The node that claims the key."),
    Route("GET", "api/v1/catalogue/integrations", Rule.CALLER),
    Route("GET", "api/v1/catalogue/integrations/{kind}", Rule.CALLER),
    Route("GET", "api/v1/catalogue/templates", Rule.CALLER),
    Route("GET", "api/v1/config/schema", Rule.CALLER),
    Route("GET", "api/v1/config/me", Rule.OWN_NODE, Action.CONFIG_READ, note="Also a plain ASGI route."),
    Route("GET", "api/v1/config/me/effective", Rule.OWN_NODE, Action.CONFIG_READ, note="Also a plain ASGI route."),
    Route("GET", "api/v1/config/me/raw", Rule.OWN_NODE, Action.CONFIG_READ),
    Route("GET", f"{_NODE}/integrations", Rule.NODE, Action.CONFIG_READ),
    Route("POST", f"{_NODE}/integrations/{{name}}/test", Rule.NODE, Action.CONFIG_WRITE),
    # ---- retention
    Route("GET", f"{_ORG}/retention", Rule.ROOT, Action.CONFIG_READ, note=_ROOT_UNSEEN),
    Route("PATCH", f"{_ORG}/retention", Rule.ROOT, Action.CONFIG_WRITE, note=_ROOT_UNSEEN),
    Route("GET", f"{_ORG}/retention/holds", Rule.ROOT, Action.CONFIG_READ, note=_ROOT_UNSEEN),
    Route("POST", f"{_ORG}/retention/holds", Rule.ROOT, Action.CONFIG_WRITE, 201, note=_ROOT_UNSEEN),
    Route("DELETE", f"{_ORG}/retention/holds/{{thread_id}}", Rule.ROOT, Action.CONFIG_WRITE, 204, note=_ROOT_UNSEEN),
    # ---- webhooks
    Route("GET", f"{_NODE}/webhooks/deliveries", Rule.NODE, Action.CONFIG_READ),
    Route("POST", f"{_NODE}/webhooks/deliveries/{{delivery_id}}/resend", Rule.NODE, Action.CONFIG_WRITE, 202),
    Route("POST", f"{_NODE}/webhooks/{{hook}}/test", Rule.NODE, Action.CONFIG_WRITE, 202),
    # ---- investigations
    Route("POST", "api/v1/investigations", Rule.TEAM, Action.RUN_CREATE, 202),
    Route("GET", "api/v1/threads", Rule.CALLER),
    Route("GET", "api/v1/threads/{thread_id}", Rule.THREAD, Action.RUN_READ),
    Route("GET", "api/v1/threads/{thread_id}/events", Rule.THREAD, Action.RUN_READ),
    Route("GET", "api/v1/threads/{thread_id}/stream", Rule.THREAD, Action.RUN_READ, note="A plain ASGI route."),
    Route("POST", "api/v1/threads/{thread_id}/messages", Rule.THREAD, Action.RUN_CONTROL, 202),
    Route("POST", "api/v1/threads/{thread_id}/interrupt", Rule.THREAD, Action.RUN_CONTROL, 202),
    Route("POST", "api/v1/threads/{thread_id}/answers", Rule.THREAD, Action.RUN_CONTROL, 200),
    Route("POST", "api/v1/uploads", Rule.ROUTED, Action.RUN_CREATE, 201),
    Route("DELETE", "api/v1/uploads/{file_id}", Rule.CALLER, status=404, note="One's own that is not used yet: 204."),
    Route("GET", "api/v1/threads/{thread_id}/files", Rule.THREAD, Action.RUN_READ),
    Route("GET", "api/v1/threads/{thread_id}/files/{file_id}", Rule.THREAD, Action.RUN_READ),
    Route("GET", "api/v1/threads/{thread_id}/feedback", Rule.THREAD, Action.RUN_READ),
    Route("POST", "api/v1/threads/{thread_id}/feedback", Rule.THREAD, Action.RUN_CONTROL),
    Route(
        "GET",
        "api/v1/threads/{thread_id}/runs/{run_id}/miss",
        Rule.THREAD,
        Action.RUN_READ,
        404,
        note="One's own rating of partial or wrong: 200.",
    ),
    Route("POST", "api/v1/internal/feedback", Rule.THREAD, Action.RUN_CONTROL, note="Of the run that the body names."),
    Route("POST", "api/v1/internal/agent-runs", Rule.TEAM, Action.RUN_CREATE, 201),
    Route("PATCH", "api/v1/internal/agent-runs/{run_id}", Rule.THREAD, Action.RUN_CREATE),
    Route("PUT", "api/v1/internal/agent-runs/{run_id}/thoughts", Rule.THREAD, Action.RUN_CREATE),
    Route("POST", "api/v1/internal/agent-runs/{run_id}/tool-calls", Rule.THREAD, Action.RUN_CREATE),
    Route("GET", "api/v1/team/agent-runs", Rule.CALLER),
    Route("GET", "api/v1/team/agent-runs/{run_id}", Rule.THREAD, Action.RUN_READ),
    Route("GET", "api/v1/team/agent-runs/{run_id}/trace", Rule.THREAD, Action.RUN_READ),
    Route("POST", "api/v1/agui", Rule.CALLER, note="A plain ASGI route: the calls below in one envelope."),
    Route("GET", "api/v1/agui/info", Rule.CALLER, note="A plain ASGI route, by bearer token alone."),
    Route("POST", "api/v1/agui/agent/{agent}/run", Rule.TEAM, Action.RUN_CREATE, note="A plain ASGI route."),
    Route("POST", "api/v1/agui/agent/{agent}/connect", Rule.THREAD, Action.RUN_READ, note="A plain ASGI route."),
    Route(
        "POST",
        "api/v1/agui/agent/{agent}/stop/{thread_id}",
        Rule.THREAD,
        Action.RUN_CONTROL,
        note="A plain ASGI route.",
    ),
    Route(
        "POST", "api/v1/threads/{thread_id}/decisions", Rule.THREAD, Action.RUN_READ, note="Decided by review.decide."
    ),
    Route("GET", "api/v1/threads/{thread_id}/runs/{run_id}/recording", Rule.THREAD, Action.RUN_READ),
    Route("GET", "api/v1/events/schema", Rule.PUBLIC),
    Route(
        "GET",
        "ws/threads/{thread_id}",
        Rule.THREAD,
        Action.RUN_READ,
        101,
        note="A WebSocket; what is asked over it needs the rights of the REST addresses.",
    ),
    # ---- OpenSRE's agent server
    Route("POST", "investigate", Rule.OWN_TEAM, Action.RUN_CREATE, note="A plain ASGI route."),
    Route("POST", "interrupt", Rule.OWN_TEAM, Action.RUN_CONTROL),
    Route("POST", "answer", Rule.OWN_TEAM, Action.RUN_CONTROL),
    Route("POST", "threads/{thread_name}/queue-message", Rule.OWN_TEAM, Action.RUN_CREATE),
    Route("GET", "threads/{thread_name}/active", Rule.OWN_TEAM, Action.RUN_READ, note="Not there is not active: 200."),
    Route("GET", "health", Rule.PUBLIC, note="Counts only what the token, if there is one, may see."),
    Route("GET", "api/v1/alerts", Rule.CALLER),
    Route("GET", "api/v1/alerts/{group_id}", Rule.THREAD, Action.RUN_READ),
    Route("POST", "api/v1/alerts/alertmanager", Rule.ROUTED, Action.ALERT_INGEST, 202),
    Route("POST", "api/v1/alerts/{vendor}", Rule.ROUTED, Action.ALERT_INGEST, 202, note="Every vendor's address."),
    Route(
        "POST",
        "api/v1/alerts/{vendor}/{organization}/{node}/{name}",
        Rule.PUBLIC,
        status=401,
        note="What a source's own signature or token vouches for: 202. One that does not exist looks the same.",
    ),
    # ---- pages: signing in
    Route("GET", "", Rule.PUBLIC, status=302),
    Route("GET", "login/", Rule.PUBLIC, note="Who is signed in goes on to the home page."),
    Route("POST", "login/", Rule.PUBLIC, status=422, note="A wrong password; limited and locked by address."),
    Route(
        "GET", "login/second/step", Rule.PUBLIC, status=302, note="The second step of a sign-in, from its own session."
    ),
    Route("POST", "login/second/step", Rule.PUBLIC, status=302),
    Route("GET", "login/link/{secret}", Rule.PUBLIC, status=410, note="200 for a link that works."),
    Route("POST", "login/link/{secret}", Rule.PUBLIC, status=410),
    Route("GET", "login/{org}", Rule.PUBLIC, note="Who is signed in goes on. An unknown organization looks the same."),
    Route("GET", "login/{org}/begin", Rule.PUBLIC, status=404, note="302 to the provider of the organization."),
    Route("GET", "login/{org}/callback", Rule.PUBLIC, status=400, note="Of a sign-in that this browser began: 302."),
    Route("POST", "logout/", Rule.PUBLIC, status=302),
    # ---- pages: investigations
    Route("GET", "app/", Rule.PERSON),
    Route("GET", "app/new", Rule.PERSON),
    Route("POST", "app/new", Rule.TEAM, Action.RUN_CREATE, 302),
    Route("GET", "app/threads/{thread_id}", Rule.THREAD, Action.RUN_READ),
    Route("POST", "app/threads/{thread_id}/messages", Rule.THREAD, Action.RUN_CONTROL, 302),
    Route("POST", "app/threads/{thread_id}/stop", Rule.THREAD, Action.RUN_CONTROL, 302),
    Route("POST", "app/threads/{thread_id}/answers", Rule.THREAD, Action.RUN_CONTROL, 302),
    Route(
        "POST", "app/threads/{thread_id}/decide", Rule.THREAD, Action.RUN_READ, 302, note="Decided by review.decide."
    ),
    Route("GET", "app/threads/{thread_id}/approval", Rule.THREAD, Action.RUN_READ, 204, note="200 while one waits."),
    Route("POST", "app/threads/{thread_id}/runs/{run_id}/feedback", Rule.THREAD, Action.RUN_CONTROL, 302),
    Route("GET", "app/threads/{thread_id}/question", Rule.THREAD, Action.RUN_READ, 204, note="200 while one waits."),
    Route("GET", "app/threads/{thread_id}/runs/{run_id}/report", Rule.THREAD, Action.RUN_READ),
    Route("GET", "app/threads/{thread_id}/runs/{run_id}/report.md", Rule.THREAD, Action.RUN_READ),
    Route("GET", "app/threads/{thread_id}/runs/{run_id}/recording.json", Rule.THREAD, Action.RUN_READ),
    Route("GET", "app/runs", Rule.PERSON),
    Route("GET", "app/alerts", Rule.PERSON),
    Route("GET", "app/alerts/{group_id}", Rule.THREAD, Action.RUN_READ),
    Route("GET", "app/evaluations", Rule.PERSON, note="403 while viewing as a team."),
    # ---- pages: configuration
    Route("GET", "app/config", Rule.PERSON, status=302, note="Leads to the first node that the person sees."),
    Route("GET", "app/config/{slug}", Rule.NODE, Action.CONFIG_READ),
    Route("GET", "app/config/{slug}/edit", Rule.NODE, Action.CONFIG_READ),
    Route("POST", "app/config/{slug}/edit", Rule.NODE, Action.CONFIG_WRITE),
    Route("GET", "app/config/{slug}/history", Rule.NODE, Action.CONFIG_READ),
    Route("GET", "app/config/{slug}/compare", Rule.NODE, Action.CONFIG_READ),
    Route("GET", "app/config/{slug}/policies", Rule.NODE, Action.CONFIG_READ),
    Route("POST", "app/config/{slug}/policies", Rule.NODE, Action.CONFIG_WRITE, 302),
    Route("POST", "app/config/{slug}/policies/{policy_id}/remove", Rule.NODE, Action.CONFIG_WRITE, 302),
    Route("GET", "app/config/{slug}/credentials", Rule.NODE, Action.CONFIG_READ),
    Route("POST", "app/config/{slug}/credentials", Rule.NODE, Action.CREDENTIAL_GRANT, 302),
    Route("POST", "app/config/{slug}/credentials/{grant_id}/revoke", Rule.NODE, Action.CREDENTIAL_GRANT, 302),
    # ---- pages: reviews
    Route("GET", "app/reviews", Rule.PERSON),
    Route("GET", "app/reviews/{review_id}", Rule.REVIEW, Action.REVIEW_DECIDE),
    Route("POST", "app/reviews/{review_id}/decide", Rule.REVIEW, Action.REVIEW_DECIDE, 302),
    # ---- pages: one's own account
    Route("GET", "app/security", Rule.ACCOUNT),
    Route("POST", "app/security/password", Rule.ACCOUNT, status=422, note="The present password is wrong."),
    Route("GET", "app/security/authenticator", Rule.ACCOUNT, status=302),
    Route("POST", "app/security/authenticator", Rule.ACCOUNT, status=302),
    Route("POST", "app/security/authenticator/begin", Rule.ACCOUNT, status=422, note="Without the present password."),
    Route("POST", "app/security/authenticator/remove", Rule.ACCOUNT, status=422, note="Without the present password."),
    Route("POST", "app/security/recovery-codes", Rule.ACCOUNT, status=422, note="Without the present password."),
    Route("POST", "app/security/browsers/end", Rule.ACCOUNT, status=302),
    Route("POST", "app/security/browsers/{session_id}/end", Rule.ACCOUNT, status=404, note="Another person's."),
    # ---- pages: audit
    Route("GET", "app/audit", Rule.PART, Action.AUDIT_READ),
    Route("POST", "app/security/link", Rule.PERSON, status=404, note="Of one's own account; 404 without a provider."),
    Route("POST", "app/security/identities/{identity_id}/unlink", Rule.PERSON, status=404, note="Another person's."),
    # ---- pages: sign-in by a provider
    Route("GET", "app/sign-in", Rule.ROOT, Action.IDENTITY_PROVIDER_READ),
    Route("POST", "app/sign-in", Rule.ROOT, Action.IDENTITY_PROVIDER_WRITE, 302),
    Route("POST", "app/sign-in/test", Rule.ROOT, Action.IDENTITY_PROVIDER_WRITE),
    Route("POST", "app/sign-in/remove", Rule.ROOT, Action.IDENTITY_PROVIDER_WRITE, 302),
    Route("POST", "app/sign-in/mappings", Rule.ROOT, Action.IDENTITY_PROVIDER_WRITE, 302),
    Route("POST", "app/sign-in/mappings/{mapping_id}/remove", Rule.ROOT, Action.IDENTITY_PROVIDER_WRITE, 302),
    # ---- pages: people
    Route("GET", "app/members", Rule.PART, Action.MEMBER_READ),
    Route("GET", "app/members/invite", Rule.ROOT, Action.MEMBER_WRITE),
    Route("POST", "app/members/invite", Rule.ROOT, Action.MEMBER_WRITE),
    Route("GET", "app/members/{person_id}", Rule.MEMBER, Action.MEMBER_READ),
    Route("POST", "app/members/{person_id}/change", Rule.MEMBER, Action.MEMBER_WRITE, 302, note=_ON_ROOT),
    Route("POST", "app/members/{person_id}/roles", Rule.MEMBER, Action.MEMBER_WRITE, 302),
    Route("POST", "app/members/{person_id}/roles/{membership_id}/remove", Rule.MEMBER, Action.MEMBER_WRITE, 302),
    # ---- pages: tokens
    Route("GET", "app/tokens", Rule.PERSON),
    Route("GET", "app/tokens/new", Rule.PERSON),
    Route("POST", "app/tokens/new", Rule.NODE, Action.TOKEN_WRITE, 201, note="A person makes its own personal ones."),
    Route("POST", "app/tokens/revoke", Rule.PERSON, note="First a page that says how many; one's own and those below."),
    Route("GET", "app/tokens/policy", Rule.ROOT, Action.TOKEN_READ, note=_ROOT_UNSEEN),
    Route("POST", "app/tokens/policy", Rule.ROOT, Action.TOKEN_WRITE, 302, note=_ROOT_UNSEEN),
    Route("GET", "app/tokens/view-as", Rule.PERSON),
    Route("POST", "app/tokens/view-as", Rule.TEAM, Action.IMPERSONATE, 302),
    Route("POST", "app/tokens/view-as/end", Rule.ACCOUNT, status=302, note="While viewing too."),
    Route("POST", "app/tokens/{public_id}/rotate", Rule.TOKEN, Action.TOKEN_WRITE, 201),
    Route("POST", "app/tokens/{public_id}/revoke", Rule.TOKEN, Action.TOKEN_WRITE, 302),
    # ---- administration: every address below it
    Route("GET", "admin/login/", Rule.PUBLIC, status=302, note="Leads to the one sign-in."),
    Route("*", "admin/", Rule.OPERATOR),
)
