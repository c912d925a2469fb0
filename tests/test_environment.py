"""Invalid environment variables end a command with one line before it does anything."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


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
    ended = subprocess.run(
        [sys.executable, "-m", "devui", "check"],
        env={**os.environ, "DATABASE_URL": "", "DEVUI_DATA_DIR": str(tmp_path), variable: value},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith(message)
    assert ended.stderr.count("\n") == 1


def test_log_level_is_case_insensitive(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "devui", "check"],
        env={**os.environ, "DEVUI_DATA_DIR": str(tmp_path), "DEVUI_LOG_LEVEL": "Warning"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stderr
