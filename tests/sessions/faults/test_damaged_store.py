"""A damaged file, or a file that is no database, is reported with the way out."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest
from django.db import connection  # noqa: F401 - read by skipif

from tests import forked_processes

ROOT = Path(__file__).resolve().parents[3]
pytestmark = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="SQLite's files")

READ = """
import sys
import devui
from sessions_app.store.errors import DevUIError
try:
    devui.setup(sys.argv[1])
    from sessions_app.store.database import units_of_work as db; from sessions_app.store.sessions import writes
    from sessions_app.store.session_key import SessionKey
    from sessions_app.store.models import AgentSession
    import asyncio
    for name in ("s1", "s2"):
        asyncio.run(db.write(writes.create_session, SessionKey("", "app", "ann", name), {"big": "x" * 50_000}))
    print("made")
except DevUIError as error:
    print(error.status, error.code)
    print(error.message)
    print(error.hint)
"""


def run_check(url: str) -> str:
    done = forked_processes.run([sys.executable, "-c", READ, url], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def damaged_store(tmp_path: Path) -> Path:
    """A store whose table of sessions has been overwritten on the disk."""
    file = tmp_path / "store.sqlite3"
    assert run_check(f"sqlite:///{file}") == "made\n"
    with closing(sqlite3.connect(file)) as own:
        own.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [(page,)] = own.execute("SELECT rootpage FROM sqlite_master WHERE name = 'sessions_app_agentsession'")
        [(size,)] = own.execute("PRAGMA page_size")
    with file.open("r+b") as raw:
        raw.seek((page - 1) * size)
        raw.write(b"\xff" * size)
    return file


def test_damaged_page_is_reported_with_recovery_hint(damaged_store: Path):
    code, message, hint = run_check(f"sqlite:///{damaged_store}").splitlines()
    assert code == "500 store_corrupt"
    assert message == f"The store {str(damaged_store)!r} is damaged: database disk image is malformed."
    assert ".recover" in hint
    assert "DATABASE_URL" in hint
    assert "by itself" not in hint


def test_non_database_file_is_reported_as_damaged_at_start(tmp_path: Path):
    file = tmp_path / "store.sqlite3"
    file.write_bytes(b"no database " * 1000)
    code, message, hint = run_check(f"sqlite:///{file}").splitlines()
    assert code == "500 store_corrupt"
    assert message == f"The store {str(file)!r} is damaged: file is not a database."
    assert ".recover" in hint
