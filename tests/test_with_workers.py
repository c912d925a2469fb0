"""Runs `tests/workers/pages` in a process with an engine and users: their tables are installed at its start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings
from django.urls import NoReverseMatch, reverse

from devui.web import page_context
from tests.workers.team import own_database

ROOT = Path(__file__).resolve().parent.parent


def test_server_with_workers():
    with own_database() as database:
        outcome = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/workers/pages"],
            env={
                **os.environ,
                "DATABASE_URL": database,
                "DEVUI_ENGINE": "procrastinate",
                "DEVUI_SECRET_KEY": "a secret of the tests",
                "DEVUI_USERS": "1",
            },
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
    assert outcome.returncode == 0, outcome.stdout[-20_000:] + outcome.stderr[-2_000:]
    assert " passed" in outcome.stdout


def test_server_without_workers_has_no_page_of_them(client):
    assert not settings.DEVUI_ENGINE
    assert page_context.WORKERS not in page_context.list_places()
    with pytest.raises(NoReverseMatch):
        reverse("workers")
    assert client.get("/api/v1/workers").status_code == 404
