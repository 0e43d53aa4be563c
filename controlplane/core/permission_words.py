"""Roles and actions in words, for pages and for ``docs/permissions.md``."""

from typing import Final

from controlplane.core.actor import Role
from controlplane.core.permissions import Action

ROLE_WORDS: Final[dict[Role, str]] = {
    Role.OWNER: "Everything in the organization, who signs in included. Given on the root alone.",
    Role.ADMIN: "Configuration, members, tokens and policies of a part of the tree, and all a responder does.",
    Role.REVIEWER: "Decides reviews. Given beside the others; reads what a viewer reads.",
    Role.RESPONDER: "Runs investigations, answers, steers, stops and rates them.",
    Role.VIEWER: "Reads runs, the configuration (secrets as references) and the topology.",
}

ACTION_WORDS: Final[dict[Action, str]] = {
    Action.NODE_READ: "See that a part of the organization exists",
    Action.NODE_WRITE: "Create, rename, move, archive and delete parts of the organization",
    Action.CONFIG_READ: "Read the configuration; credentials as references",
    Action.CONFIG_WRITE: "Change the configuration and its policies",
    Action.CONFIG_RESOLVE: "Read the values of credentials (runtimes alone)",
    Action.RUN_READ: "Read investigations that the team sees",
    Action.RUN_CREATE: "Start investigations",
    Action.RUN_CONTROL: "Send messages to, answer, stop and rate investigations",
    Action.MEMBER_READ: "See people, their roles and what they may do",
    Action.MEMBER_WRITE: "Invite, give and take roles, deactivate; only roles one holds oneself",
    Action.TOKEN_READ: "List access tokens",
    Action.TOKEN_WRITE: "Issue, rotate and revoke access tokens; only scopes one holds oneself",
    Action.CREDENTIAL_GRANT: "Grant credentials, by name, to parts below",
    Action.AUDIT_READ: "Read and export the audit log",
    Action.IDENTITY_PROVIDER_READ: "See how people sign in",
    Action.IDENTITY_PROVIDER_WRITE: "Choose who vouches for people, and what their groups come to",
    Action.ALERT_INGEST: "Hand in alerts",
    Action.REVIEW_DECIDE: "Approve and reject reviews",
    Action.IMPERSONATE: "Look at what a team sees, read-only and for a short time",
}
