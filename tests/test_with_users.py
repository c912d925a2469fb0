"""The tests of `tests/accounts`, in a process with DEVUI_USERS=1: the tables of users are installed at its start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandError

from sessions_app.store.database import schema

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("marks", ["not soak", pytest.param("soak", marks=pytest.mark.soak)])
def test_server_with_users(marks):
    outcome = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", marks, "tests/accounts"],
        env={**os.environ, "DEVUI_USERS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert outcome.returncode == 0, outcome.stdout[-20_000:] + outcome.stderr[-2_000:]
    assert " passed" in outcome.stdout


def test_server_without_users_has_none_of_their_apps():
    assert not {"django.contrib.auth", "django.contrib.contenttypes", "devui.accounts"} & set(
        settings.INSTALLED_APPS
    )
    assert schema.APPS == ("sessions_app", "evals_app")


def test_command_for_users_names_the_switch():
    with pytest.raises(CommandError, match="set DEVUI_USERS=1") as refused:
        call_command("createuser", "ann", "--role", "admin")
    assert refused.value.returncode == 2
