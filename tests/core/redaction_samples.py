"""Texts with and without credentials, composed when the tests run: no file holds anything shaped like a credential."""

import base64
import json
import random
import string
import uuid
from typing import NamedTuple

ALNUM = string.ascii_letters + string.digits
URLSAFE = ALNUM + "-_"
BASE32 = string.ascii_uppercase + "234567"
DIGITS = string.digits
DASHES = "-" * 5


class Sample(NamedTuple):
    """A text with a credential: `value` must go, by one of `rules` (names separated by spaces)."""

    name: str
    text: str
    value: str
    rules: str


class Maker:
    """Random building blocks of credentials, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 -- made-up values must be the same each time

    def chars(self, count: int, alphabet: str = ALNUM) -> str:
        return "".join(self.random.choice(alphabet) for _ in range(count))

    def hex(self, count: int) -> str:
        return self.chars(count, "0123456789abcdef")

    def b64(self, count: int) -> str:
        return base64.b64encode(self.random.randbytes(count)).decode()

    def guid(self) -> str:
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def chosen(self) -> str:
        """A password as a person makes one: at least one digit, one symbol."""
        return self.chars(6, string.ascii_letters) + self.random.choice("!@#%^*") + self.chars(5, DIGITS)

    def jwt(self) -> str:
        parts = ({"alg": "RS256", "typ": "JWT"}, {"sub": self.hex(12), "exp": 1_900_000_000})
        encoded = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
        return ".".join((*encoded, self.chars(86, URLSAFE)))

    def pem(self, kind: str, size: int = 600) -> tuple[str, str]:
        """A PEM block and the lines between its first and last."""
        code = self.b64(size)
        body = "\n".join(code[start : start + 64] for start in range(0, len(code), 64))
        return f"{DASHES}BEGIN {kind}{DASHES}\n{body}\n{DASHES}END {kind}{DASHES}", body


def shaped(make: Maker) -> list[Sample]:
    """Credentials known by their shape, where prose or a log would show them."""
    chars, hexes = make.chars, make.hex
    forms = [
        ("opensre", "osre_team_" + chars(16) + "_" + chars(43) + "_" + hexes(8), "opensre-token"),
        ("opensre-user", "osre_user_" + chars(16) + "_" + chars(43) + "_" + hexes(8), "opensre-token"),
        ("aws-id", "AKIA" + chars(16, BASE32), "aws-access-key"),
        ("aws-temporary-id", "ASIA" + chars(16, BASE32), "aws-access-key"),
        ("github-classic", "ghp_" + chars(36), "github-token"),
        ("github-app", "ghs_" + chars(36), "github-token"),
        ("github-fine-grained", "github_pat_" + chars(22) + "_" + chars(59), "github-token"),
        ("gitlab", "glpat-" + chars(20, URLSAFE), "gitlab-token"),
        ("slack", "xoxb-" + chars(12, DIGITS) + "-" + chars(12, DIGITS) + "-" + chars(24), "slack-token"),
        ("slack-app", "xapp-1-A" + chars(10) + "-" + chars(13, DIGITS) + "-" + hexes(64), "slack-token"),
        (
            "slack-webhook",
            "https://hooks.slack" + f".com/services/T{chars(8, BASE32)}/B{chars(10, BASE32)}/{chars(24)}",
            "slack-webhook",
        ),
        ("discord", "https://discord" + f".com/api/webhooks/{chars(18, '123456789')}/{chars(68)}", "chat-webhook"),
        (
            "teams",
            f"https://acme.webhook.office.com/webhookb2/{make.guid()}@{make.guid()}/IncomingWebhook/{hexes(32)}",
            "chat-webhook",
        ),
        ("grafana", "glsa_" + chars(32) + "_" + hexes(8), "grafana-token"),
        ("newrelic", "NRAK-" + chars(27, string.ascii_uppercase + DIGITS), "newrelic-key"),
        ("stripe", "sk_live_" + chars(24), "stripe-key"),
        ("stripe-restricted", "rk_live_" + chars(24), "stripe-key"),
        ("openai", "sk-" + chars(20) + "T3Blbk" + "FJ" + chars(20), "openai-key"),
        ("openai-project", "sk-proj-" + chars(74, URLSAFE) + "T3Blbk" + "FJ" + chars(74, URLSAFE), "openai-key"),
        ("anthropic", "sk-ant-api03-" + chars(93, URLSAFE), "anthropic-key"),
        ("huggingface", "hf_" + chars(34, string.ascii_letters), "huggingface-token"),
        ("npm", "npm_" + chars(36), "npm-token"),
        ("pypi", "pypi-AgEIcHlwaS5vcmc" + chars(130, URLSAFE), "pypi-token"),
        ("terraform", chars(14) + ".atlasv1." + chars(64, URLSAFE), "terraform-token"),
        ("vault", "hvs." + chars(90, URLSAFE), "vault-token"),
        ("google-api", "AIza" + chars(35, URLSAFE), "google-api-key"),
        ("azure-client", chars(3) + "8Q~" + chars(34, ALNUM + "_~.-"), "azure-client-secret"),
        ("jwt", make.jwt(), "jwt"),
        ("databricks", "dapi" + hexes(32), "databricks-token"),
        ("sendgrid", "SG." + chars(22, URLSAFE) + "." + chars(43, URLSAFE), "sendgrid-key"),
    ]
    frames = (
        "We used {} for the job, keep it.",
        '{{"level":"error","detail":"{}"}}',
        "\\nx={}\\ny",
        "{}",
        "a\n  - {}\nb",
        "q%3D{}",
    )
    return [
        Sample(f"{name}-{number}", frame.format(value), value, rule)
        for name, value, rule in forms
        for number, frame in enumerate(frames)
    ]


def in_context(make: Maker) -> list[Sample]:
    """Credentials that only what stands around them gives away."""
    chars, hexes, b64 = make.chars, make.hex, make.b64
    rows = [
        ("aws-secret", "aws_secret_access_key = {}", chars(40, ALNUM + "/+"), "labelled-secret"),
        ("aws-csv", f"AKIA{chars(16, BASE32)},{{}}", chars(40, ALNUM + "/+"), "aws-secret-key"),
        ("aws-session", "export AWS_SESSION_TOKEN={}", chars(320, ALNUM + "/+"), "labelled-secret"),
        ("storage-key", "AccountName=logs;AccountKey={};EndpointSuffix=core.windows.net", b64(64), "labelled-key"),
        ("service-bus", "Endpoint=sb://x/;SharedAccessKeyName=Root;SharedAccessKey={}", b64(32), "labelled-secret"),
        ("sas", "https://acme.blob.core.windows.net/logs?sv=2024&sig={}&se=2027", chars(44), "azure-sas"),
        ("presigned", "https://b.s3.amazonaws.com/k?X-Amz-Signature={}&x=1", hexes(64), "url-signature"),
        ("datadog-api", "DD_API_KEY={}", hexes(32), "labelled-secret"),
        ("datadog-app", "datadog application_key: {}", hexes(40), "labelled-key"),
        ("pagerduty", "pagerduty routing_key: {}", hexes(32), "labelled-key"),
        ("splunk-hec", "Splunk HEC token: {}", make.guid(), "labelled-secret"),
        ("splunk-header", "Authorization: Splunk {}", make.guid(), "authorization-header"),
        ("sentry", "SENTRY_DSN=https://{}@o12.ingest.sentry.io/3", hexes(32), "url-token"),
        ("sentry-secret", f"dsn https://{hexes(32)}:{{}}@sentry.acme.io/4", hexes(32), "url-password url-token"),
        ("url", "reads postgres://checkout:{}@db.internal:5432/orders?sslmode=require", chars(14), "url-password"),
        ("url-no-user", "REDIS_URL=redis://:{}@cache-0:6379/0", chars(16), "url-password"),
        ("url-at", "amqp://svc:{}@mq:5672/v", chars(6) + "@" + chars(6), "url-password"),
        ("url-slash", "redis://:{}@cache:6379", chars(7) + "/" + chars(6), "url-password"),
        ("bearer", "curl -H 'Authorization: Bearer {}' https://x", chars(43, URLSAFE), "authorization-header"),
        ("bearer-json", '{{"Authorization": "Bearer {}"}}', chars(43, URLSAFE), "authorization-header"),
        ("bearer-escaped", '{{\\"authorization\\":\\"Bearer {}\\"}}', chars(43), "authorization-header"),
        ("bearer-alone", "sent Bearer {} to the api", chars(43), "bearer-token"),
        (
            "basic",
            "Authorization: Basic {}",
            base64.b64encode(f"u:{chars(12)}".encode()).decode(),
            "authorization-header",
        ),
        ("basic-alone", "used Basic {} there", base64.b64encode(f"svc:{chars(12)}".encode()).decode(), "basic-auth"),
        (
            "registry",
            '"auths":{{"r.io":{{"auth":"{}"}}}}',
            base64.b64encode(f"u:{chars(12)}".encode()).decode(),
            "basic-auth",
        ),
        (
            "sigv4",
            "Authorization: AWS4-HMAC-SHA256 Credential=x/us/s3, Signature={}",
            hexes(64),
            "authorization-header",
        ),
        ("curl-u", "curl -sS -u elastic:{} https://es.prod:9200/_cluster/health", chars(14), "basic-auth"),
        ("curl-user", 'curl --user "admin:{}" https://x', make.chosen(), "basic-auth"),
        ("mysql", "mysql -h db -u root -p{} -e 'select 1'", chars(12), "password"),
        ("flag", "mongo --password {} --host db", chars(12), "password"),
        ("flag-equals", "tool --api-key={} run", chars(24), "labelled-secret"),
        ("literal", "kubectl create secret generic x --from-literal=k={}", chars(12), "password"),
        ("sql", "CREATE USER app WITH PASSWORD '{}';", make.chosen(), "password"),
        ("kube-key", "users:\n- name: a\n  user:\n    client-key-data: {}", b64(900), "labelled-key"),
        ("kube-token", "  user:\n    token: {}", chars(60, URLSAFE), "labelled-secret"),
        ("cookie", "Cookie: lang=en; sessionid={}", chars(32), "cookie session-cookie"),
        ("set-cookie", "Set-Cookie: sid={}; Path=/; HttpOnly", chars(32), "cookie"),
        ("jsessionid", "GET /x;JSESSIONID={}", hexes(32).upper(), "session-cookie"),
        ("uuid-token", "api_token: {}", make.guid(), "labelled-secret"),
        ("passphrase", 'vault unseal passphrase is "{}"', "amber kelp lagoon opal", "password"),
        ("passphrase-bare", "passphrase: {}", "amber kelp lagoon opal", "password"),
        ("prose-word", "the admin password is {}.", "swordfish", "password"),
        ("env-word", "POSTGRES_PASSWORD={}", "swordfish", "password"),
        ("default", "password: ${{DB_PASSWORD:-{}}}", "x" + chars(12), "password"),
    ]
    labels = [
        *("DB_PASSWORD={}", "export PGPASSWORD='{}' # x", "password: {}", '  "password": "{}",', "'password': '{}'"),
        *("db.password={} next", "Server=db;Password={};Trusted=no", "<password>{}</password>", "| password | {} |"),
        *("**Password:** {}", "`password`: `{}`", '{{\\"password\\":\\"{}\\"}}', "x\\nDB_PASSWORD={}\\ny"),
        *(
            "the password is {}",
            "the password for alice is {}.",
            "I set the password to {}",
            "with password {} it works",
        ),
        *("password =>\t'{}'", "creds: admin / {}", "--set auth.password={}", "password\u00a0is\u00a0{}"),
        *('{{"name":"DB_PASSWORD","value":"{}"}}', "- name: DB_PASSWORD\n  value: {}", "password:\n{}"),
        *('"name": "DB_PASSWORD",\n  "value": "{}"', "password: |\n  {}\nnext: 1", "the password is:\n\n{}\n"),
    ]
    rows += [(f"password-{number}", label, make.chosen(), "password") for number, label in enumerate(labels)]
    secrets = [
        *(
            "clientSecret: {}",
            '"clientSecret":"{}","a":1',
            "?refresh_token={}&grant=x",
            "X-API-Key: {}",
            "JWT_SECRET={}",
        ),
        *(
            "api key: {}",
            "API key is {}",
            "the token I used is {}",
            "//npm.acme.io/:_authToken={}",
            "- name: A_TOKEN\n  value: {}",
        ),
    ]
    rows += [(f"secret-{number}", label, "a1" + chars(22), "labelled-secret") for number, label in enumerate(secrets)]
    return [Sample(name, frame.format(value), value, rules) for name, frame, value, rules in rows]


def private_keys(make: Maker) -> list[Sample]:
    """Private keys of several kinds, in the ways they are shown."""
    kinds = ("RSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "")
    samples = []
    for kind in kinds:
        block, body = make.pem(f"{kind}PRIVATE KEY")
        lines = block.split("\n")
        shown = {
            "plain": (f"the key:\n{block}\nend", body),
            "crlf": (block.replace("\n", "\r\n"), body),
            "indented": ("tls.key: |\n" + "\n".join(f"  {line}" for line in lines), body),
            "json": (json.dumps({"key": block}), json.dumps(body)[1:-1]),
            "json-in-json": (json.dumps({"x": json.dumps({"key": block})}), json.dumps(json.dumps(body)[1:-1])[1:-1]),
            "json-lines": (json.dumps(lines, indent=2), body),
            "one-line": (block.replace("\n", " "), body.replace("\n", " ")),
            "logged": ("\n".join(f"2026-08-01T00:00:00Z app: {line}" for line in lines), body),
            "concatenated": ("\n".join(f'"{line}\\n" +' for line in lines), body),
            "cut-off": (block[:200], body[:100]),
            "cut-off-then-prose": (f"{block[:200]}\nThis was the key, please check.\n", body[:100]),
            "cut-off-json": (json.dumps({"key": block})[:230], json.dumps(body)[1:100]),
        }
        samples += [Sample(f"{kind}{name}", *pair, "private-key") for name, pair in shown.items()]
    block, body = make.pem("PGP PRIVATE KEY BLOCK")
    return [*samples, Sample("pgp", f"x\n{block}\ny", body, "private-key")]


def everything(seed: int) -> list[Sample]:
    """All samples of one seed."""
    make = Maker(seed)
    return [*shaped(make), *in_context(make), *private_keys(make)]


def benign(seed: int) -> list[str]:
    """Look-alikes from the same world, which must be left alone."""
    make = Maker(seed)
    config = base64.b64encode(b"replicas: 3\nlog_level: info\nupstream:\n  host: cache.prod.svc\n").decode()
    certificate, _ = make.pem("CERTIFICATE")
    made = [
        *(
            f"rolled back to commit {make.hex(40)}",
            f"image r.io/a@sha256:{make.hex(64)} failed",
            f"md5={make.hex(32)} verified",
        ),
        *(
            f"request id {make.guid()} timed out",
            f"uid: {make.guid()} resourceVersion: 918273645",
            f"session_id: {make.guid()}",
        ),
        *(f"instance i-0{make.hex(16)} in subnet-0{make.hex(16)}", f"trace_id={make.hex(32)} span_id={make.hex(16)}"),
        *(
            f"checksum/config: {make.hex(64)}",
            f"data:\n  config.yaml: {config}",
            f"certificate expired:\n{certificate}",
        ),
        f"apiVersion: v1\ndata:\n  a: {config}\nkind: ConfigMap\n",
        f'{{"kind":"ConfigMap","apiVersion":"v1","data":{{"a":"{config}"}}}}',
        f"ssh-rsa AAAAB3NzaC1yc2E{make.chars(80)} me@host",
        f"nextToken: eyJ2{make.chars(30)}",
        f"next_page_token={make.chars(20)}",
        f"partition_key: customer-{make.chars(5, DIGITS)}",
    ]
    return [*made, *_BENIGN.strip().split("\n")]


_BENIGN = """
the api_key is rotated every 90 days by the vault cron
token count 512
token: <redacted>
curl -H "Authorization: Bearer $TOKEN" https://grafana.acme.io/api/health
Authorization: Bearer ${OPENSRE_CRED_X}
Authorization: Bearer <token>
WWW-Authenticate: Bearer realm="api"
password: ${OPENSRE_CRED_X}
password: {{ .Values.db.password }}
password: vault:secret/data/db#password
password: /run/secrets/db
password=$DB_PASSWORD
db_password = os.environ["DB_PASSWORD"]
PGPASSWORD=$PGPASSWORD psql -h db
curl -u $USER:$PASS https://x
valueFrom: {secretKeyRef: {name: orders-db, key: password}}
serviceAccountName: default-token-reader
secretName: orders-tls
secret: orders-db-credentials
MountVolume.SetUp failed for volume "x" : secret "orders-tls" not found
Error: secret "x" is forbidden: User cannot get resource "secrets"
kubectl get secret orders-db -o yaml
rate(http_requests_total{job="api",code=~"5..",token_bucket="default"}[5m]) > 0.05
JWT validation failed: token expired 12s ago, clock skew on node-7
private key rotated on 2026-08-01, cert-manager renewed the certificate
Passwordless login is enabled, so the auth token errors came from the api gateway
API_KEY env var is unset on the canary
hot cache key user:1234:session:cart evicted 8000 times
session key: user:1234:cart
vault kv get secret/payments/db shows the lease is revoked
clone from ssh://git@github.com:22/acme/infra.git
http://registry:4873/@scope/pkg
arn:aws:rds:us-east-1:123456789012:db:orders-primary is at 96% storage
panic: runtime error [signal SIGSEGV code=0x1 addr=0x7ffee4c0dead pc=0x4a5b6c]
SELECT id FROM users WHERE token = $1 AND password = $2
FATAL: password authentication failed for user "orders"
The password must contain 8 characters
the password is incorrect.
the password is weak
reset the password to continue
the token is read from the environment
Password: required
token: expired
tokens=512 max_tokens=4096 prompt_tokens: 120
error: invalid_token
server message: insufficient_scope: authorization failed
auth: enabled
cookie: accepted
Set-Cookie: lang=en; Path=/
Basic authentication is required
pwd=/home/app/src
passed=12 failed=0 pass: 12
pass `timeout=30` to the client
password=None, token=None
"password": null, "token": ""
credentials: not found
KeyError: 'password'
routing_key=orders.created
primary key: id
lock key lock:order:123 expired
I0801 auth.go:123] token-controller started
registry.acme.io/auth:v1.2.3
"""
