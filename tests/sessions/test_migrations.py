"""Migration of older stores without loss of rows or values; newer stores are refused."""

from __future__ import annotations

import gzip
import json
import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from sessions_app.errors import SchemaTooNew
from sessions_app.store import schema
from tests import forked_processes
from tests.store import store_url

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def empty_stores(tmp_path: Path, store: None) -> Iterator[Callable[[], str]]:
    """What makes a store that nobody has written, on the database that the tests run on, and returns its URL."""
    names = []

    def make() -> str:
        names.append(f"devui_old_{uuid.uuid4().hex[:12]}")
        if connection.vendor == "sqlite":
            return f"sqlite:///{tmp_path / names[-1]}"
        database = connection.settings_dict
        account = f"{database['USER']}:{database['PASSWORD']}" if database["PASSWORD"] else database["USER"]
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {names[-1]}")
        return f"postgresql://{account}@{database['HOST']}:{database['PORT']}/{names[-1]}"

    yield make
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for name in names:
                cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def empty_store(empty_stores: Callable[[], str]) -> str:
    """The URL of a store that nobody has written."""
    return empty_stores()


STORES = ROOT / "tests/data/stores"

EARLIER = {
    "first": ("0001_initial", "0001_initial"),
    "partly squashed": ("0010_events_are_found_by_their_ids", "0001_initial"),
    "before times of stopwatches": (
        "0020_processes_have_an_identity",
        "0006_attempts_say_what_they_wait_for",
    ),
    "before squashing": ("0018_failed_model_calls_are_found_at_once", "0005_runs_go_on_by_themselves"),
    "of an earlier squash": ("0023_plain_help_texts", "0009_plain_help_texts", "0001_squashed_0020"),
}
"""Stores of earlier versions -> the last migrations of sessions_app and evals_app, and a squash that is no more."""


@pytest.mark.parametrize(
    "migrations",
    [
        pytest.param(EARLIER["first"], id="first"),
        *(
            pytest.param(EARLIER[store], id=store, marks=pytest.mark.soak)
            for store in (
                "before squashing",
                "partly squashed",
                "before times of stopwatches",
                "of an earlier squash",
            )
        ),
    ],
)
def test_an_earlier_store_is_migrated_without_losing_a_row_or_a_value(
    empty_store: str, migrations: tuple[str, ...]
):
    sessions, evals, *squashes = migrations
    targets = [f"sessions_app.{sessions}", f"evals_app.{evals}", *squashes]
    report = told_by("tests.sessions.old_store", empty_store, *targets)
    assert report["lost"] == []
    assert report["without default"] == []
    assert report["tables"] > 20
    assert report["readable"] >= 2 * 20


def test_earlier_store_of_users_and_workers_is_migrated_and_its_audit_log_stays_append_only(empty_store: str):
    targets = [
        "sessions_app.0028_index_of_trends",
        "evals_app.0009_plain_help_texts",
        "accounts.0002_tokens_and_audit",
    ]
    environment = {"DEVUI_USERS": "1", "DEVUI_SECRET_KEY": "a secret of the tests"}
    if connection.vendor == "postgresql":
        targets.append("devui_workers.0001_initial")
        environment["DEVUI_ENGINE"] = "procrastinate"
    report = told_by("tests.sessions.old_store", empty_store, *targets, environment=environment)
    assert report["lost"] == []
    assert report["without default"] == []
    assert report["protected"] == ["UPDATE", "DELETE"]


@pytest.mark.soak
def test_squashed_migrations_make_the_same_schema(empty_stores: Callable[[], str]):
    one_by_one = told_by("tests.sessions.migrated_schema", empty_stores(), "one-by-one")
    squashed = told_by("tests.sessions.migrated_schema", empty_stores(), "squashed")
    assert squashed == one_by_one
    assert {"event_touching", "memory_words", "sessions_app_agentsession"} <= {
        name.partition(".")[0] for _, name, _ in squashed
    }


def test_squashed_migrations_are_reversible(empty_store: str):
    left = told_by("tests.sessions.migrated_schema", empty_store, "removed")
    assert {name.partition(".")[0] for _, name, _ in left} <= {
        "django_migrations",
        "django_migrations_id_seq",
        "django_migrations_pkey",
    }


@pytest.mark.parametrize(
    "version",
    [pytest.param("before-squashing-3e145a2", marks=pytest.mark.soak), "of-an-earlier-squash-39a1529"],
)
def test_recorded_store_of_older_version_opens_completely(tmp_path: Path, version: str):
    """See tests/data/stores: DevUI created it at that commit."""
    name = f"devui-0.1.0-{version.rpartition('-')[2]}"
    store = tmp_path / "devui.sqlite3"
    store.write_bytes(gzip.decompress((STORES / f"{name}.sqlite3.gz").read_bytes()))
    recorded = json.loads((STORES / f"{name}.json").read_text())
    report = told_by("tests.sessions.recorded_store", f"sqlite:///{store}", *recorded)
    assert report["lost"] == []
    assert all(
        report["rows"][f"sessions_app_{name}"] for name in ("event", "sessionstate", "statechange", "run")
    )
    evals = "/api/v1/evals/runs"
    assert [(run["id"], run["status"], run["counts"]) for run in report["told"].pop(evals)["runs"]] == [
        (run["id"], run["status"], run["counts"]) for run in recorded.pop(evals)["runs"]
    ]
    assert report["told"] == recorded


def told_by(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> Any:
    """Return what a program says, as JSON. `environment`: further variables."""
    variables = {**os.environ, **(environment or {})}
    done = forked_processes.run([sys.executable, "-m", module, *arguments], cwd=ROOT, env=variables)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.soak
@pytest.mark.parametrize("time", range(5))
def test_one_of_concurrent_programs_migrates_and_the_others_wait(empty_store: str, time: int):
    done = forked_processes.run(
        [sys.executable, "-m", "tests.sessions.concurrent_starts", empty_store, "6"], cwd=ROOT
    )
    assert done.returncode == 0, done.stderr
    assert "Waiting for another program that migrates" in done.stderr


@pytest.mark.soak
def test_concurrent_commands_share_the_new_store(empty_store: str, tmp_path: Path):
    environment = {**os.environ, "DATABASE_URL": empty_store, "DEVUI_DATA_DIR": str(tmp_path / "data")}
    weather = "examples/agents/weather"
    commands = [
        ["run_evals", weather, "lookups", "--json", str(tmp_path / "evals.json")],
        ["run_evals", weather, "lookups"],
        ["index_events"],
        ["purge_sessions", "--older-than", "30d"],
    ]
    started = [
        forked_processes.Popen(
            [sys.executable, "manage.py", *command], cwd=ROOT, env=environment, stderr=PIPE, text=True
        )
        for command in commands
    ]
    ended = [(process.communicate(timeout=120)[1], process.returncode) for process in started]
    assert [code for _, code in ended] == [0, 0, 0, 0], ended


@pytest.mark.soak
def test_program_killed_while_migrating_blocks_nobody(empty_store: str):
    command = [sys.executable, "-m", "tests.sessions.interrupted_migration", empty_store]
    with forked_processes.Popen(command, cwd=ROOT, stdout=PIPE, text=True) as stopped:
        assert stopped.stdout is not None
        assert stopped.stdout.readline() == "half made\n"
        stopped.kill()
    done = forked_processes.run(
        [sys.executable, "-m", "tests.sessions.concurrent_starts", empty_store, "2"], cwd=ROOT
    )
    assert done.returncode == 0, done.stderr


def test_a_store_that_is_up_to_date_is_not_locked(store, monkeypatch):
    monkeypatch.setattr(schema, "_lock_store", lambda: pytest.fail("It asks for the lock."))
    schema.ensure_schema()


def test_waiting_program_rechecks_and_keeps_the_migrated_store(store, monkeypatch):
    looks = iter([True, False])
    monkeypatch.setattr(schema, "_is_behind", lambda: next(looks))
    monkeypatch.setattr(schema, "call_command", lambda *what, **how: pytest.fail("It migrates."))
    schema.ensure_schema()
    assert list(looks) == []


def test_migrations_of_a_foreign_project_are_its_own_to_apply(store, monkeypatch):
    migrated = []
    looks = iter([True, True])
    monkeypatch.setattr(schema, "_is_behind", lambda: next(looks))
    monkeypatch.setattr(schema, "call_command", lambda *what, **how: migrated.append(what))
    schema.ensure_schema()
    assert migrated == [("migrate", "sessions_app"), ("migrate", "evals_app")]


def test_waiting_for_another_store_of_the_folder_names_the_folder(tmp_path, monkeypatch):
    messages, is_logged = [], threading.Event()

    def wait() -> None:
        with schema._lock_folder(tmp_path):
            pass

    def note(message: str) -> None:
        messages.append(message)
        is_logged.set()

    monkeypatch.setattr(schema.logger, "info", lambda *message: note(message[0] % message[1:]))
    thread = threading.Thread(target=wait)
    with schema._lock_folder(tmp_path):
        thread.start()
        assert is_logged.wait(60)
    thread.join(60)
    assert messages == [f"Waiting for another program that migrates a store in '{tmp_path}'."]


def test_two_that_would_make_the_store_take_turns(store, monkeypatch):
    """The lock is a connection's, or that of a folder as it was opened: threads are to each other as programs."""
    waits, done = threading.Event(), []
    monkeypatch.setattr(schema, "_log_wait", lambda store: waits.set())

    def second() -> None:
        try:
            with schema._lock_store():
                done.append("second")
        finally:
            connection.close()

    thread = threading.Thread(target=second)
    with schema._lock_store():
        thread.start()
        assert waits.wait(60)
        done.append("first")
    thread.join(60)
    assert done == ["first", "second"]


@pytest.mark.parametrize(
    "command",
    [
        ["export_sessions", "--output", "x"],
        ["import_sessions", "x"],
        ["run_evals", "examples/agents/weather", "lookups"],
    ],
    ids=lambda command: command[0],
)
def test_commands_report_unusable_store_in_one_line(command: list[str], tmp_path: Path):
    (tmp_path / "folder").mkdir()
    done = forked_processes.run(
        [sys.executable, "manage.py", *command],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path / 'folder'}"},
    )
    assert done.returncode == 2
    assert f"{tmp_path / 'folder'}' cannot be used: unable to open database file." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def newer_store(store: None) -> Iterator[None]:
    """A store that a later DevUI has migrated."""
    recorder = MigrationRecorder(connection)
    recorder.record_applied("sessions_app", "9999_from_the_future")
    yield
    recorder.record_unapplied("sessions_app", "9999_from_the_future")


def test_newer_store_is_refused_with_migration_and_hint(newer_store):
    with pytest.raises(SchemaTooNew, match=r"newer DevUI: it has .*9999_from_the_future") as refusal:
        schema.ensure_schema()
    assert "Update DevUI" in refusal.value.hint


def test_commands_refuse_newer_store_in_one_line(newer_store):
    command = [sys.executable, "manage.py", "purge_sessions", "--older-than", "30d"]
    done = forked_processes.run(command, cwd=ROOT, env={**os.environ, "DATABASE_URL": store_url()})
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "9999_from_the_future" in done.stderr


def test_rows_of_squashed_migrations_do_not_make_a_store_newer_or_older(store):
    recorder = MigrationRecorder(connection)
    squashed = {name for name in recorder.applied_migrations() if "_squashed_" in name[1]}
    assert squashed
    for name in squashed:
        recorder.record_unapplied(*name)
    recorder.record_applied("sessions_app", "0001_squashed_0020")
    try:
        assert not schema._is_behind()
    finally:
        recorder.record_unapplied("sessions_app", "0001_squashed_0020")
        for name in squashed:
            recorder.record_applied(*name)


def test_the_models_need_no_migration_that_is_not_there(store):
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
