"""A store that is removed, replaced or migrated by another version under a running server refuses all writes."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest
from django.db import connection  # noqa: F401 - read by skipif

from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.runtime.stage_server import serve_stage

pytestmark = pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the store is a file")

ROOT = Path(__file__).resolve().parents[3]
FUTURE = "INSERT INTO django_migrations (app, name, applied) VALUES ('sessions_app', '9999_from_the_future', '2026')"

PAGE = {"Accept": "text/html"}


class Server:
    """A running server with a session and an agent's process, and the file of its store."""

    def __init__(self, url: str, file: Path) -> None:
        self.file = file
        self.web = httpx.Client(base_url=url, timeout=PATIENCE_S, trust_env=False)
        assert self.web.post("/apps/talker/users/ann/sessions", json={"sessionId": "s1"}).status_code == 200
        [session] = self.web.get("/api/v1/sessions?app=talker").json()["sessions"]
        self.session = session["key"]
        assert self.run().status_code == 200

    def run(self) -> httpx.Response:
        message = {"role": "user", "parts": [{"text": "say hello"}]}
        body = {"appName": "talker", "userId": "ann", "sessionId": "s1", "newMessage": message}
        return self.web.post("/run", json=body)

    def writes(self) -> list[httpx.Response]:
        """Send a write of each kind: by ADK's paths, by the API, by a page, and by the agent's process."""
        return [
            self.web.post("/apps/talker/users/ann/sessions", json={"sessionId": "s2"}),
            self.web.patch("/apps/talker/users/ann/sessions/s1", json={"stateDelta": {"key": 1}}),
            self.web.post("/api/v1/runs", json={"session": self.session, "message": "say bye"}),
            self.web.post(f"/sessions/id/{self.session}/rename/", data={"title": "new"}, headers=PAGE),
            self.run(),
        ]

    def files(self) -> list[str]:
        return sorted(path.name for path in self.file.parent.glob("store.sqlite3*"))


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server in its own process. It must still end by itself."""
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "store.sqlite3"
    with serve_stage(f"sqlite:///{file}", tmp_path) as (_, url):
        yield Server(url, file)


def remove(file: Path) -> None:
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()


def assert_all_refused(server: Server, code: str, reason: str) -> None:
    for answer in server.writes():
        assert answer.status_code == 503, (answer.request.url, answer.text)
        assert reason in answer.text
        if answer.headers["Content-Type"] == "application/json":
            assert answer.json()["code"] == code


@pytest.mark.soak
def test_removed_store_refuses_all_work_and_creates_no_empty_one(server: Server):
    remove(server.file)
    assert_all_refused(server, "store_replaced", "was removed while DevUI was running")
    page = server.web.get("/sessions/", headers=PAGE)
    assert (page.status_code, "Restart DevUI" in page.text) == (503, True)
    assert server.web.get("/ready").json()["code"] == "store_replaced"
    assert server.files() == []


@pytest.mark.soak
def test_replaced_store_refuses_all_work_until_it_is_back(server: Server, tmp_path: Path):
    with closing(sqlite3.connect(server.file)) as store:
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(server.file, tmp_path / "copy")
    server.file.rename(tmp_path / "moved")
    (tmp_path / "copy").rename(server.file)
    assert_all_refused(server, "store_replaced", "was replaced by another file")
    (tmp_path / "moved").rename(server.file)
    assert server.run().status_code == 200


@pytest.mark.soak
def test_store_that_another_version_migrated_refuses_writes(server: Server):
    with closing(sqlite3.connect(server.file)) as store, store:
        store.execute(FUTURE)
    until_refused(server)
    assert_all_refused(server, "schema_too_new", "written by a newer DevUI")
    assert server.web.get(f"/api/v1/sessions/{server.session}").status_code == 200


def until_refused(server: Server) -> None:
    """Write until the server and the agent's process have looked at the migrations again."""
    for _ in range(10_000):
        if {answer.status_code for answer in server.writes()} == {503}:
            return
    raise AssertionError("never refused")


SCRIPT = """
import sys, devui
from pathlib import Path
devui.setup(f"sqlite:///{sys.argv[1]}")
from django.db import connection
from sessions_app.store.errors import StoreReplaced
from sessions_app.store.session_key import SessionKey
from sessions_app.store.models import AgentSession
from sessions_app.store.sessions import writes

def refuse(work):
    try:
        work()
    except StoreReplaced as error:
        return error.message
    raise AssertionError("not refused")

def write():
    writes.create_session(SessionKey("", "app", "user", ""))

def read():
    AgentSession.objects.count()

def connect_again():
    connection.close()
    connection.cursor()

write()
for path in list(Path(sys.argv[1]).parent.iterdir()):
    path.unlink()
for work in (write, read, connect_again, write):
    assert "was removed while" in refuse(work), work
assert list(Path(sys.argv[1]).parent.iterdir()) == []
Path(sys.argv[1]).touch()
assert "was replaced" in refuse(write)
"""


def test_program_refuses_removed_store_on_old_and_new_connections(tmp_path: Path):
    done = forked_processes.run([sys.executable, "-c", SCRIPT, str(tmp_path / "store.sqlite3")], cwd=ROOT)
    assert done.returncode == 0, done.stderr
