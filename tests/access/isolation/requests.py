"""A good request to each address: what its body is, and who may not send it for a reason of its own."""

from typing import Any, Final

#: Method and path → the body (JSON for REST, a form for pages) of a good request. Those that need none are left out.
BODIES: Final[dict[tuple[str, str], dict[str, Any]]] = {
    ("POST", "api/v1/orgs/{org}/nodes"): {"slug": "new", "name": "New", "kind": "team", "parent": "{node}"},
    ("PATCH", "api/v1/orgs/{org}/nodes/{node}"): {"name": "New name"},
    ("POST", "api/v1/orgs/{org}/nodes/{node}/tokens"): {"name": "t", "scopes": ["runs:read"]},
    ("POST", "api/v1/orgs/{org}/nodes/{node}/tokens/{public_id}/rotate"): {},
    ("POST", "api/v1/orgs/{org}/nodes/{node}/impersonation"): {"minutes": 5},
    ("POST", "api/v1/orgs/{org}/tokens/revoke"): {"kind": "team", "dry_run": True},
    ("PUT", "api/v1/orgs/{org}/token-policy"): {"team": {"max_days": 90, "endless_allowed": False}},
    ("POST", "api/v1/orgs/{org}/nodes/{node}/members"): {"username": "spare", "role": "viewer"},
    ("POST", "api/v1/orgs/{org}/members"): {"username": "new", "node": "{node}", "role": "viewer"},
    ("PATCH", "api/v1/orgs/{org}/members/{person_id}"): {"active": False},
    ("PUT", "api/v1/orgs/{org}/identity-provider"): {
        "kind": "oidc",
        "authority": "https://id.example.com",
        "client_id": "x",
        "client_secret": "${{OPENSRE_CRED_SSO}}",
        "enabled": False,
    },
    ("POST", "api/v1/orgs/{org}/identity-provider/mappings"): {
        "kind": "group",
        "value": "h",
        "node": "{node}",
        "role": "viewer",
    },
    ("POST", "api/v1/orgs/{org}/nodes/{node}/grants"): {"name": "OPENSRE_CRED_A", "inherited": False},
    ("POST", "api/v1/reviews/{review_id}/approve"): {},
    ("POST", "api/v1/reviews/{review_id}/reject"): {"reason": "no"},
    ("POST", "api/v1/reviews/{review_id}/withdraw"): {},
    ("PUT", "api/v1/orgs/{org}/nodes/{node}/config"): {"limits": {"max_turns": 10}, "team_context": "x"},
    ("PATCH", "api/v1/orgs/{org}/nodes/{node}/config"): {"team_context": "x"},
    ("POST", "api/v1/orgs/{org}/nodes/{node}/config/unset"): {"pointers": ["/limits/max_turns"]},
    ("POST", "api/v1/orgs/{org}/nodes/{node}/config/rollback"): {"version": 0},
    ("POST", "api/v1/orgs/{org}/nodes/{node}/config/apply-template"): {"template": "investigator", "dry_run": True},
    ("POST", "api/v1/orgs/{org}/nodes/{node}/policies"): {"pointer": "/limits/max_cost_usd", "kind": "locked"},
    ("POST", "api/v1/investigations"): {"prompt": "why?", "team": "{org}/{node}"},
    ("POST", "api/v1/threads/{thread_id}/messages"): {"text": "look here"},
    ("POST", "api/v1/threads/{thread_id}/answers"): {"request_id": "q", "answers": {"question_0": "yes"}},
    ("POST", "investigate"): {"prompt": "why?", "thread_id": "{thread_name}"},
    ("POST", "interrupt"): {"thread_id": "{thread_name}"},
    ("POST", "answer"): {"thread_id": "{thread_name}", "answers": {"question_0": "yes"}},
    ("POST", "threads/{thread_name}/queue-message"): {"text": "look here"},
    ("POST", "api/v1/internal/agent-runs"): {"run_id": "r1", "team_node_id": "{org}/{node}"},
    ("PATCH", "api/v1/internal/agent-runs/{run_id}"): {"status": "completed"},
    ("PUT", "api/v1/internal/agent-runs/{run_id}/thoughts"): {"thoughts": []},
    ("POST", "api/v1/internal/agent-runs/{run_id}/tool-calls"): {"tool_calls": []},
    ("POST", "api/v1/uploads"): {"question": "why?"},
    ("PATCH", "api/v1/orgs/{org}/retention"): {"investigation_days": 90},
    ("POST", "api/v1/orgs/{org}/retention/holds"): {"thread_id": "{thread_id}"},
    ("POST", "api/v1/threads/{thread_id}/feedback"): {"verdict": "correct"},
    ("POST", "api/v1/internal/feedback"): {"run_id": "{run_id}", "feedback": "positive", "source": "slack"},
    ("POST", "app/threads/{thread_id}/runs/{run_id}/feedback"): {"verdict": "wrong", "reason": "r"},
    ("POST", "api/v1/alerts/alertmanager"): {
        "version": "4",
        "groupKey": "g",
        "status": "firing",
        "commonLabels": {"team": "{node}", "alertname": "A"},
        "alerts": [
            {"status": "firing", "labels": {"alertname": "A", "team": "{node}"}, "startsAt": "2026-01-01T00:00:00Z"}
        ],
    },
    ("POST", "api/v1/alerts/{vendor}"): {
        "receiver": "r",
        "status": "firing",
        "orgId": 1,
        "groupKey": "g",
        "commonLabels": {"team": "{node}", "alertname": "A"},
        "alerts": [
            {"status": "firing", "labels": {"alertname": "A", "team": "{node}"}, "startsAt": "2026-01-01T00:00:00Z"}
        ],
    },
    ("POST", "api/v1/alerts/{vendor}/{organization}/{node}/{name}"): {"status": "firing"},
    ("POST", "login/"): {"username": "ghost", "password": "wrong"},
    ("POST", "login/second/step"): {"code": "123456"},
    ("POST", "app/new"): {"prompt": "why?", "team": "{org}/{node}"},
    ("POST", "app/threads/{thread_id}/messages"): {"text": "look here"},
    ("POST", "api/v1/threads/{thread_id}/decisions"): {"request_id": "r", "decision": "approve"},
    ("POST", "app/threads/{thread_id}/decide"): {"request_id": "r", "decision": "approve"},
    ("POST", "app/threads/{thread_id}/answers"): {"request_id": "q", "question_0": "yes"},
    ("POST", "app/config/{slug}/edit"): {
        "text": '{{"team_context": "x"}}',
        "version": "1",
        "reason": "r",
        "act": "preview",
    },
    ("POST", "app/config/{slug}/policies"): {"pointer": "/limits/max_cost_usd", "kind": "locked"},
    ("POST", "app/config/{slug}/credentials"): {"name": "OPENSRE_CRED_A"},
    ("POST", "app/reviews/{review_id}/decide"): {"decision": "approve"},
    ("POST", "app/security/password"): {
        "current": "wrong",
        "password": "a-new-long-phrase",
        "again": "a-new-long-phrase",
    },
    ("POST", "app/sign-in"): {
        "kind": "oidc",
        "authority": "https://id.example.com",
        "client_id": "x",
        "client_secret": "${{OPENSRE_CRED_SSO}}",
    },
    ("POST", "app/sign-in/mappings"): {"kind": "group", "value": "h", "node": "{node}", "role": "viewer"},
    ("POST", "app/members/invite"): {"username": "new", "node": "{node}", "role": "viewer", "by": "link"},
    ("POST", "app/members/{person_id}/change"): {"act": "deactivate"},
    ("POST", "app/members/{person_id}/roles"): {"node": "{node}", "role": "viewer"},
    ("POST", "app/tokens/new"): {"kind": "team", "node": "{node}", "name": "t", "scopes": ["runs:read"]},
    ("POST", "app/tokens/revoke"): {"ids": ["{public_id}"]},
    ("POST", "app/tokens/policy"): {"team.max_days": "90"},
    ("POST", "app/tokens/view-as"): {"team": "{org}/{node}", "minutes": "5"},
}

#: Query strings of good requests.
QUERIES: Final[dict[tuple[str, str], str]] = {
    ("GET", "api/v1/orgs/{org}/routes"): "?kind=slack_channel_id&key=C0123456789",
}

#: What a good request comes to for a reason of its own: who gets this far may do it.
COMES_TO: Final[dict[tuple[str, str], int]] = {
    ("DELETE", "api/v1/orgs/{org}/nodes/{node}"): 409,  # the team has one below it
    ("POST", "api/v1/orgs/{org}/members/{person_id}/invitation"): 409,  # the person has signed in before
    ("POST", "api/v1/reviews/{review_id}/withdraw"): 403,  # nobody who calls is its author
    ("POST", "api/v1/orgs/{org}/nodes/{node}/integrations/{name}/test"): 404,  # none is configured
    ("POST", "api/v1/orgs/{org}/nodes/{node}/webhooks/deliveries/{delivery_id}/resend"): 409,  # it is still tried
    ("POST", "api/v1/threads/{thread_id}/interrupt"): 409,  # nothing runs
    ("POST", "api/v1/threads/{thread_id}/answers"): 409,  # nothing waits
    ("POST", "answer"): 409,  # nothing waits
    ("POST", "threads/{thread_name}/queue-message"): 409,  # nothing runs
    ("POST", "api/v1/threads/{thread_id}/decisions"): 404,  # nothing waits
    ("POST", "app/threads/{thread_id}/decide"): 404,
}
