"""A store without tables of users, as earlier versions and programs that run agents make it, gets a login."""

from __future__ import annotations

import os
import sqlite3
import sys
from pathlib import Path

from tests import forked_processes
from tests.login.servers import ROOT

CREATE = """
import devui
devui.setup()
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
writes.create_session(SessionKey("", "weather", "ann", "s1"))
"""


def run(folder: Path, *arguments: str) -> None:
    """Run Python with the store in a folder."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("D")}
    done = forked_processes.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**environment, "DATABASE_URL": f"sqlite:///{folder}/d.sqlite3", "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr


def test_earlier_store_gets_a_login_and_keeps_its_rows(tmp_path: Path):
    run(tmp_path, "-c", CREATE)
    with sqlite3.connect(tmp_path / "d.sqlite3") as store:
        tables = {name for (name,) in store.execute("SELECT name FROM sqlite_master")}
        before = store.execute("SELECT * FROM sessions_app_agentsession").fetchall()
    assert not {"auth_user", "accounts_login"} & tables
    assert len(before) == 1
    run(tmp_path, "-m", "devui", "login", "--remove")
    with sqlite3.connect(tmp_path / "d.sqlite3") as store:
        assert store.execute("SELECT * FROM sessions_app_agentsession").fetchall() == before
        assert store.execute("SELECT count(*) FROM auth_user").fetchall() == [(0,)]
    run(tmp_path, "-c", CREATE.replace("s1", "s2"))
