"""PostgreSQL restarts during writes: acknowledged events are stored, and the next call works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from django.db import connection  # noqa: F401 - read by skipif

from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.postgres import Cluster

ROOT = Path(__file__).resolve().parents[3]

LOAD = """
import asyncio, json, sys
import devui
devui.setup(sys.argv[1])
from sessions_app.store.database import units_of_work as db
from sessions_app.adk import DjangoSessionService
from sessions_app.store.errors import StoreUnavailable
from sessions_app.store.models import AgentSession, Event
from tests.sessions.build import append, create, get
from tests.sessions.faults.store_integrity import assert_intact

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
    await db.read(assert_intact)
    say("done", lost=len(set(acked) - stored), twice=len(acked) - len(set(acked)))

asyncio.run(main())
"""


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="the server is its own: once is enough")
@pytest.mark.soak
def test_database_restart_loses_no_acknowledged_write(cluster: Cluster):
    command = [sys.executable, "-c", LOAD, cluster.url]
    load = forked_processes.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
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
    out, _ = load.communicate("restarted\n", timeout=PATIENCE_S)
    assert out.strip() == 'done {"lost": 0, "twice": 0}'
