"""Django's settings, from the environment. Wiring only.

HEADGATE_DATA              the data folder, default ./data
HEADGATE_DEBUG             1: Django's debug pages, no caching of static files
HEADGATE_ALLOWED_HOSTS     host names besides the loopback ones, separated by commas
HEADGATE_TRUSTED_ORIGINS   origins (https://console.example.org) that may post forms and open WebSockets through a proxy
HEADGATE_HTTPS             1: the console is served by HTTPS only (through a proxy): secure cookies, HSTS
HEADGATE_PROXIES           addresses of reverse proxies whose X-Forwarded-For and -Proto are trusted, default none
HEADGATE_JOLOKIA_ORIGINS   origins of pages, such as a hawtio, that may call /jolokia/ from a browser, default none
HEADGATE_BROKER_HOST/PORT  address of the broker, default 127.0.0.1 and 5672
HEADGATE_BROKER_CONNECT    how to connect: dotted name of a coroutine function, default for Headgate's own broker
HEADGATE_BROKER_CA         file with the CA of the broker's certificate: connect with TLS, to the TLS port
HEADGATE_BROKER_SECRET     file with the password of the broker's user `console`, default <data>/broker/console.secret
HEADGATE_ADAPTERS_HOST/PORT  where `headgate adapters` (brokers of other kinds) listens, default 127.0.0.1, any port
HEADGATE_ADAPTERS_ADDRESS  the name or address by which other hosts reach it, default that of HEADGATE_ADAPTERS_HOST
HEADGATE_MAIL_HOST/PORT    the mail server for alerts, port 25 by default; without a host no mail is sent
HEADGATE_MAIL_USER         and HEADGATE_MAIL_PASSWORD_FILE: credentials for the mail server
HEADGATE_MAIL_TLS          starttls or tls, default neither; HEADGATE_MAIL_FROM: the sender's address
HEADGATE_URL               public URL of the console, for links in alerts
REDIS_URL                  Redis for Celery's messages; default: files in the data folder, which need no server
HEADGATE_HISTORY_URL       folder or URL (s3://…) of the flow history, default <data>/history
DATABASE_URL               default: SQLite in the data folder
HEADGATE_METRICS_NETWORKS  networks (10.0.0.0/8) that may read /metrics without a token, by commas; default none
HEADGATE_OIDC_…            sign-in at an OpenID Connect provider: see console/access/oidc_settings.py
"""

from __future__ import annotations

import ipaddress
import os
import sys
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import dj_database_url
from celery.schedules import crontab
from csp.constants import NONE, SELF

from brokers import input_limits, log_records
from console.access.oidc_settings import OidcSettingsError
from console.access.oidc_settings import from_environment as oidc_from_environment
from console.data_folder import DataFolderError, database, prepare, secret
from console.static_version import static_version

PACKAGE = Path(__file__).resolve().parent


def _words(variable: str) -> list[str]:
    return [word.strip() for word in os.environ.get(variable, "").split(",") if word.strip()]


def _port(variable: str, default: int) -> int:
    text = os.environ.get(variable) or str(default)
    if not text.isdecimal() or not 0 < int(text) < 1 << 16:
        sys.exit(f"{variable} is {text!r}: it must be a port number from 1 to 65535")
    return int(text)


def _networks(variable: str) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    try:
        return [ipaddress.ip_network(word) for word in _words(variable)]
    except ValueError as error:
        sys.exit(f"{variable} is {os.environ[variable]!r}: {error}")


def _file(variable: str) -> str:
    """Return the content of the file that the variable names; empty if it is not set."""
    try:
        return Path(os.environ[variable]).read_text().strip() if os.environ.get(variable) else ""
    except OSError as error:
        sys.exit(f"{variable} is {os.environ[variable]!r}, which cannot be read: {error.strerror}")


try:
    DATA = prepare(Path(os.environ.get("HEADGATE_DATA") or "data"))
    SECRET_KEY = secret(DATA / "console" / "django.secret")
    _DATABASE_FILE = DATA / "console" / "console.sqlite3"
    if not os.environ.get("DATABASE_URL"):
        database(_DATABASE_FILE)
    HEADGATE_OIDC = oidc_from_environment(os.environ)
except (DataFolderError, OidcSettingsError) as error:
    sys.exit(str(error))  # one line instead of a traceback

DEBUG = os.environ.get("HEADGATE_DEBUG") == "1"
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]", *_words("HEADGATE_ALLOWED_HOSTS")]
#: Empty: X-Forwarded-For is ignored, so that the audit trail has the real addresses.
HEADGATE_PROXIES = _words("HEADGATE_PROXIES")
#: Without a token, these read the metrics of all brokers. Empty: no network does.
HEADGATE_METRICS_NETWORKS = _networks("HEADGATE_METRICS_NETWORKS")
CSRF_TRUSTED_ORIGINS = _words("HEADGATE_TRUSTED_ORIGINS")
#: Empty: no page of another origin may call /jolokia/ (CORS is off).
HEADGATE_JOLOKIA_ORIGINS = _words("HEADGATE_JOLOKIA_ORIGINS")

# -- brokers ----------------------------------------------------------------------------------------------------

#: The brokers of this console; the first is the default. `connect` is the dotted name of a coroutine function
#: that takes `options` as keyword arguments and returns a `brokers.admin.BrokerAdmin`.
HEADGATE_BROKERS: list[dict[str, Any]] = [
    {
        "slug": "local",
        "title": "Local broker",
        "connect": os.environ.get("HEADGATE_BROKER_CONNECT") or "console.links.registry.connect_bundled",
        "options": {
            "host": os.environ.get("HEADGATE_BROKER_HOST") or "127.0.0.1",
            "port": _port("HEADGATE_BROKER_PORT", 5672),
            "user": "console",
            "ca": os.environ.get("HEADGATE_BROKER_CA") or "",
            "secret": os.environ.get("HEADGATE_BROKER_SECRET") or str(DATA / "broker" / "console.secret"),
        },
    },
]

#: The process of the adapters: where it listens, what other hosts connect to (`address`, "": that), where it stores,
#: and how links reach a broker there.
HEADGATE_ADAPTERS: dict[str, Any] = {
    "host": os.environ.get("HEADGATE_ADAPTERS_HOST") or "127.0.0.1",
    "port": _port("HEADGATE_ADAPTERS_PORT", 5679) if os.environ.get("HEADGATE_ADAPTERS_PORT") else 0,
    "address": os.environ.get("HEADGATE_ADAPTERS_ADDRESS") or "",
    "data": str(DATA / "adapters"),
    "connect": "console.links.registry.connect_adapted",
}
#: The file with the keys that encrypt the passwords of added brokers.
HEADGATE_BROKER_KEYS = str(DATA / "console" / "brokers.key")

# -- history ----------------------------------------------------------------------------------------------------

#: Location of the flow history; `console/history/storage/landing.py` describes its layout.
HEADGATE_HISTORY_URL = os.environ.get("HEADGATE_HISTORY_URL") or str(DATA / "history")

# -- applications -----------------------------------------------------------------------------------------------

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "servestatic",
    "channels",
    "csp",
    "axes",
    "rest_framework",
    "drf_spectacular",
    "django_celery_beat",
    "console",
    "console.access",
    "console.audit",
    "console.brokers",
    "console.history",
    "console.bulk",
    "console.messages",
    "console.selections",
    "console.preferences",
    "console.alerts",
    "console.schedules",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "console.access.sign_in_required.SignInRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "console.intake.requests.RequestLimitsMiddleware",  # before any view, and before forms are read for their token
    "axes.middleware.AxesMiddleware",  # last, as django-axes requires
]

ROOT_URLCONF = "console.urls"
ASGI_APPLICATION = "console.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [PACKAGE / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "builtins": ["console.pages.help_tags"],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

# -- database ---------------------------------------------------------------------------------------------------

DATABASES: dict[str, Any] = {
    "default": dj_database_url.parse(os.environ["DATABASE_URL"])
    if os.environ.get("DATABASE_URL")
    else {"ENGINE": "django.db.backends.sqlite3", "NAME": str(_DATABASE_FILE)}
}
if DATABASES["default"]["ENGINE"] == "django.db.backends.sqlite3":
    DATABASES["default"]["OPTIONS"] = {
        # Several processes share the file: readers do not wait for the writer (WAL), writers wait for each other
        # from the start of a transaction (IMMEDIATE) rather than failing in the middle of one.
        "timeout": 20,
        "transaction_mode": "IMMEDIATE",
        "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
    }
elif DATABASES["default"]["ENGINE"] == "django.db.backends.postgresql":
    # A connection whose other end is gone without a word fails within about half a minute, and not after the system's
    # quarter of an hour or two hours: sessions, leases and events wait for it. Options of the URL take precedence.
    DATABASES["default"]["OPTIONS"] = {
        "connect_timeout": 10,
        "tcp_user_timeout": 30_000,
        "keepalives_idle": 15,
        "keepalives_interval": 5,
        "keepalives_count": 3,
        **DATABASES["default"].get("OPTIONS", {}),
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

# -- background tasks -------------------------------------------------------------------------------------------

if os.environ.get("REDIS_URL"):
    CELERY_BROKER_URL = os.environ["REDIS_URL"]
else:
    # On one host, with few messages per minute, a transport through files suffices and needs no server
    _queue = DATA / "worker" / "queue"
    for _folder in (_queue, _queue / "control"):
        _folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    CELERY_BROKER_URL = "headgate-files://localhost/"
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "data_folder_in": str(_queue),
        "data_folder_out": str(_queue),
        "control_folder": str(_queue / "control"),
    }
CELERY_TASK_IGNORE_RESULT = True  # outcomes are in the database
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TIMEZONE = "UTC"
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False  # unused, and needs a queue per worker
CELERY_WORKER_PREFETCH_MULTIPLIER = 1  # prefetched messages are lost with a worker until the next sweep
CELERY_BEAT_SCHEDULER = "console.management.beat_scheduler:Scheduler"
CELERY_BEAT_MAX_LOOP_INTERVAL = 3  # s, within which a saved schedule takes effect
CELERY_RESULT_EXPIRES = None  # no results are stored
CELERY_BEAT_SCHEDULE = {
    # Messages expire before the next one is sent, so that a worker that was down does not run a task several times.
    "alerts-sweep": {"task": "alerts.sweep", "schedule": timedelta(seconds=5), "options": {"expires": 5}},
    "alerts-forget": {"task": "alerts.forget", "schedule": crontab(hour=3, minute=40), "options": {"expires": 7200}},
    "access-forget": {"task": "access.forget", "schedule": crontab(hour=3, minute=50), "options": {"expires": 7200}},
    "schedules-forget": {
        "task": "schedules.forget",
        "schedule": crontab(hour=3, minute=45),
        "options": {"expires": 7200},
    },
    "bulk-forget": {"task": "bulk.forget", "schedule": crontab(hour=3, minute=55), "options": {"expires": 7200}},
    "message-jobs-forget": {
        "task": "message_jobs.forget",
        "schedule": crontab(hour=3, minute=57),
        "options": {"expires": 7200},
    },
    "message-jobs-sweep": {"task": "message_jobs.sweep", "schedule": timedelta(seconds=5), "options": {"expires": 5}},
    "schedules-sweep": {"task": "schedules.sweep", "schedule": timedelta(seconds=15), "options": {"expires": 15}},
    "bulk-sweep": {"task": "bulk.sweep", "schedule": timedelta(seconds=15), "options": {"expires": 15}},
    "history-run": {"task": "history.run", "schedule": timedelta(minutes=10), "options": {"expires": 540}},
    "history-compact": {
        "task": "history.compact",
        "schedule": crontab(hour=2, minute=10),
        "options": {"expires": 7200},
    },
    "history-retain": {"task": "history.retain", "schedule": crontab(hour=3, minute=10), "options": {"expires": 7200}},
    "history-advise": {"task": "history.advise", "schedule": crontab(hour=4, minute=10), "options": {"expires": 7200}},
}

# -- mail, for alerts -------------------------------------------------------------------------------------------

EMAIL_HOST = os.environ.get("HEADGATE_MAIL_HOST") or ""  # empty: no mail is sent
EMAIL_PORT = _port("HEADGATE_MAIL_PORT", 25)
EMAIL_HOST_USER = os.environ.get("HEADGATE_MAIL_USER") or ""
EMAIL_HOST_PASSWORD = _file("HEADGATE_MAIL_PASSWORD_FILE")
EMAIL_USE_TLS = os.environ.get("HEADGATE_MAIL_TLS") == "starttls"
EMAIL_USE_SSL = os.environ.get("HEADGATE_MAIL_TLS") == "tls"
EMAIL_TIMEOUT = 10
DEFAULT_FROM_EMAIL = os.environ.get("HEADGATE_MAIL_FROM") or "headgate@localhost"
#: Public URL of the console, for links in notifications and as a trusted origin. Empty: what an administrator entered
#: (`console/alerts/console_url.py`), for links alone.
HEADGATE_URL = os.environ.get("HEADGATE_URL") or ""

# -- users ------------------------------------------------------------------------------------------------------

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "overview"
LOGOUT_REDIRECT_URL = "login"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]

#: The first one refuses sign-ins after too many failures; it has no users of its own.
AUTHENTICATION_BACKENDS = [
    "axes.backends.AxesStandaloneBackend",
    *(["console.access.oidc.OidcBackend"] if HEADGATE_OIDC else []),
    "django.contrib.auth.backends.ModelBackend",
]
#: After this number of failures a user name is locked for an address. Failures are stored in the database, so that all
#: web processes count together and a restart does not reset them.
AXES_FAILURE_LIMIT = 5
AXES_COOLOFF_TIME = timedelta(minutes=5)
AXES_LOCKOUT_PARAMETERS = [["username", "ip_address"]]
AXES_RESET_ON_SUCCESS = True
AXES_RESET_COOL_OFF_ON_FAILURE_DURING_LOCKOUT = False
AXES_HANDLER = "console.access.sign_in_failures.SignInFailures"
AXES_LOCKOUT_CALLABLE = "console.pages.sign_in.locked_out"
AXES_DISABLE_ACCESS_LOG = True  # the audit trail has sign-ins (console/access/sign_ins.py)
AXES_ENABLE_ADMIN = AXES_VERBOSE = False

HTTPS = os.environ.get("HEADGATE_HTTPS") == "1"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = HTTPS
SECURE_HSTS_SECONDS = 3600 if HTTPS else 0  # long enough against downgrades, short enough to revert
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_NAME = "headgate_session"
CSRF_COOKIE_NAME = "headgate_csrf"
CSRF_COOKIE_HTTPONLY = True  # scripts get the token from the page's body, not from the cookie
CSRF_COOKIE_SAMESITE = "Lax"

# -- headers ----------------------------------------------------------------------------------------------------

CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": [SELF],
        "script-src": [SELF],
        "style-src": [SELF, "'unsafe-inline'"],  # Plotly writes inline styles
        "img-src": [SELF, "data:", "blob:"],
        "connect-src": [SELF],
        "object-src": [NONE],
        "base-uri": [SELF],
        "frame-ancestors": [NONE],
        "form-action": [SELF],
    }
}
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

# -- static files -----------------------------------------------------------------------------------------------

_plotly = find_spec("plotly")
assert _plotly is not None
assert _plotly.origin is not None
STATICFILES_DIRS = [("plotly", Path(_plotly.origin).parent / "package_data"), ("help", PACKAGE / "pictures")]
STATIC_URL = "/static/"
if not DEBUG:
    _version = static_version([PACKAGE / "static", PACKAGE / "pictures"], ["plotly", "django", "djangorestframework"])
    STATIC_URL = f"/static/{_version}/"
    SERVESTATIC_MAX_AGE = 365 * 24 * 3600  # the URL has the version of the content
SERVESTATIC_USE_FINDERS = True
SERVESTATIC_ALLOW_ALL_ORIGINS = False

# -- texts, times, log ------------------------------------------------------------------------------------------

LANGUAGE_CODE = "en-gb"
USE_TZ = True
TIME_ZONE = "UTC"

LOGGED_AS_JSON = ("console.audit", "console.intake.request_ids")
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"}},
    "handlers": {
        "stderr": {"class": "brokers.log_records.Handler"}
        if log_records.is_json()
        else {"class": "logging.StreamHandler", "formatter": "line"}
    },
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {
        "django": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        # Refused requests are reported to the client, not in the server's log.
        "django.request": {"handlers": ["stderr"], "level": "ERROR", "propagate": False},
        "axes": {"handlers": ["stderr"], "level": "WARNING", "propagate": False},
        "console": {"handlers": ["stderr"], "level": "INFO", "propagate": False},
        # A record of each request and audit entry is for those who collect logs; people read the audit trail.
        **({} if log_records.is_json() else {name: {"level": "WARNING"} for name in LOGGED_AS_JSON}),
    },
}

# -- API --------------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "console.api.authentication.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["console.api.permission.HasAnyRole"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["console.intake.parser.LimitedJSONParser"],
    "EXCEPTION_HANDLER": "console.api.errors.exception_handler",
    "DEFAULT_SCHEMA_CLASS": "console.api.operation_schema.OperationSchema",
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
DATA_UPLOAD_MAX_MEMORY_SIZE = input_limits.BODY
DATA_UPLOAD_MAX_NUMBER_FIELDS = input_limits.FIELDS
SPECTACULAR_SETTINGS = {
    "TITLE": "Headgate",
    "DESCRIPTION": "Monitor and control the producer flow control of message brokers. Undeclared parameters and fields,"
    " values that their schema does not allow (types are not converted), and input above these limits are refused with"
    f" 400 and the field's name (413: body too large; 414: URL too long):\n\n{input_limits.table()}\n\n"
    "Tools for JMX use /jolokia/, which speaks Jolokia's protocol and is not described here.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["console.api.permission.HasAnyRole"],
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_PATCH": False,  # show which fields a PATCH requires
    "POSTPROCESSING_HOOKS": [],
    "AUTHENTICATION_WHITELIST": [
        "console.api.authentication.BearerAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
}
