"""Group commit of units of work: each succeeds or fails alone."""

from __future__ import annotations

import asyncio
import threading

import pytest
from django.db import DatabaseError, connection, transaction

from sessions_app.store import events
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import AlreadyExists
from sessions_app.store.models import AgentSession, AppScope, Event, SessionState
from sessions_app.store.sessions import ledger, writes
from sessions_app.store.sessions.writes import SessionKey
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.django_db(transaction=True)


def key(number: int) -> SessionKey:
    return SessionKey("", "app", "user", f"s{number}")


@pytest.fixture(autouse=True)
def _threads():
    yield
    units_of_work.close_pools()


async def test_concurrent_writes_are_all_stored():
    await asyncio.gather(*(units_of_work.write(writes.create_session, key(number)) for number in range(100)))

    assert await units_of_work.read(AgentSession.objects.count) == 100


async def test_a_refused_write_fails_alone_while_its_group_is_stored():
    await units_of_work.write(writes.create_session, key(0))

    outcomes = await asyncio.gather(
        *(units_of_work.write(writes.create_session, key(number)) for number in range(20)),
        return_exceptions=True,
    )

    assert isinstance(outcomes[0], AlreadyExists)
    assert all(isinstance(outcome, AgentSession) for outcome in outcomes[1:])
    assert await units_of_work.read(AgentSession.objects.count) == 20


async def test_thread_without_event_loop_gets_the_result_of_its_write():
    session = await asyncio.to_thread(units_of_work.write_in_thread, writes.create_session, key(0))

    assert await units_of_work.read(AgentSession.objects.get) == session
    with pytest.raises(AlreadyExists):
        await asyncio.to_thread(units_of_work.write_in_thread, writes.create_session, key(0))


async def test_a_caller_that_gives_up_does_not_undo_its_write():
    gate, is_queued = threading.Event(), asyncio.Event()

    async def ask() -> None:
        is_queued.set()
        await units_of_work.write(writes.create_session, key(1))

    busy = [
        asyncio.ensure_future(units_of_work.write(gate.wait, 60)) for _ in range(units_of_work.WRITE_THREADS)
    ]
    waiting = asyncio.ensure_future(ask())
    await is_queued.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    gate.set()
    await asyncio.gather(*busy)
    async with asyncio.timeout(PATIENCE_S):
        while not await units_of_work.read(AgentSession.objects.count):  # noqa: ASYNC110 - who asked for it is gone
            await asyncio.sleep(0.01)

    assert await units_of_work.read(AgentSession.objects.count) == 1


async def test_writes_recover_after_lost_connection():
    def lose_connection() -> None:
        with transaction.atomic():
            connection.connection.close()
            AgentSession.objects.count()

    with pytest.raises(Exception, match="closed"):
        await units_of_work.write(lose_connection)

    await units_of_work.write(writes.create_session, key(3))
    assert await units_of_work.read(AgentSession.objects.count) == 1


def test_failing_statement_rolls_back_the_whole_append(monkeypatch):
    """On PostgreSQL it was sent in one go with the others, and fails when nobody waits for it."""
    writes.create_session(key(1))
    record = events.build_record({"id": "e1", "timestamp": 1.0, "actions": {}}, delta={"n": 1, "app:n": 1})
    with monkeypatch.context() as patch:
        patch.setattr(ledger, "INSERT_CHANGE", ledger.INSERT_CHANGE.replace("statechange", "nowhere"))
        with pytest.raises(DatabaseError, match="nowhere"):
            writes.append_event(key(1), record)

    assert AgentSession.objects.get().revision == 0
    assert (Event.objects.count(), AppScope.objects.count(), SessionState.objects.count()) == (0, 0, 0)
    assert writes.append_event(key(1), record).seq == 1
