"""Creation of new stores by one of several programs; stores of other versions are opened or refused."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import PIPE
from types import ModuleType
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection
from django.db.migrations.recorder import MigrationRecorder

from sessions_app.store.database import new_store, schema
from sessions_app.store.errors import SchemaTooNew, SchemaTooOld
from tests import forked_processes
from tests.patience import PATIENCE_S
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

STORE_BEFORE_RELEASE = "devui-0.1.0-bc53678"
"""See tests/data/stores: DevUI created it at that commit, the last one before all migrations of an app became one."""


def test_migrations_are_reversible(empty_store: str):
    remaining_tables = output_of("tests.sessions.removed_tables", empty_store)
    assert set(remaining_tables) <= {"django_migrations"}


@pytest.mark.parametrize("settings", ["devui.agent_settings", "devui.settings"])
def test_new_store_has_what_migrations_leave(settings: str, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", settings)
    scripts, migrations = (
        output_of("tests.sessions.new_store_content", f"sqlite:///{tmp_path / way}.sqlite3", way)
        for way in ("scripts", "migrations")
    )
    assert scripts == migrations


def test_scripts_of_new_stores_are_up_to_date(tmp_path: Path):
    subprocess.run([sys.executable, "deploy/write_new_stores.py", str(tmp_path)], cwd=ROOT, check=True)
    written = {file.relative_to(tmp_path): file.read_text() for file in tmp_path.rglob("*.sql")}
    assert len(written) == 2
    assert {name: (ROOT / name).read_text() for name in written} == written, "make new-store"


def test_script_that_fails_leaves_no_table(store, tmp_path: Path):
    if connection.vendor != "sqlite":
        pytest.skip("Scripts are for SQLite.")
    (tmp_path / new_store.SCRIPT).write_text("CREATE TABLE first_table (id integer);\n\nCREATE TABLE;\n")
    migrations = ModuleType("migrations")
    migrations.__path__ = [str(tmp_path)]
    with pytest.raises(DatabaseError):
        new_store.create_tables("unknown_app", migrations)
    assert "first_table" not in connection.introspection.table_names()


@pytest.fixture
def store_before_release(tmp_path: Path) -> Path:
    """A store of the last version before the first release."""
    file = tmp_path / "devui.sqlite3"
    file.write_bytes(gzip.decompress((STORES / f"{STORE_BEFORE_RELEASE}.sqlite3.gz").read_bytes()))
    return file


def test_store_of_the_last_version_before_release_opens_completely(store_before_release: Path):
    recorded = json.loads((STORES / f"{STORE_BEFORE_RELEASE}.json").read_text())
    for run in recorded["/api/v1/evals/runs"]["runs"]:
        run["variant"] = None  # runs have it since
    responses = output_of("tests.sessions.recorded_store", f"sqlite:///{store_before_release}", *recorded)
    assert responses == recorded


def test_nested_runs_of_an_earlier_store_become_sessions(empty_store: str):
    outer, inner = output_of("tests.sessions.nested_runs_before", empty_store)
    assert outer == {
        "caller": "s1",
        "numbers": [2, 2],
        "names": ["s1", "r1", "helper", ""],
        "tokens": 7,
        "first_text": "Paris?\ufffd",
        "counts": [3, 2, 2],
        "events": [[1, "e1", "user"], [2, "e1-3", "helper"]],
        "state": {"city": "Oslo", "user:name": "Ben"},
    }
    assert (inner["caller"], inner["numbers"]) == ("r1", [1, 2])
    assert (inner["names"], inner["events"]) == (["s1", "r2", "deep", "lost"], [])


def test_commands_refuse_store_of_an_older_development_version_in_one_line(store_before_release: Path):
    with sqlite3.connect(store_before_release) as file:
        file.execute("DELETE FROM django_migrations WHERE app = 'evals_app' AND name > '0013'")
    command = [sys.executable, "manage.py", "purge_sessions", "--older-than", "30d"]
    url = f"sqlite:///{store_before_release}"
    done = forked_processes.run(command, cwd=ROOT, env={**os.environ, "DATABASE_URL": url})
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "older development version of DevUI" in done.stderr
    assert "0012_rates_of_models" in done.stderr
    assert "export_sessions" in done.stderr


def output_of(module: str, *arguments: str) -> Any:
    """Return the JSON that a program prints."""
    done = forked_processes.run([sys.executable, "-m", module, *arguments], cwd=ROOT)
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
    ended = [(process.communicate(timeout=PATIENCE_S)[1], process.returncode) for process in started]
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


def test_program_that_sees_migrations_being_recorded_waits_for_the_rest(store, monkeypatch):
    looks = iter([SchemaTooOld("Some are recorded.", hint=""), False])

    def look() -> bool:
        if isinstance(step := next(looks), Exception):
            raise step
        return step

    monkeypatch.setattr(schema, "_is_behind", look)
    monkeypatch.setattr(schema, "call_command", lambda *what, **how: pytest.fail("It migrates."))
    schema.ensure_schema()
    assert list(looks) == []


def test_migrations_of_a_foreign_project_are_its_own_to_apply(store, monkeypatch):
    migrated = []
    monkeypatch.setattr(schema, "_find_apps_behind", lambda: set(schema.APPS))
    monkeypatch.setattr(schema, "call_command", lambda *what, **how: migrated.append(what))
    schema.ensure_schema()
    assert migrated == [("migrate", app) for app in schema.APPS]


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
        assert is_logged.wait(PATIENCE_S)
    thread.join(PATIENCE_S)
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
        assert waits.wait(PATIENCE_S)
        done.append("first")
    thread.join(PATIENCE_S)
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


def test_the_models_need_no_migration_that_is_not_there(store):
    call_command("makemigrations", "--check", "--dry-run", verbosity=0)
