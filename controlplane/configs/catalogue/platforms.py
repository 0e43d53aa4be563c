"""Integrations with platforms, code, databases and people."""

from typing import Final

from controlplane.configs.catalogue.definitions import (
    ENABLED,
    TIMEOUT,
    FieldDefinition,
    IntegrationDefinition,
    Probe,
    Step,
    bearer_fields,
    url_field,
)

_GITHUB: Final = {"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"}

PLATFORMS: Final = (
    IntegrationDefinition(
        kind="kubernetes",
        title="Kubernetes",
        category="platform",
        description="Pods, deployments, nodes and events of a cluster.",
        docs_url="https://kubernetes.io/docs/reference/using-api/api-concepts/",
        fields=(
            url_field("https://kubernetes.example.com:6443"),
            *bearer_fields("Token of a service account that may view.", "OPENSRE_CRED_KUBERNETES"),
            FieldDefinition("namespace", "string", "The team's namespace.", level="team", example="payments"),
            ENABLED, TIMEOUT,
        ),
        # The version is public; discovery needs somebody who is signed in.
        probe=Probe(
            (
                Step("/version", {"gitVersion": str}, version="gitVersion"),
                Step("/api", {"kind": "APIVersions", "versions": list}),
            )
        ),
    ),
    IntegrationDefinition(
        kind="github",
        title="GitHub",
        category="code",
        description="Commits, pull requests and deployments on github.com or GitHub Enterprise Server.",
        docs_url="https://docs.github.com/en/rest/rate-limit/rate-limit",
        fields=(
            url_field("https://github.example.com/api/v3", default="https://api.github.com"),
            *bearer_fields("Fine-grained or installation token that may read.", "OPENSRE_CRED_GITHUB"),
            FieldDefinition("repositories", "object", "Repositories of the team, owner/name to true.", level="team"),
            ENABLED, TIMEOUT,
        ),
        # Any token may ask for its limits, an installation's too; a wrong one is refused.
        probe=Probe((Step("/rate_limit", {"resources.core.limit": int}),), _GITHUB),
        url="https://api.github.com",
    ),
    IntegrationDefinition(
        kind="gitlab",
        title="GitLab",
        category="code",
        description="Commits, merge requests and deployments on gitlab.com or a GitLab of one's own.",
        docs_url="https://docs.gitlab.com/api/version/",
        fields=(
            url_field("https://gitlab.example.com", default="https://gitlab.com"),
            FieldDefinition(
                "token", "string", "Access token with read_api.", required=True, secret=True,
                example="${OPENSRE_CRED_GITLAB}",
            ),
            FieldDefinition("projects", "object", "Projects of the team, path to true.", level="team"),
            ENABLED, TIMEOUT,
        ),
        probe=Probe(
            (Step("/api/v4/version", {"version": str, "revision": str}, version="version"),),
            {"PRIVATE-TOKEN": "{token}"},
        ),
        url="https://gitlab.com",
    ),
    IntegrationDefinition(
        kind="pagerduty",
        title="PagerDuty",
        category="people",
        description="Incidents, services and who is on call.",
        docs_url="https://developer.pagerduty.com/docs/rest-api-overview",
        fields=(
            url_field("https://api.eu.pagerduty.com", default="https://api.pagerduty.com"),
            FieldDefinition(
                "api_key", "string", "Read-only REST API key.", required=True, secret=True,
                example="${OPENSRE_CRED_PAGERDUTY}",
            ),
            FieldDefinition("service_ids", "object", "Services of the team, id to true.", level="team"),
            ENABLED, TIMEOUT,
        ),
        probe=Probe(
            (Step("/abilities", {"abilities": list}),),
            {"Accept": "application/vnd.pagerduty+json;version=2", "Authorization": "Token token={api_key}"},
        ),
        url="https://api.pagerduty.com",
    ),
    IntegrationDefinition(
        kind="slack",
        title="Slack",
        category="people",
        description="Channels that ask and are told.",
        docs_url="https://docs.slack.dev/reference/methods/auth.test",
        fields=(
            FieldDefinition(
                "bot_token", "string", "Bot token.", required=True, secret=True, example="${OPENSRE_CRED_SLACK}"
            ),
            FieldDefinition("channel", "string", "Channel of the team.", level="team", example="C0123456789"),
            FieldDefinition("url", "url", "API address.", example="https://slack.com", default="https://slack.com"),
            ENABLED, TIMEOUT,
        ),
        # Slack refuses with status 200 and "ok": false.
        probe=Probe((Step("/api/auth.test", {"ok": True, "team": str}),), {"Authorization": "Bearer {bot_token}"}),
        url="https://slack.com",
    ),
    IntegrationDefinition(
        kind="teams",
        title="Microsoft Teams",
        category="people",
        description="Channels that ask and are told.",
        docs_url="https://learn.microsoft.com/en-us/azure/bot-service/rest-api/bot-framework-rest-connector-authentication",
        fields=(
            FieldDefinition("app_id", "string", "Application (client) id of the bot.", required=True),
            FieldDefinition(
                "app_password", "string", "Its client secret.", required=True, secret=True,
                example="${OPENSRE_CRED_TEAMS}",
            ),
            FieldDefinition("tenant_id", "string", "Entra tenant.", required=True),
            FieldDefinition(
                "channel_id", "string", "Channel of the team.", level="team", example="19:abc@thread.tacv2"
            ),
            ENABLED,
        ),
        untestable="a token has to be fetched from Entra first",
    ),
    IntegrationDefinition(
        kind="postgresql",
        title="PostgreSQL",
        category="database",
        description="Statements, locks and replication of a database.",
        docs_url="https://www.postgresql.org/docs/current/monitoring-stats.html",
        fields=(
            FieldDefinition("host", "string", "Host name.", required=True, example="db.example.com"),
            FieldDefinition("port", "integer", "Port.", example=5432, default=5432),
            FieldDefinition("database", "string", "Database.", required=True, level="team", example="payments"),
            FieldDefinition("username", "string", "User with pg_monitor.", required=True, example="opensre"),
            FieldDefinition(
                "password", "string", "Its password.", required=True, secret=True, example="${OPENSRE_CRED_POSTGRESQL}"
            ),
            FieldDefinition("sslmode", "string", "As libpq names it.", example="verify-full", default="require"),
            ENABLED,
        ),
        untestable="it speaks its own protocol, not HTTP",
    ),
)  # fmt: skip
