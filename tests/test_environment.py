"""Invalid environment variables end a command with one line before it does anything."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from django.conf import settings

from devui import agent_settings
from devui.__main__ import main
from devui.config import environment
from sessions_app.store.database import schema
from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.runtime.web_command import ROOT


def variables_of(folder, variables):
    return {**os.environ, "DATABASE_URL": "", "DEVUI_DATA_DIR": str(folder), **variables}


def check(folder, variables):
    """Run `devui check` with variables."""
    command = [sys.executable, "-m", "devui", "check"]
    return forked_processes.run(command, cwd=ROOT, env=variables_of(folder, variables))


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        (
            "DEVUI_LOG_LEVEL",
            "loud",
            "DEVUI_LOG_LEVEL='loud' is not a log level: use one of debug, info, warning",
        ),
        ("DEVUI_URL_PREFIX", "http://[", "DEVUI_URL_PREFIX='http://[' is not a path"),
        ("DEVUI_ALLOW_ORIGINS", "http://[", "DEVUI_ALLOW_ORIGINS: 'http://[' is not an origin"),
        ("DEVUI_MAX_BODY_MB", "none", "DEVUI_MAX_BODY_MB='none' is not a positive whole number"),
        ("DEVUI_MAX_JSON_MB", "0", "DEVUI_MAX_JSON_MB='0' is not a positive whole number"),
        ("DEVUI_MAX_BODIES_MB", "-1", "DEVUI_MAX_BODIES_MB='-1' is not a positive whole number"),
        ("DEVUI_AGENT_MEMORY_MB", "2GB", "DEVUI_AGENT_MEMORY_MB='2GB' is not a positive whole number"),
        ("DEVUI_USER_HEADER", "X-User", "DEVUI_USER_HEADER='X-User' needs DEVUI_USERS=1"),
        (
            "DEVUI_OIDC_ISSUER",
            "https://a.example",
            "DEVUI_OIDC_ISSUER='https://a.example' needs DEVUI_USERS=1",
        ),
        ("DEVUI_SECRET_KEY_FILE", "/nowhere", "DEVUI_SECRET_KEY_FILE='/nowhere' cannot be read: "),
        ("DEVUI_USERS", "yes", "DEVUI_USERS='yes' is neither 1 nor 0"),
        ("DEVUI_EVAL_LEVEL", "5", "DEVUI_EVAL_LEVEL='5' is not a number between 0 and 1"),
        ("DEVUI_EVAL_LEVEL", "nan", "DEVUI_EVAL_LEVEL='nan' is not a number between 0 and 1"),
        ("DEVUI_TRUSTED_PROXIES", "nginx", "DEVUI_TRUSTED_PROXIES: 'nginx' is not an IP address or network"),
        ("DEVUI_TRUSTED_PROXIES", "10.0.0.1/8", "DEVUI_TRUSTED_PROXIES: '10.0.0.1/8' is not an IP address"),
        ("DEVUI_TRUSTED_PROXIES", "*", "DEVUI_TRUSTED_PROXIES: '*' is not an IP address or network"),
        ("DEVUI_ENGINE", "celery", "DEVUI_ENGINE='celery' is not an engine: use procrastinate"),
        ("DEVUI_ENGINE", "procrastinate", "DEVUI_ENGINE='procrastinate' needs PostgreSQL: set DATABASE_URL="),
        (
            "DATABASE_URL",
            "mysql://here/name",
            "DATABASE_URL='mysql://here/name' is not a supported store URL",
        ),
    ],
)
def test_invalid_variable_is_refused_in_one_line(tmp_path, variable, value, message):
    ended = check(tmp_path, {variable: value})
    assert ended.returncode == 2
    assert ended.stderr.startswith(message)
    assert ended.stderr.count("\n") == 1


def test_log_level_is_case_insensitive(tmp_path):
    ended = check(tmp_path, {"DEVUI_LOG_LEVEL": "Warning"})
    assert ended.returncode == 0, ended.stderr


OIDC = {
    "DEVUI_USERS": "1",
    "DEVUI_OIDC_ISSUER": "https://a.example",
    "DEVUI_OIDC_CLIENT_ID": "devui",
    "DEVUI_OIDC_CLIENT_SECRET": "hush",
}


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"DEVUI_OIDC_ISSUER": "a.example"}, "DEVUI_OIDC_ISSUER='a.example' is not an https:// URL"),
        (
            {"DEVUI_OIDC_ISSUER": "http://a.example"},
            "DEVUI_OIDC_ISSUER='http://a.example' is not an https:// URL",
        ),
        ({"DEVUI_OIDC_ISSUER": "https://a:b"}, "DEVUI_OIDC_ISSUER='https://a:b' is not an https:// URL"),
        (
            {"DEVUI_OIDC_CLIENT_ID": ""},
            "DEVUI_OIDC_ISSUER='https://a.example' needs DEVUI_OIDC_CLIENT_ID and",
        ),
        (
            {"DEVUI_OIDC_CLIENT_SECRET_FILE": "/s"},
            "DEVUI_OIDC_CLIENT_SECRET and DEVUI_OIDC_CLIENT_SECRET_FILE are both",
        ),
        (
            {"DEVUI_OIDC_DEFAULT_ROLE": "boss"},
            "DEVUI_OIDC_DEFAULT_ROLE='boss' is not a role: use one of reader,",
        ),
        (
            {"DEVUI_OIDC_GROUP_ROLES": "devs"},
            "DEVUI_OIDC_GROUP_ROLES='devs' does not give groups one of the roles",
        ),
        (
            {"DEVUI_OIDC_GROUP_ROLES": "a=boss"},
            "DEVUI_OIDC_GROUP_ROLES='a=boss' does not give groups one of the",
        ),
    ],
)
def test_invalid_settings_of_single_sign_on_are_refused_in_one_line(tmp_path, variables, message):
    ended = check(tmp_path, {**OIDC, **variables})
    assert ended.returncode == 2
    assert ended.stderr.startswith(message)
    assert ended.stderr.count("\n") == 1


def test_secret_of_single_sign_on_comes_from_a_file(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("hush\n")
    variables = {**OIDC, "DEVUI_OIDC_CLIENT_SECRET": "", "DEVUI_OIDC_CLIENT_SECRET_FILE": str(secret)}
    assert check(tmp_path, variables).returncode == 0


def test_without_single_sign_on_its_library_is_not_imported(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "devui", "check"],
        env=variables_of(tmp_path, {"DEVUI_USERS": "1"}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert "django.contrib.auth" in ended.stderr
    assert "joserfc" not in ended.stderr


def test_runtimes_have_the_settings_without_users(monkeypatch):
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "devui.settings")
    assert environment.runtime_environment()["DJANGO_SETTINGS_MODULE"] == "devui.agent_settings"
    assert [*agent_settings.INSTALLED_APPS, *environment.USER_APPS] == settings.INSTALLED_APPS
    assert schema.APPS[:3] == ("contenttypes", "auth", "accounts")
    assert agent_settings.DEVUI_USER_APPS == []


@pytest.mark.parametrize(
    ("command", "settings_module"), [("run_evals", "devui.agent_settings"), ("migrate", "devui.settings")]
)
def test_command_that_needs_no_users_loads_none(
    monkeypatch: pytest.MonkeyPatch, command: str, settings_module: str
):
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE")
    monkeypatch.setattr("sys.argv", ["devui", command])
    monkeypatch.setattr("django.core.management.execute_from_command_line", lambda argv: None)
    for name in ("gc.disable", "gc.freeze"):
        monkeypatch.setattr(name, lambda: None)
    main()
    assert os.environ["DJANGO_SETTINGS_MODULE"] == settings_module
