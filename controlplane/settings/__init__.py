"""Settings, read from the environment. ``docs/configuration.md`` and ``.env.example`` list every variable.

Two modes: ``local`` (the default: one machine, one process, secrets made once in the data directory) and ``production``
(every secret and host comes from the environment; ``manage.py check --deploy`` names what is missing).
"""

from datetime import timedelta
from pathlib import Path
from typing import Any

from django.templatetags.static import static

from controlplane.settings.background import background_apps, task_backends
from controlplane.settings.database import database_settings
from controlplane.settings.environment import Environment, load_env_file, require_directory
from controlplane.settings.local_secrets import LocalSecrets
from controlplane.settings.logging import configure_logging, logging_settings

BASE_DIR = Path(__file__).resolve().parent.parent.parent

load_env_file(BASE_DIR / ".env")
env = Environment()

# ---- mode and data -------------------------------------------------------------------------------------------------
OPENSRE_MODE: str = env.choice("OPENSRE_MODE", ("local", "production"), default="local")
PRODUCTION: bool = OPENSRE_MODE != "local"
DATA_DIR: Path = Path(env.str("OPENSRE_DATA_DIR", default=str(BASE_DIR / "var"))).resolve()
if not PRODUCTION:
    # Local mode serves static files from their sources; the folder of collected ones is looked for all the same.
    require_directory("OPENSRE_DATA_DIR", DATA_DIR / "static")
DEBUG: bool = env.bool("DEBUG", default=False)

# ---- secrets -------------------------------------------------------------------------------------------------------
_local = LocalSecrets(DATA_DIR, enabled=not PRODUCTION)
SECRET_KEY: str = env.str("SECRET_KEY", default="") or _local.get("SECRET_KEY")
#: Numbered peppers of access tokens, ``{"1": "…", "2": "…"}``; the highest number signs new tokens, all verify.
TOKEN_PEPPERS: dict[int, str] = env.numbered_keys("TOKEN_PEPPERS", default=_local.get("TOKEN_PEPPER"))
#: Numbered keys of the audit chain, same form.
AUDIT_KEYS: dict[int, str] = env.numbered_keys("AUDIT_KEYS", default=_local.get("AUDIT_KEY"))
#: A signed checkpoint of a chain is written after so many events, or so long after the last one.
AUDIT_CHECKPOINT_EVENTS: int = env.int("AUDIT_CHECKPOINT_EVENTS", default=1000)
AUDIT_CHECKPOINT_MINUTES: int = env.int("AUDIT_CHECKPOINT_MINUTES", default=60)
#: Days after which events of the audit log, and rows of the security stream, are removed; 0 keeps them for ever.
AUDIT_RETENTION_DAYS: int = env.int("AUDIT_RETENTION_DAYS", default=0)
SECURITY_RETENTION_DAYS: int = env.int("SECURITY_RETENTION_DAYS", default=90)

# ---- applications --------------------------------------------------------------------------------------------------
INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_tasks",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "csp",
    "axes",
    "controlplane.core",
    "controlplane.audit",
    "controlplane.orgs",
    "controlplane.access",
    "controlplane.reviews",
    "controlplane.configs",
    "controlplane.runtimes",
    "controlplane.investigations",
    "controlplane.alerts",
    "web",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "web.browser_safety.BrowserSafetyMiddleware",
    "web.static_files.StaticFilesMiddleware",
    "controlplane.core.middleware.RequestContextMiddleware",
    "controlplane.core.middleware.ProblemMiddleware",  # outside the others: it also answers for errors in them
    "csp.middleware.CSPMiddleware",
    "web.admin_csp.AdminContentSecurityPolicy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "web.sessions.SessionLimitMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "controlplane.urls"
ASGI_APPLICATION = "controlplane.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "web.context.page_context",
            ],
        },
    },
]

# ---- database ------------------------------------------------------------------------------------------------------
DATABASES = {"default": database_settings(env.str("DATABASE_URL", default=""), DATA_DIR)}
INSTALLED_APPS += background_apps(DATABASES["default"])
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# ---- people --------------------------------------------------------------------------------------------------------
AUTH_USER_MODEL = "access.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",  # refuses while locked; signs nobody in
    "controlplane.access.backends.LocalPasswordBackend",
]
#: A sign-in ends after this long without a request, and at the latest after that long whatever happens.
SESSION_IDLE_SECONDS: int = env.int("SESSION_IDLE_SECONDS", default=3600 if PRODUCTION else 12 * 3600)
SESSION_COOKIE_AGE: int = env.int("SESSION_LIFETIME_SECONDS", default=12 * 3600)
#: Whether owners and admins with a password must have an authenticator app.
TOTP_REQUIRED_FOR_ADMINS: bool = env.bool("TOTP_REQUIRED_FOR_ADMINS", default=False)
# Wrong passwords lock a username for the address they came from, and for no other: nobody can lock anybody else out.
SIGN_IN_FAILURES: int = env.int("SIGN_IN_FAILURES", default=5)
SIGN_IN_LOCK_SECONDS: int = env.int("SIGN_IN_LOCK_SECONDS", default=900)
AXES_FAILURE_LIMIT = SIGN_IN_FAILURES
AXES_COOLOFF_TIME = timedelta(seconds=SIGN_IN_LOCK_SECONDS)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_CLIENT_IP_CALLABLE = "controlplane.access.lockout.address_of"
AXES_USERNAME_CALLABLE = "controlplane.access.lockout.name_of"
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False  # so nothing is written while locked, and the lock does end
AXES_DISABLE_ACCESS_LOG = True  # sign-ins are in the audit log
AXES_SENSITIVE_PARAMETERS = ["username", "password", "next", "csrfmiddlewaretoken"]
AXES_ENABLE_ADMIN = False  # names are stored hashed, so its lists would say nothing: `manage.py account unlock`
AXES_VERBOSE = False
SILENCED_SYSTEM_CHECKS = ["axes.W002"]  # its middleware replaces answers by its own; the sign-in view says it better
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/app/"
LOGOUT_REDIRECT_URL = "/login/"

# ---- sign-in by an identity provider ---------------------------------------------------------------------------------
#: Microsoft's national clouds by name: where people sign in, and where Graph answers. Source: Microsoft, "National
#: cloud deployments" (learn.microsoft.com/entra/identity-platform/authentication-national-cloud).
ENTRA_CLOUDS: dict[str, dict[str, str]] = {
    "global": {"login": "https://login.microsoftonline.com", "graph": "https://graph.microsoft.com"},
    "us-government": {"login": "https://login.microsoftonline.us", "graph": "https://graph.microsoft.us"},
    "china": {
        "login": "https://login.partner.microsoftonline.cn",
        "graph": "https://microsoftgraph.chinacloudapi.cn",
    },
}
#: PEM file of certificate authorities that identity providers may have besides the system's; empty for none.
SSO_CA_FILE: str = env.str("SSO_CA_FILE", default="")

# ---- HTTP ----------------------------------------------------------------------------------------------------------
#: Where ``manage.py dev`` serves.
DEV_HOST: str = env.str("HOST", default="127.0.0.1")
DEV_PORT: int = env.int("PORT", default=8000)
ALLOWED_HOSTS: list[str] = env.list(
    "ALLOWED_HOSTS", default=[] if PRODUCTION else ["127.0.0.1", "localhost", "[::1]", DEV_HOST]
)
#: Rule → amount, for example ``{"exports": "10/minute", "requests": "off"}``: see controlplane/access/limits/rules.py.
RATE_LIMITS: dict[str, str] = env.pairs("RATE_LIMITS")
#: Proxies (addresses, CIDR) whose ``X-Forwarded-For`` and ``X-Forwarded-Proto`` are believed. Nobody else's ever are.
TRUSTED_PROXIES: list[str] = env.list("TRUSTED_PROXIES", default=[])
CSRF_TRUSTED_ORIGINS: list[str] = env.list("CSRF_TRUSTED_ORIGINS", default=[])
#: Where people's browsers find this installation: links that leave it begin with this, never with a request's host.
PUBLIC_URL: str = env.str("PUBLIC_URL", default="" if PRODUCTION else f"http://{DEV_HOST}:{DEV_PORT}").rstrip("/")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = PRODUCTION
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_HTTPONLY = CSRF_COOKIE_HTTPONLY = True
# The prefix has browsers refuse a cookie of that name from a neighbouring host or over HTTP (RFC 6265bis, 4.1.3.2).
_cookie_prefix = "__Host-" if PRODUCTION else ""
SESSION_COOKIE_NAME = f"{_cookie_prefix}opensre_session"
CSRF_COOKIE_NAME = f"{_cookie_prefix}opensre_csrf"
CSRF_FAILURE_VIEW = "web.errors.csrf_failure"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = env.int("SECURE_HSTS_SECONDS", default=31_536_000 if PRODUCTION else 0)
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = PRODUCTION
SECURE_SSL_REDIRECT = env.bool("SECURE_SSL_REDIRECT", default=PRODUCTION)
SECURE_REDIRECT_EXEMPT = [r"^livez$", r"^readyz$", r"^metrics$"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env.bool("TRUST_PROXY", default=False) else None
X_FRAME_OPTIONS = "DENY"
#: The largest request body: an inline evidence snapshot of 8 MiB and its JSON around it.
DATA_UPLOAD_MAX_MEMORY_SIZE = 9 * 1024 * 1024
CONTENT_SECURITY_POLICY = {
    "EXCLUDE_URL_PREFIXES": ("/admin/",),  # the admin sets its own policy, see web/admin_csp.py
    "DIRECTIVES": {
        "default-src": ("'none'",),
        "script-src": ("'self'",),
        "style-src": ("'self'",),
        "img-src": ("'self'", "data:"),
        "font-src": ("'self'",),
        "connect-src": ("'self'",),
        "form-action": ("'self'",),
        "frame-ancestors": ("'none'",),
        "base-uri": ("'none'",),
        "manifest-src": ("'self'",),
    },
}

# ---- static files --------------------------------------------------------------------------------------------------
STATIC_URL = "/static/"
STATIC_ROOT = DATA_DIR / "static"
STORAGES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "web.static_files.ModuleStaticFilesStorage"
        if PRODUCTION
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = not PRODUCTION
MEDIA_ROOT = DATA_DIR / "files"

# ---- language and time ---------------------------------------------------------------------------------------------
LANGUAGE_CODE = "en"
TIME_ZONE = "UTC"
USE_I18N = False
USE_TZ = True

# ---- the operators' admin --------------------------------------------------------------------------------------------
UNFOLD = {
    "SITE_TITLE": "OpenSRE administration",
    "SITE_HEADER": "OpenSRE",
    "SITE_SUBHEADER": "Administration",
    "SITE_ICON": lambda _request: static("web/img/logo.svg"),
    "SITE_FAVICONS": [
        {"rel": "icon", "type": "image/svg+xml", "href": lambda _request: static("web/img/logo.svg")},
    ],
    "SHOW_HISTORY": False,
    "SHOW_VIEW_ON_SITE": False,
}

# ---- REST ----------------------------------------------------------------------------------------------------------
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "controlplane.access.authentication.BearerAuthentication",
        "controlplane.access.authentication.SessionActorAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["controlplane.access.authentication.IsAuthenticatedActor"],
    "DEFAULT_THROTTLE_CLASSES": ["controlplane.access.limits.throttles.ActorThrottle"],
    "DEFAULT_RENDERER_CLASSES": ["controlplane.core.rest.OrjsonRenderer"],
    "DEFAULT_PARSER_CLASSES": ["controlplane.core.rest.StrictJSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "controlplane.core.rest.problem_exception_handler",
    "UNAUTHENTICATED_USER": None,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "OpenSRE control plane",
    "VERSION": "v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": [],
    "SERVE_AUTHENTICATION": [],
    "COMPONENT_SPLIT_REQUEST": True,
    "ENUM_NAME_OVERRIDES": {"ReviewState": "controlplane.reviews.models.ReviewState"},
}

# ---- uploaded files --------------------------------------------------------------------------------------------------
#: Where the bytes of uploads and attachments are: any Django storage, with its options (texts, ``name=value``).
UPLOAD_STORAGE: str = env.str("UPLOAD_STORAGE", default="django.core.files.storage.FileSystemStorage")
_upload_options: dict[str, Any] = dict(env.pairs("UPLOAD_STORAGE_OPTIONS"))
if UPLOAD_STORAGE.endswith(".FileSystemStorage"):
    _upload_options.setdefault("location", str(DATA_DIR / "uploads"))
    _upload_options |= {"file_permissions_mode": 0o600, "directory_permissions_mode": 0o700}
STORAGES["uploads"] = {"BACKEND": UPLOAD_STORAGE, "OPTIONS": _upload_options}
#: The largest file that is taken, in bytes.
UPLOAD_MAX_BYTES: int = env.int("UPLOAD_MAX_BYTES", default=20 * 1024 * 1024)

# ---- background work, runs, streams --------------------------------------------------------------------------------
TASKS_CHOICE: str = env.choice("TASKS", ("auto", "in_process", "procrastinate"), default="auto")
TASKS = task_backends(TASKS_CHOICE, DATABASES["default"])
#: Background tasks that one worker process does at once, beside its runs; only Procrastinate asks.
TASKS_CONCURRENCY: int = env.int("TASKS_CONCURRENCY", default=4)
#: Whether workers are woken by NOTIFY, which needs a session of their own; PgBouncer in transaction mode has none.
TASKS_LISTEN: bool = env.bool("TASKS_LISTEN", default=True)
#: ``runtime.kind`` → dotted path of the class. A deployment may add its own.
AGENT_RUNTIMES: dict[str, str] = {
    "builtin": "controlplane.runtimes.builtin.BuiltinRuntime",
    "replay": "controlplane.runtimes.replay.ReplayRuntime",
    "remote": "controlplane.runtimes.remote.RemoteRuntime",
}
DEFAULT_RUNTIME = "builtin"
EMBEDDED_WORKER: bool = env.bool("EMBEDDED_WORKER", default=not PRODUCTION)
WORKER_CONCURRENCY: int = env.int("WORKER_CONCURRENCY", default=4)
#: How long a worker that was told to stop lets its runs finish, before it hands them over or ends them.
WORKER_DRAIN_SECONDS: float = env.float("WORKER_DRAIN_SECONDS", default=25.0 if PRODUCTION else 5.0)
#: Runs at once in the whole installation, whatever the teams' own limits allow; 0 for no such limit.
RUNS_MAX_GLOBAL: int = env.int("RUNS_MAX_GLOBAL", default=0)
LEASE_SECONDS: int = env.int("LEASE_SECONDS", default=30)
SWEEP_SECONDS: float = env.float("SWEEP_SECONDS", default=5.0)
#: Proxies close a silent connection, some after 20 seconds: no setting makes the pause longer than 15.
STREAM_HEARTBEAT_SECONDS: float = min(env.float("STREAM_HEARTBEAT_SECONDS", default=15.0), 15.0)
STREAM_LIFETIME_SECONDS: float = env.float("STREAM_LIFETIME_SECONDS", default=780.0)
#: Open streams of this process at most: of everybody together, and of one organization.
STREAMS_MAX: int = env.int("STREAMS_MAX", default=5000)
STREAMS_MAX_PER_ORGANIZATION: int = env.int("STREAMS_MAX_PER_ORGANIZATION", default=2000)
#: How processes tell each other what was committed; ``auto``: by PostgreSQL, where that is the database.
EVENT_BUS: str = env.choice("EVENT_BUS", ("auto", "process", "postgres", "redis"), default="auto")
REDIS_URL: str = env.str("REDIS_URL", default="")
#: Where the bus over PostgreSQL connects; empty: where Django does. PgBouncer's transactions will not do.
BUS_DATABASE_URL: str = env.str("BUS_DATABASE_URL", default="")
#: Private networks (CIDR) that configured URLs may point into. Link-local and metadata addresses are never reached.
OUTBOUND_PRIVATE_ALLOW: list[str] = env.list(
    "OUTBOUND_PRIVATE_ALLOW", default=[] if PRODUCTION else ["127.0.0.0/8", "::1/128"]
)
METRICS_TOKEN: str = env.str("METRICS_TOKEN", default="")

# ---- credentials that configurations refer to ----------------------------------------------------------------------
#: Globs of the names that ``${NAME}`` may have.
CREDENTIAL_ENV_ALLOW: list[str] = env.list("CREDENTIAL_ENV_ALLOW", default=["OPENSRE_CRED_*"])
#: Directory of files named as the credentials whose values they hold; empty for none.
CREDENTIAL_FILES_DIR: str = env.str("CREDENTIAL_FILES_DIR", default="")

# ---- logs ----------------------------------------------------------------------------------------------------------
LOG_LEVEL: str = env.choice("LOG_LEVEL", ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), default="INFO")
LOG_FORMAT: str = env.choice("LOG_FORMAT", ("json", "console"), default="json" if PRODUCTION else "console")
LOGGING = logging_settings(LOG_LEVEL, LOG_FORMAT)
configure_logging()

# ---- last: every variable read above ---------------------------------------------------------------------------------
#: The variables of the process itself. None of them is ever a credential, whatever ``CREDENTIAL_ENV_ALLOW`` matches.
PROCESS_VARIABLES: frozenset[str] = frozenset(env.names)
