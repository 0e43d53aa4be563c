"""Integrations that observe: metrics, alerts, logs, dashboards, errors."""

from typing import Final

from controlplane.configs.catalogue.definitions import (
    ENABLED,
    HEADERS,
    TIMEOUT,
    FieldDefinition,
    IntegrationDefinition,
    Probe,
    Step,
    auth_fields,
    bearer_fields,
    url_field,
)

_OBJECT: Final = FieldDefinition(
    "labels.object", "string", "Label that names what a series or line is about.", level="team", example="service"
)
_TENANT: Final = FieldDefinition(
    "tenant", "string", "Tenant, sent as X-Scope-OrgID (Loki, Mimir).", level="team", example="team-a"
)
_API_KEY: Final = FieldDefinition(
    "api_key",
    "string",
    "API key (Base64 of id:key), instead of auth.",
    secret=True,
    example="${OPENSRE_CRED_SEARCH_KEY}",
)
_INDEX: Final = FieldDefinition(
    "index", "string", "Index, alias or pattern with the logs.", level="team", example="logs-*", default="logs-*"
)
_SEARCH_FIELDS: Final = (_API_KEY, _INDEX, ENABLED, HEADERS, TIMEOUT)

OBSERVABILITY: Final = (
    IntegrationDefinition(
        kind="prometheus",
        title="Prometheus",
        category="metrics",
        description="Metrics over the HTTP API of Prometheus, Thanos, Mimir or VictoriaMetrics.",
        docs_url="https://prometheus.io/docs/prometheus/latest/querying/api/",
        fields=(
            url_field("https://prometheus.example.com"),
            *auth_fields("OPENSRE_CRED_PROMETHEUS"),
            _OBJECT, _TENANT, ENABLED, HEADERS, TIMEOUT,
        ),
        read_by_runs=True,
    ),
    IntegrationDefinition(
        kind="alertmanager",
        title="Alertmanager",
        category="alerts",
        description="Active, silenced and inhibited alerts.",
        docs_url="https://prometheus.io/docs/alerting/latest/clients/",
        fields=(
            url_field("https://alertmanager.example.com"),
            *auth_fields("OPENSRE_CRED_ALERTMANAGER"),
            _OBJECT, _TENANT, ENABLED, HEADERS, TIMEOUT,
        ),
        read_by_runs=True,
    ),
    IntegrationDefinition(
        kind="loki",
        title="Grafana Loki",
        category="logs",
        description="Log lines of the alert's objects.",
        docs_url="https://grafana.com/docs/loki/latest/reference/loki-http-api/",
        fields=(
            url_field("https://loki.example.com"),
            *auth_fields("OPENSRE_CRED_LOKI"),
            _OBJECT, _TENANT, ENABLED, HEADERS, TIMEOUT,
        ),
        read_by_runs=True,
    ),
    IntegrationDefinition(
        kind="grafana",
        title="Grafana",
        category="dashboards",
        description="Dashboards, annotations and the data sources behind them.",
        docs_url="https://grafana.com/docs/grafana/latest/developers/http_api/",
        fields=(
            url_field("https://grafana.example.com"),
            *bearer_fields("Token of a service account (Viewer).", "OPENSRE_CRED_GRAFANA"),
            FieldDefinition("folder", "string", "Folder with the team's dashboards.", level="team", example="Payments"),
            ENABLED, HEADERS, TIMEOUT,
        ),
        # The first is open to everybody and tells the version; the second needs the token.
        probe=Probe((Step("/api/health", {"database": str}, version="version"), Step("/api/org", {"name": str}))),
    ),
    IntegrationDefinition(
        kind="elasticsearch",
        title="Elasticsearch",
        category="logs",
        description="Logs and documents in Elasticsearch.",
        docs_url="https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-info",
        fields=(url_field("https://search.example.com:9200"), *auth_fields("OPENSRE_CRED_SEARCH"), *_SEARCH_FIELDS),
        probe=Probe(
            (Step("/", {"cluster_name": str, "version.number": str}, version="version.number"),),
            {"Authorization": "ApiKey {api_key}"},
        ),
    ),
    IntegrationDefinition(
        kind="opensearch",
        title="OpenSearch",
        category="logs",
        description="Logs and documents in OpenSearch.",
        docs_url="https://docs.opensearch.org/latest/api-reference/",
        fields=(url_field("https://search.example.com:9200"), *auth_fields("OPENSRE_CRED_SEARCH"), *_SEARCH_FIELDS[1:]),
        probe=Probe(
            (
                Step(
                    "/",
                    {"cluster_name": str, "version.number": str, "version.distribution": "opensearch"},
                    version="version.number",
                ),
            )
        ),
    ),
    IntegrationDefinition(
        kind="datadog",
        title="Datadog",
        category="metrics",
        description="Metrics, monitors, logs and traces in Datadog.",
        docs_url="https://docs.datadoghq.com/api/latest/authentication/",
        fields=(
            FieldDefinition(
                "url", "url", "API address of the Datadog site.", example="https://api.datadoghq.eu",
                default="https://api.datadoghq.com",
            ),
            FieldDefinition(
                "api_key", "string", "API key.", required=True, secret=True, example="${OPENSRE_CRED_DATADOG_API_KEY}"
            ),
            FieldDefinition(
                "app_key", "string", "Application key; reading needs it.", required=True, secret=True,
                example="${OPENSRE_CRED_DATADOG_APP_KEY}",
            ),
            FieldDefinition("tags", "string", "Tags that narrow to the team.", level="team", example="team:payments"),
            ENABLED, TIMEOUT,
        ),
        probe=Probe(
            (Step("/api/v2/validate_keys", {"status": "ok"}),),
            {"DD-API-KEY": "{api_key}", "DD-APPLICATION-KEY": "{app_key}"},
        ),
        url="https://api.datadoghq.com",
    ),
    IntegrationDefinition(
        kind="sentry",
        title="Sentry",
        category="errors",
        description="Errors and releases in Sentry.",
        docs_url="https://docs.sentry.io/api/organizations/retrieve-an-organization/",
        fields=(
            url_field("https://sentry.example.com", default="https://sentry.io"),
            FieldDefinition("organization", "string", "Slug of the organization.", required=True, example="acme"),
            FieldDefinition("projects", "object", "Projects of the team, slug to true.", level="team"),
            *bearer_fields("Auth token with org:read and event:read.", "OPENSRE_CRED_SENTRY", required=True),
            ENABLED, TIMEOUT,
        ),
        probe=Probe((Step("/api/0/organizations/{organization}/", {"slug": str, "id": str}),)),
        url="https://sentry.io",
    ),
    IntegrationDefinition(
        kind="aws_cloudwatch",
        title="AWS CloudWatch",
        category="metrics",
        description="Metrics, logs and alarms of an AWS account.",
        docs_url="https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/Welcome.html",
        fields=(
            FieldDefinition("region", "string", "AWS region.", required=True, example="eu-central-1"),
            FieldDefinition("role_arn", "string", "Role to assume.", example="arn:aws:iam::123456789012:role/opensre"),
            FieldDefinition(
                "access_key_id", "string", "Access key, where no role of the process is used.", secret=True,
                example="${OPENSRE_CRED_AWS_ACCESS_KEY_ID}",
            ),
            FieldDefinition(
                "secret_access_key", "string", "Its secret.", secret=True,
                example="${OPENSRE_CRED_AWS_SECRET_ACCESS_KEY}",
            ),
            FieldDefinition("log_groups", "object", "Log groups of the team, name to true.", level="team"),
            ENABLED,
        ),
        untestable="requests to AWS are signed with its SDK",
    ),
    IntegrationDefinition(
        kind="azure_monitor",
        title="Azure Monitor",
        category="metrics",
        description="Metrics, logs and alerts of Azure subscriptions.",
        docs_url="https://learn.microsoft.com/en-us/rest/api/monitor/",
        fields=(
            FieldDefinition(
                "tenant_id", "string", "Entra tenant.", required=True, example="00000000-0000-0000-0000-000000000000"
            ),
            FieldDefinition("client_id", "string", "Application (client) id.", required=True),
            FieldDefinition(
                "client_secret", "string", "Its secret.", required=True, secret=True,
                example="${OPENSRE_CRED_AZURE_CLIENT_SECRET}",
            ),
            FieldDefinition("subscription_id", "string", "Subscription of the team.", required=True, level="team"),
            FieldDefinition("workspace_id", "string", "Log Analytics workspace.", level="team"),
            ENABLED,
        ),
        untestable="a token has to be fetched from Entra first",
    ),
)  # fmt: skip
