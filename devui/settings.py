"""Django settings of DevUI; all variable values come from the environment."""

import secrets
from pathlib import Path

from devui import embed
from devui.config import environment, single_sign_on

DATA_DIR = Path(environment.read_text("DEVUI_DATA_DIR", ".devui")).absolute()

SECRET_KEY = environment.read_secret("DEVUI_SECRET_KEY") or secrets.token_urlsafe(48)
DEVUI_ALLOW_ORIGINS = environment.read_list("DEVUI_ALLOW_ORIGINS")
ALLOWED_HOSTS = [
    *environment.read_list("DEVUI_ALLOWED_HOSTS", "127.0.0.1,localhost,[::1]"),
    *environment.origin_hosts(DEVUI_ALLOW_ORIGINS),
]
DEVUI_TRUSTED_PROXIES = environment.read_networks("DEVUI_TRUSTED_PROXIES")
DEVUI_MAX_BODY = environment.read_number("DEVUI_MAX_BODY_MB", 64) * 1024 * 1024
DEVUI_MAX_BODIES = environment.read_number("DEVUI_MAX_BODIES_MB", 256) * 1024 * 1024
DATA_UPLOAD_MAX_MEMORY_SIZE = (
    environment.read_number("DEVUI_MAX_JSON_MB", 32) * 1024 * 1024
)  # of a body without files
DATA_UPLOAD_MAX_NUMBER_FIELDS = 20_000  # the form of an eval case of many turns
DEVUI_AGENT_MEMORY_MB = environment.read_optional_number("DEVUI_AGENT_MEMORY_MB")
DEVUI_AGENT_CPU_S = environment.read_optional_number("DEVUI_AGENT_CPU_S")
DEVUI_AGENT_OPEN_FILES = environment.read_optional_number("DEVUI_AGENT_OPEN_FILES")
DEVUI_AGENT_PROCESSES = environment.read_optional_number("DEVUI_AGENT_PROCESSES")
DEVUI_AGENT_USER = environment.read_text("DEVUI_AGENT_USER")
"""System user that agents run as; empty: the server's."""

DEVUI_AGENT_DATABASE_URL = environment.read_text("DEVUI_AGENT_DATABASE_URL")
"""URL of the store for the processes of that user."""

DEVUI_MCP_WRITE = environment.read_flag("DEVUI_MCP_WRITE")
"""True if /mcp has tools that run agents and write files."""

DEVUI_EVAL_LEVEL = environment.read_share("DEVUI_EVAL_LEVEL", 0.05)
DEVUI_AGENTS_DIR = environment.read_text("DEVUI_AGENTS_DIR", ".")
DEVUI_URL_PREFIX = environment.read_url_path("DEVUI_URL_PREFIX")
FORCE_SCRIPT_NAME = DEVUI_URL_PREFIX or None

DEVUI_USERS = environment.read_flag("DEVUI_USERS")
"""True if people sign in as users with roles; False if all sign in with one password, or nobody has to."""

DEVUI_USER_HEADER = environment.read_user_header("DEVUI_USER_HEADER", DEVUI_TRUSTED_PROXIES, DEVUI_USERS)
"""Header in which a trusted proxy names the user that it has signed in; empty: none does."""

DEVUI_OIDC = single_sign_on.read_provider(DEVUI_USERS)
"""The OpenID Connect provider that signs people in; None: there is none."""

DEVUI_USER_APPS = ["contenttypes", "auth", "accounts"]
"""Labels of the apps with the tables of users."""

INSTALLED_APPS = [
    "django.contrib.staticfiles",
    *embed.APPS,
    *environment.USER_APPS,
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
    {"NAME": "devui.accounts.password_strength.VariedPasswordValidator"},
]

DEVUI_SOCKET_GUARD = "devui.accounts.guard.SocketGuard"
MIDDLEWARE = [
    *embed.GUARDS,
    "devui.accounts.guard.RequestGuard",
    "devui.web.middleware.StaticFiles",
    *embed.ANSWERS,
    *embed.BODIES,
]
DEVUI_LOGIN_REQUIRED = False  # refuse requests without a login: set by a server that listens on the network
APPEND_SLASH = False
SILENCED_SYSTEM_CHECKS = [  # `devui.web.middleware` does what they check
    "security.W001",  # ContentSecurity sends the headers
    "security.W002",  # its policy has `frame-ancestors 'none'`
    "security.W003",  # SameOriginWrites refuses what other sites send
]

ROOT_URLCONF = "devui.urls"
ASGI_APPLICATION = "devui.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {"context_processors": embed.CONTEXT_PROCESSORS},
    },
]

DATABASES = {
    "default": environment.database_settings(
        environment.read_store_url(f"sqlite:///{DATA_DIR / 'devui.sqlite3'}")
    )
}
DEVUI_ENGINE = environment.read_engine("DEVUI_ENGINE", DATABASES["default"])
DEVUI_ENGINE_APPS = ["procrastinate", "devui_workers"] if DEVUI_ENGINE else []
"""Labels of the apps with the tables of workers."""

if DEVUI_ENGINE:
    INSTALLED_APPS += environment.ENGINE_APPS
    DATABASES["default"]["OPTIONS"]["options"] += environment.ENGINE_OPTIONS
    DATABASES["default"]["OPTIONS"] = {**environment.ENGINE_TIMEOUTS, **DATABASES["default"]["OPTIONS"]}
DEVUI_TEMPORARY_STORE = environment.read_text("DEVUI_TEMPORARY_STORE")
DEVUI_SESSION_SERVICE = ""  # external store of sessions, set by the server's flag
DEVUI_ARTIFACT_SERVICE = ""  # the same for artifacts
DEVUI_MEMORY_SERVICE = ""  # the same for memory
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = f"{DEVUI_URL_PREFIX}/static/"
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True  # see `StaticFiles`
WHITENOISE_ALLOW_ALL_ORIGINS = False

LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "devui.config.log_redaction.RedactingFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": environment.read_log_level("DEVUI_LOG_LEVEL", "info")},
    "loggers": {
        "django.request": {"level": "ERROR"},
        "httpx": {"level": "WARNING"},
        "mcp": {"level": "WARNING"},
        "procrastinate": {"level": "WARNING"},
    },
}
