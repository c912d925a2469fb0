"""A store of the first version is brought to the newest without losing a row or a value; a newer one is refused."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from sessions_app import schema
from sessions_app.errors import SchemaTooNew
from tests import warm
from tests.store import store_url

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def empty_store(tmp_path: Path, store: None) -> Iterator[str]:
    """The URL of a store that nobody has written, on the database that the tests run on."""
    if connection.vendor == "sqlite":
        yield f"sqlite:///{tmp_path / 'old.sqlite3'}"
        return
    name = f"devui_old_{uuid.uuid4().hex[:12]}"
    database = connection.settings_dict
    account = f"{database['USER']}:{database['PASSWORD']}" if database["PASSWORD"] else database["USER"]
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name}")
    yield f"postgresql://{account}@{database['HOST']}:{database['PORT']}/{name}"
    with connection.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_the_first_store_is_migrated_to_the_newest_without_losing_a_row_or_a_value(empty_store: str):
    done = warm.run([sys.executable, "-m", "tests.sessions.old_store", empty_store], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["lost"] == []
    assert report["tables"] > 20
    assert report["readable"] >= 2 * 20


@pytest.fixture
def newer_store(store: None) -> Iterator[None]:
    """A store that a later DevUI has migrated."""
    recorder = MigrationRecorder(connection)
    recorder.record_applied("sessions_app", "9999_from_the_future")
    yield
    recorder.record_unapplied("sessions_app", "9999_from_the_future")


def test_a_store_of_a_newer_devui_is_refused_with_its_migration_and_the_way_out(newer_store):
    with pytest.raises(SchemaTooNew, match=r"newer DevUI: it holds .*9999_from_the_future") as refusal:
        schema.ensure_schema()
    assert "Update DevUI" in refusal.value.hint


def test_the_commands_refuse_a_newer_store_in_one_line(newer_store):
    command = [sys.executable, "manage.py", "purge_sessions", "--older-than", "30d"]
    done = warm.run(command, cwd=ROOT, env={**os.environ, "DATABASE_URL": store_url()})
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "9999_from_the_future" in done.stderr


def test_the_models_need_no_migration_that_is_not_there(store):
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
