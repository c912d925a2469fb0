"""PostgreSQL restarts while agents write: what was acknowledged is there, and the next call works.

The server is the test's own, in a folder of its own: never one that somebody else uses.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.db import connection  # noqa: F401 - read by skipif

from tests import warm
from tests.missing import missing

ROOT = Path(__file__).resolve().parents[3]

LOAD = """
import asyncio, json, sys
import devui
devui.setup(sys.argv[1])
from sessions_app import db
from sessions_app.adk import DjangoSessionService
from sessions_app.errors import StoreUnavailable
from sessions_app.models import AgentSession, Event
from tests.sessions.build import append, create, get
from tests.sessions.faults.whole import assert_whole

service = DjangoSessionService()
acked, phase, failed = [], "load", {"load": 0, "after": 0}

async def work(number):
    name, session = f"s{number}", None
    while phase != "stop":
        begun = phase
        try:
            session = session or await get(service, name)
            delta = {"n": len(session.events), "user:n": number, "app:n": number}
            acked.append((await append(session, service, delta)).id)
        except StoreUnavailable as error:
            failed[begun] += 1
            session = None
            await asyncio.sleep(0.02)

def say(word, **facts):
    print(word, json.dumps(facts), flush=True)

async def heard():
    return (await asyncio.to_thread(sys.stdin.readline)).strip()

async def main():
    global phase
    for number in range(6):
        await create(service, f"s{number}")
    workers = [asyncio.create_task(work(number)) for number in range(6)]
    while len(acked) < 60:
        await asyncio.sleep(0.01)
    say("loaded")
    await heard()
    phase, before = "after", len(acked)
    while len(acked) < before + 60:
        await asyncio.sleep(0.01)
    phase = "stop"
    await asyncio.gather(*workers)
    say("idle", **failed)
    await heard()
    reads = [db.read(AgentSession.objects.count) for _ in range(8)]
    writes = [create(service, f"later{number}") for number in range(8)]
    await asyncio.gather(*reads, *writes)
    stored = await db.read(lambda: set(Event.objects.values_list("event_id", flat=True)))
    await db.read(assert_whole)
    say("done", lost=len(set(acked) - stored), twice=len(acked) - len(set(acked)))

asyncio.run(main())
"""


class Cluster:
    """A PostgreSQL server of the test's own."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries, self._data = binaries, folder / "data"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self._run("initdb", "-U", "postgres", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
        options = f"-p {self._port} -k {folder} -c listen_addresses=127.0.0.1 -c fsync=off"
        self._run("pg_ctl", "-w", "-l", str(folder / "log"), "-o", options, "start")

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self._port}/postgres"

    def restart(self, mode: str) -> None:
        """Restart as an update does ("fast"), or as after a crash ("immediate"); return when it answers."""
        self._run("pg_ctl", "-w", "-m", mode, "-l", str(self._data.parent / "log"), "restart")

    def stop(self) -> None:
        self._run("pg_ctl", "-w", "-m", "immediate", "stop")

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._binaries / program), "-D", str(self._data), *arguments]
        user = "postgres" if os.geteuid() == 0 else None  # PostgreSQL refuses to run as root
        subprocess.run(
            command, user=user, cwd=self._data.parent, check=True, stdout=subprocess.DEVNULL, timeout=60
        )


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's newest server programs, or None when there is none to be run."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/pg_ctl"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("pg_ctl")
    server = found[-1] if found else Path(on_path).resolve() if on_path else None
    if server is None or (os.geteuid() == 0 and "postgres" not in {user.pw_name for user in pwd.getpwall()}):
        return None
    return server.parent


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    programs = binaries()
    if programs is None:
        missing("no PostgreSQL server programs (initdb, pg_ctl) are installed to start a private server")
    folder = Path(tempfile.mkdtemp(prefix="devui-pg-"))
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    started = Cluster(programs, folder)
    yield started
    started.stop()
    shutil.rmtree(folder)


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the server is its own: once is enough")
def test_after_a_restart_the_next_call_works_and_nothing_acknowledged_is_lost(cluster: Cluster):
    command = [sys.executable, "-c", LOAD, cluster.url]
    load = warm.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert load.stdout is not None
    assert load.stdin is not None
    assert load.stdout.readline().split()[0] == "loaded"
    cluster.restart("immediate")
    load.stdin.write("restarted\n")
    load.stdin.flush()
    word, facts = load.stdout.readline().split(" ", 1)
    assert word == "idle"
    assert '"after": 0' in facts, facts
    cluster.restart("fast")
    out, _ = load.communicate("restarted\n", timeout=60)
    assert out.strip() == 'done {"lost": 0, "twice": 0}'
