"""Settings, all from the environment; the defaults run on one machine with nothing but Python."""

import hashlib
import os
import socket
from pathlib import Path

from conductor_site.env import (
    env_base_url,
    env_bool,
    env_choice,
    env_database,
    env_int,
    env_list,
    env_networks,
    env_organisation,
    env_prefix,
    env_secret,
    env_text,
)
from conductor_site.logs import FORMATS, logging_config

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(env_text("CONDUCTOR_DATA", str(BASE_DIR / "var"))).resolve()

DEBUG = env_bool("CONDUCTOR_DEBUG", False)
SECRET_KEY = env_secret("CONDUCTOR_SECRET_KEY", DATA_DIR / "secret_key")
ALLOWED_HOSTS = env_list("CONDUCTOR_HOSTS", ["localhost", "127.0.0.1", "[::1]"])
CSRF_TRUSTED_ORIGINS = env_list("CONDUCTOR_ORIGINS", [])
# Below which path of the proxy's host the site lies; the proxy takes it off before it asks us.
PREFIX = env_prefix("CONDUCTOR_PREFIX")
FORCE_SCRIPT_NAME = PREFIX or None
SESSION_COOKIE_PATH = CSRF_COOKIE_PATH = PREFIX or "/"

INSTALLED_APPS = [
    "conductor_site.admin_config.ConductorAdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "whitenoise.runserver_nostatic",
    "django.contrib.staticfiles",
    "django_q",
    "django_htmx",
    "django_filters",
    "rest_framework",
    "knox",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "record",
    "jobs",
    "gates",
    "runs",
    "conductor_site",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "conductor_site.middleware.ContentSecurityPolicy",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "conductor_site.accounts.sessions.SessionLimits",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "conductor_site.middleware.ErrorsInWords",
    "conductor_site.middleware.ShortCalls",
]

ROOT_URLCONF = "conductor_site.urls"
WSGI_APPLICATION = "conductor_site.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "conductor_site.context.navigation",
            ],
        },
    },
]

SQLITE_TIMEOUT_S = env_int("CONDUCTOR_SQLITE_TIMEOUT_S", 20, minimum=1)
SQLITE = {
    "ENGINE": "django.db.backends.sqlite3",
    "NAME": env_text("CONDUCTOR_SQLITE", str(DATA_DIR / "conductor.sqlite3")),
    "OPTIONS": {
        "timeout": SQLITE_TIMEOUT_S,
        "transaction_mode": "IMMEDIATE",  # a reader that turns writer would fail at once, without the timeout
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;",
    },
    "CONN_MAX_AGE": 60,
}
DATABASES = {"default": env_database(SQLITE)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
# An OpenID Connect provider whose people sign in without a password here, and whose groups give roles.
OIDC = env_organisation(["viewer", "operator", "reviewer", "administrator"])
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend"]
if OIDC is not None:
    AUTHENTICATION_BACKENDS.append("conductor_site.accounts.oidc.OrganisationBackend")
LOGIN_URL = "login"
CSRF_FAILURE_VIEW = "conductor_site.views.csrf_failure"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "login"

LANGUAGE_CODE = "en-gb"
TIME_ZONE = env_text("CONDUCTOR_TIME_ZONE", "UTC")
USE_TZ = True

STATIC_URL = f"{PREFIX}/static/"
STATIC_ROOT = DATA_DIR / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}

# Uploads are streamed to disk and refused beyond this; nothing in Conductor takes larger ones.
UPLOAD_LIMIT_BYTES = env_int("CONDUCTOR_UPLOAD_LIMIT_MIB", 64, minimum=1) * 1024 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = 4 * 1024 * 1024
FILE_UPLOAD_HANDLERS = ["django.core.files.uploadhandler.TemporaryFileUploadHandler"]

HTTPS = env_bool("CONDUCTOR_HTTPS", False)
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SECURE_SSL_REDIRECT = HTTPS
SECURE_REDIRECT_EXEMPT = [r"(^|/)healthz$"]  # asked on this machine, past the proxy that speaks TLS
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
# Not for subdomains, nor for browsers' lists: below a path, or at the top of a domain, those are for others to decide.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if env_bool("CONDUCTOR_BEHIND_PROXY", False) else None
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# A session ends when nobody used it for so long, and in any case so long after signing in.
SESSION_IDLE_S = env_int("CONDUCTOR_SESSION_IDLE_H", 72, minimum=1) * 3600
SESSION_LONGEST_S = env_int("CONDUCTOR_SESSION_LONGEST_D", 14, minimum=1) * 24 * 3600
SESSION_COOKIE_AGE = SESSION_LONGEST_S

# The name by which local targets belong to this machine.
HOST_NAME = env_text("CONDUCTOR_HOST_NAME", "") or socket.gethostname()
# This data folder on this host: several may share one PostgreSQL, each with a `conduct` and a task cluster of its own.
INSTALLATION = f"{HOST_NAME[:60]}:{hashlib.sha256(str(DATA_DIR).encode()).hexdigest()[:12]}"

# A task is a nudge: short, may run twice, late or never. queue_limit 1 keeps the lease from running while a task waits.
Q_CLUSTER = {
    "name": "conductor",
    "cluster_name": INSTALLATION,  # the queue: no cluster takes another's pulse, by which its own `conduct` judges it
    "orm": "default",
    "workers": env_int("CONDUCTOR_Q_WORKERS", 2, minimum=1),
    "queue_limit": 1,
    "bulk": 1,
    "poll": 1.0,
    "timeout": 180,
    "retry": 400,
    "max_attempts": 3,
    "ack_failures": True,
    "catch_up": False,
    "save_limit": 250,
    "guard_cycle": 5,
    "label": "Tasks",
}

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "conductor_site.api.tokens.ApiTokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": [
        "rest_framework.permissions.IsAuthenticated",
        "conductor_site.api.tokens.TokenAllows",
    ],
    "DEFAULT_PARSER_CLASSES": ["conductor_site.api.bodies.JSONBody"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PAGINATION_CLASS": "conductor_site.api.paging.Pages",
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_THROTTLE_CLASSES": ["conductor_site.api.limits.RequestLimit"],
    "EXCEPTION_HANDLER": "conductor_site.api.refusals.explain",
}
# How many requests a minute one token (or one person without one) may make; a page's own traffic does not count.
API_READS_A_MINUTE = env_int("CONDUCTOR_API_READS_A_MINUTE", 1200, minimum=1)
API_COMMANDS_A_MINUTE = env_int("CONDUCTOR_API_COMMANDS_A_MINUTE", 300, minimum=1)
# For how long the answer to a command is given again under its Idempotency-Key.
REPEATS_KEPT_DAYS = env_int("CONDUCTOR_REPEATS_KEPT_DAYS", 7, minimum=1)
REST_KNOX = {"AUTO_REFRESH": False}
KNOX_TOKEN_MODEL = "conductor_site.ApiToken"  # noqa: S105 (a model's name)
SPECTACULAR_SETTINGS = {
    "TITLE": "Conductor",
    "DESCRIPTION": "Runs, phases, gates with their evidence, and the record of decisions.",
    "VERSION": "1",
    "SERVERS": [{"url": PREFIX}] if PREFIX else [],
    "OAS_VERSION": "3.1.1",
    "SCHEMA_PATH_PREFIX": r"/api/v1",
    "SERVE_INCLUDE_SCHEMA": False,
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "conductor_site.api.schema.complete",
    ],
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
    "ENUM_NAME_OVERRIDES": {
        "ActorKindEnum": "record.models.ActorKind",
        "AskStateEnum": "jobs.agents.states.AskState",
        "ChannelKindEnum": "record.notices.models.ChannelKind",
        "DeliveryStateEnum": "record.notices.models.DeliveryState",
        "GateStateEnum": "gates.states.GateState",
        "JobStateEnum": "jobs.states.JobState",
        "PhaseStateEnum": "runs.states.PhaseState",
        "RunStateEnum": "runs.states.RunState",
    },
}

# How long a submitter that gives no sign of life is left alone with a job that it has claimed.
JOB_CLAIM_LEASE_S = env_int("CONDUCTOR_JOB_CLAIM_LEASE_S", 60, minimum=1)
# How long whoever began to apply a gate's decision is left alone with it.
GATE_APPLY_LEASE_S = env_int("CONDUCTOR_GATE_APPLY_LEASE_S", 180, minimum=1)
# A task cluster that leaves its pulse untaken for so long, while nothing keeps it busy, is started anew.
CLUSTER_HUNG_AFTER_S = env_int("CONDUCTOR_CLUSTER_HUNG_AFTER_S", 60, minimum=1)

# Where Conductor keeps what is not in the database.
# Several hosts on one database share evidence and snapshots of pipelines: in a folder that all of them see.
SHARED_DIR = Path(shared).resolve() if (shared := env_text("CONDUCTOR_SHARED", "")) else None
EVIDENCE_ROOT = (SHARED_DIR or DATA_DIR) / "evidence"
AGENT_OUTPUT_ROOT = (SHARED_DIR or DATA_DIR) / "agents"
SNAPSHOT_ROOT = (SHARED_DIR or DATA_DIR) / "snapshots"
RECORD_HEADS = DATA_DIR / "record_heads.jsonl"
API_LIMITS = DATA_DIR / "api_limits"  # counts of this minute's requests
CONDUCT_SOCKET = DATA_DIR / "conduct.sock"
# Where the sockets of shared SSH connections lie: a short path, since theirs may have 104 bytes at most.
SSH_CONTROL_FOLDER = env_text("CONDUCTOR_SSH_CONTROL", f"/tmp/conductor-ssh-{os.getuid()}")  # noqa: S108 - mode 0700
# How long a page or an answer of the API waits for targets, all calls together.
TARGET_WAIT_S = env_int("CONDUCTOR_TARGET_WAIT_S", 8, minimum=1)
# Between asking a job to end (SIGTERM) and killing it.
JOB_GRACE_S = env_int("CONDUCTOR_JOB_GRACE_S", 10)
# A job whose logs take more of the disk than this is ended.
JOB_LOG_LIMIT_MIB = env_int("CONDUCTOR_JOB_LOG_LIMIT_MIB", 10_240, minimum=1)
# GiB that the evidence of one lab may take; 0: no limit but the disk.
EVIDENCE_QUOTA_GIB = env_int("CONDUCTOR_EVIDENCE_QUOTA_GIB", 0)
# The user as whom agents' programs run where bubblewrap is missing and Conductor is root.
AGENT_USER = env_text("CONDUCTOR_AGENT_USER", "")
# Folders from which pipelines may be loaded.
PIPELINE_ROOTS = [Path(p) for p in env_list("CONDUCTOR_PIPELINES", [str(BASE_DIR / "pipelines")])]

# Who may read /metrics: whoever knows the token, and these addresses; nobody, where neither is set.
METRICS_TOKEN = env_secret("CONDUCTOR_METRICS_TOKEN")
METRICS_FROM = env_networks("CONDUCTOR_METRICS_FROM")

# Under which address people reach the site, and how mail leaves (notices, new passwords). Without a host none is sent.
BASE_URL = env_base_url("CONDUCTOR_BASE_URL")
EMAIL_HOST = env_text("CONDUCTOR_EMAIL_HOST", "")
EMAIL_PORT = env_int("CONDUCTOR_EMAIL_PORT", 25, minimum=1, maximum=65535)
EMAIL_HOST_USER = env_text("CONDUCTOR_EMAIL_USER", "")
EMAIL_HOST_PASSWORD = env_secret("CONDUCTOR_EMAIL_PASSWORD")
EMAIL_SECURITY = env_choice("CONDUCTOR_EMAIL_SECURITY", "NONE", ["NONE", "STARTTLS", "TLS"]).lower()
EMAIL_USE_TLS, EMAIL_USE_SSL = EMAIL_SECURITY == "starttls", EMAIL_SECURITY == "tls"
EMAIL_TIMEOUT = 15
DEFAULT_FROM_EMAIL = SERVER_EMAIL = env_text("CONDUCTOR_EMAIL_FROM", f"Conductor <conductor@{HOST_NAME}>")
NOTICE_SECRETS = DATA_DIR / "secrets"
# Networks that webhooks may reach although they are not public.
WEBHOOK_PRIVATE = env_networks("CONDUCTOR_WEBHOOK_PRIVATE")
# How long whoever sends notices is left alone with what it has claimed; how long a notice is tried.
NOTICE_LEASE_S = env_int("CONDUCTOR_NOTICE_LEASE_S", 120, minimum=1)
NOTICE_GIVE_UP_H = env_int("CONDUCTOR_NOTICE_GIVE_UP_H", 72, minimum=1)

LOG_LEVEL = env_choice("CONDUCTOR_LOG_LEVEL", "INFO", ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"])
LOG_FORMAT = env_choice("CONDUCTOR_LOG_FORMAT", "LINE", FORMATS)
LOGGING = logging_config(level=LOG_LEVEL, form=LOG_FORMAT)
