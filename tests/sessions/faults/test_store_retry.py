"""A temporary failure of the store delays the end of runs; nothing is lost or repeated."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection
from google.adk.errors import StaleSessionError
from google.adk.events.event import Event

from devui.runtime.run_queue import RunQueue
from sessions_app.adk import DjangoSessionService
from sessions_app.agent_processes import processes
from sessions_app.delivery.failure import Failure
from sessions_app.runs import background, lifecycle
from sessions_app.store.database import retry, units_of_work
from sessions_app.store.errors import AlreadyExists, StoreBusy, StoreFull, StoreUnavailable
from sessions_app.store.models import AgentSession, Run, RuntimeProcess
from sessions_app.store.runs import session_runs
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import append_groups, writes
from sessions_app.store.traces.outbox import Outbox
from tests.runtime.conftest import until
from tests.sessions.faults.lost_store import STORE_LOST, fail_with_lost_store

KEY = SessionKey("", "app", "ann", "s1")
Status = Run.Status


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again at once."""
    monkeypatch.setattr(retry, "FIRST_DELAY_S", 0.001)


@pytest.fixture(params=[True, False], ids=["nothing was stored", "the answer was lost"])
def lose(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], None]:
    """Return what lets a function of a module meet a lost store three times."""

    def lose(module: Any, name: str) -> None:
        failing_function = fail_with_lost_store(3, getattr(module, name), before=request.param)
        monkeypatch.setattr(module, name, failing_function)

    return lose


async def create_queued_run(turns: RunQueue) -> Run:
    await units_of_work.write(processes.register, turns.runtime_id, "app", 1, "v1")
    session = await units_of_work.write(writes.create_session, KEY)
    run = await units_of_work.write(lifecycle.create_run, session.pk, {})
    return await units_of_work.read(Run.objects.select_related("session").get, pk=run.pk)


@pytest.mark.parametrize("lost", ["active_run", "claim", "open_call_ids", "finish", "get_status"])
async def test_a_run_is_claimed_and_ended_once_though_the_store_fails(store, lose, lost):
    left = []
    turns = RunQueue("r1", on_left=lambda: left.append(True))
    live = turns.add_run(await create_queued_run(turns))
    lose(lifecycle if hasattr(lifecycle, lost) else session_runs, lost)

    assert await turns.take_turn(live)
    await turns.finish(live, await turns.final_status(live))

    row = await units_of_work.read(Run.objects.get, pk=live.id)
    assert (row.status, row.error_type) == (Status.DONE, "")
    assert row.finished_at >= row.started_at
    assert (turns.active, left, live.ended.is_set()) == ({}, [True], True)


@pytest.mark.parametrize("lost", ["append_event", "append_group"])
async def test_events_of_a_run_are_stored_once_though_the_store_fails(store, lose, lost):
    if lost == "append_group" and connection.vendor != "postgresql":
        pytest.skip("appends are grouped on PostgreSQL")
    service = DjangoSessionService()
    service.waits_for_store = True
    session = await service.create_session(app_name="app", user_id="ann", session_id="s1")
    if lost == "append_group":
        lose(append_groups, "append_together")
    else:
        lose(writes, "append_event")
    for number in range(3):
        await service.append_event(session, Event(author="agent", actions={"stateDelta": {"n": number}}))
    stored = await service.get_session(app_name="app", user_id="ann", session_id="s1")
    assert [event.id for event in stored.events] == [event.id for event in session.events]
    assert (len(stored.events), stored.state, session.state) == (3, {"n": 2}, {"n": 2})


async def test_lost_acknowledgement_does_not_hide_the_event_of_another_writer(store, monkeypatch):
    service = DjangoSessionService()
    service.waits_for_store = True
    session = await service.create_session(app_name="app", user_id="ann", session_id="s1")
    append = writes.append_event

    def lose_answer(key, record, *arguments, **options):
        result = append(key, record, *arguments, **options)
        if record.event_id == "mine" and not result.duplicate:
            append(key, replace(record, event_id="other", data=record.data.replace("mine", "other")))
            raise STORE_LOST
        return result

    monkeypatch.setattr(writes, "append_event", lose_answer)
    await service.append_event(session, Event(id="mine", author="agent"))
    with pytest.raises(StaleSessionError):
        await service.append_event(session, Event(id="next", author="agent"))


async def test_full_disk_fails_the_append_at_once(store, monkeypatch):
    def fill(*arguments: Any, **options: Any) -> Any:
        raise StoreFull("The disk is full.")

    service = DjangoSessionService()
    service.waits_for_store = True
    session = await service.create_session(app_name="app", user_id="ann", session_id="s1")
    monkeypatch.setattr(writes, "append_event", fill)
    with pytest.raises(StoreFull):
        await service.append_event(session, Event(author="agent"))


async def test_run_whose_caller_waits_is_refused_on_a_full_disk(store, monkeypatch):
    def fill(*arguments: Any, **options: Any) -> Any:
        raise StoreFull("The disk is full.")

    turns = RunQueue("r1", on_left=lambda: None)
    live = turns.add_run(await create_queued_run(turns))
    live.source = lifecycle.ADK_SOURCE
    monkeypatch.setattr(lifecycle, "claim", fill)
    with pytest.raises(StoreFull):
        await turns.take_turn(live)


async def test_first_end_of_a_run_counts_even_if_caller_is_cancelled(store, monkeypatch):
    turns = RunQueue("r1", on_left=lambda: None)
    live = turns.add_run(await create_queued_run(turns))
    assert await turns.take_turn(live)
    is_back = threading.Event()
    finish = lifecycle.finish

    def away(*arguments: Any, **options: Any) -> bool:
        if not is_back.is_set():
            raise STORE_LOST
        return finish(*arguments, **options)

    monkeypatch.setattr(lifecycle, "finish", away)
    failing_run = asyncio.create_task(turns.finish(live, Status.FAILED, Failure("ValueError", "")))
    await asyncio.sleep(0.05)
    assert not await turns.cancel(live.id)
    failing_run.cancel()
    cancelling = asyncio.create_task(turns.finish(live, Status.CANCELLED))
    is_back.set()
    await cancelling
    row = await units_of_work.read(Run.objects.get, pk=live.id)
    assert (row.status, row.error_type) == (Status.FAILED, "ValueError")


async def test_claim_by_another_process_is_not_a_repeated_own_one(store):
    turns = RunQueue("r1", on_left=lambda: None)
    run = await create_queued_run(turns)
    await units_of_work.write(processes.register, "r2", "app", 2, "v1")
    now = time.time()
    assert await units_of_work.write(lifecycle.claim, run.pk, "r1", "v1", "", now)
    assert await units_of_work.write(lifecycle.claim, run.pk, "r1", "v1", "", now)
    assert await units_of_work.write(lifecycle.claim, run.pk, "r2", "v1", "", now) is None
    assert await units_of_work.write(lifecycle.claim, run.pk, "r1", "v1", "", now + 1) is None


async def test_run_with_possibly_written_row_is_cancelled(store, lose):
    session = await units_of_work.write(writes.create_session, KEY)
    lose(lifecycle, "create_run")

    def create(run_id: str) -> Run:
        return lifecycle.create_run(session.pk, {}, lifecycle.ADK_SOURCE, run_id=run_id)

    with pytest.raises(StoreUnavailable):
        await background.create_callers_row(create)

    def queued() -> bool:
        return Run.objects.filter(status__in=Run.ACTIVE).exists()

    await until(partial(units_of_work.read, queued), lambda result: not result)
    assert await units_of_work.read(session_runs.active_run, session.pk) is None


async def test_only_faults_of_the_store_are_retried(store):
    tried = []

    def refused() -> None:
        tried.append(True)
        raise AlreadyExists("It is there.")

    with pytest.raises(AlreadyExists):
        await retry.write(refused)
    with pytest.raises(AlreadyExists):
        retry.run_sync(refused)
    assert len(tried) == 2


def test_work_in_a_thread_of_its_own_is_retried_on_a_new_connection(store):
    processes.register("r1", "app", 1, "v1")
    tries = []

    def stop() -> None:
        tries.append(connection.connection)
        if len(tries) < 3:
            disk_error = sqlite3.OperationalError("the disk is gone")
            disk_error.sqlite_errorname = "SQLITE_IOERR_READ"
            raise OperationalError(str(disk_error)) from disk_error
        processes.mark_stopped("r1")

    retry.run_sync(stop)
    assert len(tries) == 3
    assert RuntimeProcess.objects.get(pk="r1").stopped_at is not None


async def test_records_of_runs_wait_for_the_store_and_none_is_dropped(store, caplog):
    outbox, records, failures = Outbox(), [], [12]

    def unit(number: int) -> bool:
        if failures[0]:
            failures[0] -= 1
            raise STORE_LOST
        records.append(number)
        return True

    for number in range(3):
        outbox.enqueue(lambda number=number: partial(unit, number))
    assert await outbox.wait_written(30)
    outbox.close()
    assert sorted(records) == [0, 1, 2]
    assert [record.levelname for record in caplog.records if "are queued" in record.message] == ["WARNING"]


@pytest.fixture
def patient_for_3_s(store: None) -> Iterator[None]:
    """Let writes wait for SQLite's lock for three seconds."""
    options = connection.settings_dict["OPTIONS"]
    usual = options["timeout"]
    options["timeout"] = 3
    units_of_work.close_pools()
    connection.close()
    yield
    options["timeout"] = usual
    units_of_work.close_pools()
    connection.close()


@pytest.mark.skipif("connection.vendor != 'sqlite'", reason="SQLite has one writer")
async def test_queued_writes_wait_for_a_locked_store_no_longer_than_the_first(patient_for_3_s):
    took: dict[str, float] = {}

    async def create(name: str, after_s: float = 0.0) -> AgentSession:
        await asyncio.sleep(after_s)
        began = time.monotonic()
        try:
            return await units_of_work.write(writes.create_session, KEY._replace(session_id=name))
        finally:
            took[name] = time.monotonic() - began

    await create("before")
    with closing(sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        works = [create("first"), create("second", 0.2), create("third", 2.5)]
        tasks = [asyncio.create_task(work) for work in works]
        outcomes = await asyncio.gather(*tasks[:2], return_exceptions=True)
        assert not tasks[2].done()
        other.execute("COMMIT")
        assert (await tasks[2]).session_id == "third"
    assert [type(outcome) for outcome in outcomes] == [StoreBusy, StoreBusy]
    assert took["second"] < 5, "it waited for the lock behind the first one, and then once more as long"
    assert (await create("after")).session_id == "after"
