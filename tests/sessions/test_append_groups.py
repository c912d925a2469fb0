"""Group commit of appends on PostgreSQL: each append has the result of a single one."""

from __future__ import annotations

import asyncio
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, connection, connections

from sessions_app.store import events
from sessions_app.store.database import change_notification, statements, units_of_work
from sessions_app.store.errors import DuplicateEvent, SessionMissing, StaleSession, StoreUnavailable
from sessions_app.store.events import EventRecord
from sessions_app.store.events.attribution import Writer
from sessions_app.store.models import (
    AgentSession,
    AppScope,
    AppState,
    ChangeCause,
    Event,
    SessionState,
    StateChange,
    TempWrite,
    UserScope,
    UserState,
)
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import append_groups, writes
from sessions_app.store.sessions.append_groups import append, append_together
from sessions_app.store.sessions.writes import AppendResult, ExpectedSession
from tests import forked_processes
from tests.patience import PATIENCE_S
from tests.sessions.faults.store_integrity import assert_intact
from tests.store import store_url

pytestmark = [
    pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite groups every unit of work"),
    pytest.mark.usefixtures("store"),
]
ROOT = Path(__file__).resolve().parents[2]


def session_key(name: str, user: str = "ann", realm: str = "") -> SessionKey:
    return SessionKey(realm, "weather", user, name)


def record(delta: dict[str, Any], **fields: Any) -> EventRecord:
    body = {"id": uuid.uuid4().hex, "invocationId": "i", "author": "agent", "timestamp": 1.0, "actions": {}}
    return events.build_record({**body, **fields}, delta=delta, keep_temp=True)


def request(key: SessionKey, new_record: EventRecord, revision: int = 0) -> Any:
    return append_groups._Append(key, new_record, ExpectedSession(revision), ChangeCause.APPEND)


def in_group(*requests: Any) -> list[Any]:
    """Carry out appends as one group, on a connection of its own as the writing threads have."""

    def work() -> list[Any]:
        try:
            return append_together(list(requests))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(work).result(timeout=PATIENCE_S)


@contextmanager
def hold_rows(statement: str, *values: Any) -> Iterator[None]:
    """Hold the rows that a statement locks, on a connection of its own."""
    with psycopg.connect(store_url()) as other:
        assert other.execute(f"{statement} FOR UPDATE", values).fetchall()
        yield
        other.rollback()


def commits() -> int:
    """Return how many transactions the stored events came in."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(DISTINCT xmin::text) FROM sessions_app_event")
        return cursor.fetchone()[0]


def turns() -> list[tuple[SessionKey, EventRecord]]:
    """Return appends to sessions of two users: keys of all scopes written, removed, written again and only seen."""
    keys = [session_key(f"s{number}", user=f"user{number % 2}") for number in range(5)]
    removal = events.mark_removed(
        record({"n": None, "user:n": None, "app:n": None}), ["n", "user:n", "app:n"]
    )
    body = {"id": "w", "timestamp": 2.5, "actions": {}, "author": "b"}
    tool = Writer("tool", "roll", "call", inferred=False)
    return [
        (keys[0], record({"n": 1, "user:n": "ä\u0000", "app:n": [1, None], "temp:x": {"y": 1}})),
        (keys[1], record({"user:n": 2, "user:secret_token": "sk-123456789"}, author="user")),
        (keys[2], removal),
        (keys[3], record({})),
        (keys[4], events.build_record(body, delta={"app:n": 3, "app:m": 4}, writers={"app:n": tool})),
    ]


NOT_COMPARED = {"id", "realm", "session", "owner", "owner_id", "from_session"}


def rows_of(realm: str) -> dict[str, list[dict[str, Any]]]:
    """Return all that a realm's sessions left, in order, but for what names the realm."""
    sessions = AgentSession.objects.filter(realm=realm).order_by("session_id")
    users, apps = UserScope.objects.filter(realm=realm), AppScope.objects.filter(realm=realm)
    of_session = {"session__in": sessions}
    row_sets = {
        "sessions": sessions,
        "events": Event.objects.filter(**of_session).order_by("session__session_id", "seq"),
        "ledger": StateChange.objects.filter(**of_session).order_by("pk"),
        "temp": TempWrite.objects.filter(**of_session).order_by("pk"),
        "session state": SessionState.objects.filter(owner__in=sessions).order_by("pk"),
        "user state": UserState.objects.filter(owner__in=users).order_by("pk"),
        "app state": AppState.objects.filter(owner__in=apps).order_by("pk"),
        "users": users.order_by("user_id"),
        "apps": apps,
    }
    return {
        name: [
            {field.name: getattr(row, field.attname) for field in row._meta.fields if field.name not in NOT_COMPARED}
            for row in rows
        ]
        for name, rows in row_sets.items()
    }  # fmt: skip


def test_group_result_equals_single_appends():
    records = turns()
    for realm in ("alone", "together"):
        for key, _ in records:
            seed = {"n": 0, "m": 0, "user:n": 0} if key.session_id == "s2" else {}
            writes.create_session(key._replace(realm=realm), seed, now=1.0)
    later = [(key, record({"n": 9, "user:z": 1, "app:n": 9}, id="later")) for key, _ in records[:3]]
    for revision, group in enumerate((records, later)):
        alone = [
            writes.append_event(key._replace(realm="alone"), new_record, ExpectedSession(revision))
            for key, new_record in group
        ]
        together = in_group(
            *(request(key._replace(realm="together"), new_record, revision) for key, new_record in group)
        )
        assert [(done.seq, done.revision, done.duplicate) for done in together] == [
            (done.seq, done.revision, done.duplicate) for done in alone
        ]
    rows = rows_of("together")
    assert rows == rows_of("alone")
    assert all(rows.values())
    assert rows["users"][0]["version"] == 5


def test_key_removed_and_rewritten_in_a_group_comes_last():
    for name in ("a", "b", "c"):
        writes.create_session(session_key(name))
    writes.append_event(session_key("a"), record({"user:x": 1, "user:y": 1}))
    removal = events.mark_removed(record({"user:x": None}), ["user:x"])
    outcomes = in_group(
        request(session_key("a"), record({"user:y": 2}), revision=1),
        request(session_key("b"), removal),
        request(session_key("c"), record({"user:x": 3})),
    )
    assert all(isinstance(done, AppendResult) for done in outcomes)
    assert list(UserState.objects.order_by("pk").values_list("key", "value", "position")) == [
        ("y", "2", 2),
        ("x", "3", 4),
    ]
    assert_intact()


def test_unready_append_is_left_out_and_takes_no_version():
    for name in ("a", "b", "stale", "twin", "held"):
        writes.create_session(session_key(name))
    writes.append_event(session_key("stale"), record({}))
    twin = record({"user:n": 1})
    writes.append_event(session_key("twin"), twin)
    with hold_rows("SELECT 1 FROM sessions_app_agentsession WHERE session_id = %s", "held"):
        outcomes = in_group(
            request(session_key("stale"), record({"user:n": 1}), revision=0),
            request(session_key("a"), record({"user:n": 2})),
            request(session_key("a"), record({"user:n": 2.5})),
            request(session_key("gone"), record({"user:n": 3})),
            request(session_key("no\x00such"), record({"user:n": 3})),
            request(session_key("twin"), twin, revision=1),
            request(session_key("held"), record({"user:n": 4})),
            request(session_key("b"), record({"user:n": 5})),
        )
    assert [isinstance(done, AppendResult) for done in outcomes] == [False, True, *[False] * 5, True]
    assert UserScope.objects.get().version == 3
    assert_intact()


async def test_refused_append_has_its_reason_while_group_is_stored():
    for name in ("a", "b", "stale", "twin"):
        await units_of_work.write(writes.create_session, session_key(name))
    await append(session_key("stale"), record({}), ExpectedSession(0))
    twin = record({"user:n": 1})
    await append(session_key("twin"), twin, ExpectedSession(0))
    a, b, *refused, duplicate, other = await asyncio.gather(
        append(session_key("a"), record({"user:n": 2}), ExpectedSession(0)),
        append(session_key("b"), record({"user:n": 2}), ExpectedSession(0)),
        append(session_key("stale"), record({"user:n": 1}), ExpectedSession(0)),
        append(session_key("gone"), record({"user:n": 1}), ExpectedSession(0)),
        append(session_key("twin"), twin, ExpectedSession(1)),
        append(session_key("twin"), replace(twin, data="{}"), ExpectedSession(1)),
        return_exceptions=True,
    )
    assert (a.seq, b.seq) == (1, 1)
    assert list(map(type, refused)) == [StaleSession, SessionMissing]
    assert duplicate.duplicate
    assert isinstance(other, DuplicateEvent)
    await units_of_work.read(assert_intact)


async def test_an_append_that_the_database_refuses_fails_alone():
    names = [f"s{number}" for number in range(8)]
    for name in names:
        await units_of_work.write(writes.create_session, session_key(name))
    broken = replace(record({"user:n": 0}), author="NUL \x00")
    records = [broken if name == "s5" else record({"user:n": 1}) for name in names]
    outcomes = await asyncio.gather(
        *(
            append(session_key(name), event, ExpectedSession(0))
            for name, event in zip(names, records, strict=True)
        ),
        return_exceptions=True,
    )
    assert isinstance(outcomes.pop(5), (DatabaseError, ValueError))
    assert [done.seq for done in outcomes] == [1] * 7
    assert (await units_of_work.read(UserScope.objects.get)).version == 7
    await units_of_work.read(assert_intact)


def test_group_is_one_commit_with_a_version_per_append():
    names = [f"s{number}" for number in range(40)]
    for name in names:
        writes.create_session(session_key(name))
    in_group(*(request(session_key(name), record({"user:n": name})) for name in names))
    assert commits() == 1
    versions = Event.objects.order_by("session__pk").values_list("user_version", flat=True)
    assert list(versions) == list(range(1, 41))
    assert_intact()


async def test_a_user_that_somebody_holds_holds_up_no_other():
    await units_of_work.write(writes.create_session, session_key("s1"), {"user:n": 0})
    for number in range(6):
        await units_of_work.write(writes.create_session, session_key(f"a{number}"))
        await units_of_work.write(writes.create_session, session_key(f"b{number}", "bob"))
    with hold_rows("SELECT 1 FROM sessions_app_userscope WHERE user_id = %s", "ann"):
        waiting = [
            asyncio.ensure_future(
                append(session_key(f"a{number}"), record({"user:n": 1}), ExpectedSession(0))
            )
            for number in range(3)
        ]
        async with asyncio.timeout(PATIENCE_S):
            others = await asyncio.gather(
                *(
                    append(session_key(f"b{n}", "bob"), record({"user:n": 1}), ExpectedSession(0))
                    for n in range(6)
                )
            )
        assert not any(task.done() for task in waiting)
    assert [done.seq for done in others + await asyncio.gather(*waiting)] == [1] * 9
    await units_of_work.read(assert_intact)


async def test_a_caller_that_gives_up_does_not_undo_its_append():
    for name in ("s0", "s1", "s2"):
        await units_of_work.write(
            writes.create_session, session_key(name), {"user:n": 0} if name == "s0" else {}
        )
    with hold_rows("SELECT 1 FROM sessions_app_userscope"):
        tasks = [
            asyncio.ensure_future(append(session_key(name), record({"user:n": 1}), ExpectedSession(0)))
            for name in ("s0", "s1", "s2")
        ]
        await asyncio.sleep(0)
        tasks[1].cancel()
        with pytest.raises(asyncio.CancelledError):
            await tasks[1]
    await asyncio.gather(tasks[0], tasks[2])
    async with asyncio.timeout(PATIENCE_S):
        while await units_of_work.read(Event.objects.count) < 3:  # noqa: ASYNC110 - who asked for it is gone
            await asyncio.sleep(0.01)
    await units_of_work.read(assert_intact)


async def test_lost_connection_fails_unstored_appends_and_recovers():
    names = [f"s{number}" for number in range(12)]
    for name in names:
        await units_of_work.write(
            writes.create_session, session_key(name), {"user:n": 0} if name == "s0" else {}
        )
    with hold_rows("SELECT 1 FROM sessions_app_userscope"):
        tasks = [
            asyncio.ensure_future(append(session_key(name), record({"user:n": 1}), ExpectedSession(0)))
            for name in names
        ]
        async with asyncio.timeout(PATIENCE_S):
            while not await asyncio.to_thread(end_those_that_wait):
                pass
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    lost_names = [
        name for name, done in zip(names, outcomes, strict=True) if isinstance(done, StoreUnavailable)
    ]
    stored = await units_of_work.read(
        lambda: sorted(Event.objects.values_list("session__session_id", flat=True))
    )
    assert lost_names
    assert sorted(lost_names + stored) == sorted(names)
    assert (await append(session_key(lost_names[0]), record({"user:n": 2}), ExpectedSession(0))).seq == 1
    await units_of_work.read(assert_intact)


def end_those_that_wait() -> int:
    """End the server's processes that wait for a row, as an administrator does. Return how many."""
    with psycopg.connect(store_url(), autocommit=True) as other:
        backend = other.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
            " WHERE datname = current_database() AND wait_event_type = 'Lock'"
        ).fetchone()
        assert backend is not None
        return backend[0]


def test_a_group_rings_the_bell_once_it_is_committed():
    for name in ("a", "b"):
        writes.create_session(session_key(name))
    with psycopg.connect(store_url(), autocommit=True) as ear:
        ear.execute(f"LISTEN {change_notification.CHANNEL}")
        in_group(*(request(session_key(name), record({"user:n": 1})) for name in ("a", "b")))
        assert len(list(ear.notifies(timeout=PATIENCE_S, stop_after=1))) == 1


def test_groups_and_lone_writers_in_opposite_order_never_deadlock():
    """Users and apps are locked in one order whatever the order of the appends, and beside writers of one session."""
    users = [f"user{number}" for number in range(4)]
    start = threading.Barrier(4)

    def writer(number: int) -> None:
        order = users if number % 2 else users[::-1]
        keys = [session_key(f"w{number}", user) for user in order]
        try:
            for key in keys:
                writes.create_session(key)
            statements.dedicate_connection_to_appends()
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = 0")  # to wait for long is no deadlock
            start.wait(timeout=PATIENCE_S)
            for turn in range(15):
                requests = [request(key, record({"user:n": turn, "app:n": turn}), turn) for key in keys]
                done = append_together(requests) if number < 3 else [task.execute() for task in requests]
                assert all(isinstance(task, AppendResult) for task in done), done
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        for future in [pool.submit(writer, number) for number in range(4)]:
            future.result(timeout=PATIENCE_S)
    assert AppScope.objects.get().version == 4 * 4 * 15
    assert_intact()


WORK = """
import asyncio, sys
import devui
devui.setup(sys.argv[1], migrate=False)
from sessions_app.adk import DjangoSessionService
from tests.sessions.build import append, create

async def work(service, name):
    session = await create(service, name)
    for turn in range(10):
        await append(session, service, {"n": turn, "user:n": turn, "user:by": name, "app:n": turn})

async def main():
    service = DjangoSessionService()
    await asyncio.gather(*(work(service, f"{sys.argv[2]}-{number}") for number in range(12)))

asyncio.run(main())
"""


def test_append_groups_of_three_processes_leave_no_gap():
    started = [
        forked_processes.Popen([sys.executable, "-c", WORK, store_url(), name], cwd=ROOT)
        for name in ("a", "b", "c")
    ]
    assert [process.wait(timeout=PATIENCE_S) for process in started] == [0, 0, 0]
    assert Event.objects.count() == 3 * 12 * 10
    assert UserScope.objects.get().version == AppScope.objects.get().version == 3 * 12 * 10
    assert commits() < 3 * 12 * 10
    assert_intact()
