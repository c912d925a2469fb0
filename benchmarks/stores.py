"""The measured store, its peers, and their content.

Import this module first: it configures Django.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import devui

devui.setup()

from django.db import connection, transaction
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

from sessions_app.adk import DjangoSessionService, event_mapping
from sessions_app.store import models as store
from sessions_app.store.events import EventKind, EventRecord
from sessions_app.store.session_key import SessionKey, StorableKey
from sessions_app.store.sessions import writes

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
FULL = bool(os.environ.get("BENCH_FULL"))
ON_POSTGRES = connection.vendor == "postgresql"
BATCH = 10_000
APP, USER = f"bench-{os.getpid()}", "ann"
WORDS = (
    "The weather in Paris is mild today, with some clouds in the afternoon and a light wind from the west. "
)


def ours() -> DjangoSessionService:
    """Return the measured service."""
    return DjangoSessionService()


def peers() -> dict[str, BaseSessionService]:
    """Return ADK's own services on the same kind of database, as far as they are installed."""
    services: dict[str, BaseSessionService] = {}
    if not ON_POSTGRES:
        services["SqliteSessionService"] = SqliteSessionService(str(FOLDER / "adk.sqlite3"))
    drivers = ("sqlalchemy", "asyncpg" if ON_POSTGRES else "aiosqlite")
    if all(map(importlib.util.find_spec, drivers)):
        from google.adk.sessions.database_session_service import DatabaseSessionService

        services["DatabaseSessionService"] = DatabaseSessionService(_database_url())
    return services


def missing_peers() -> str:
    """Return the text for a row without a peer."""
    return "DatabaseSessionService needs sqlalchemy, which is not installed"


def _database_url() -> str:
    if ON_POSTGRES:
        base = os.environ["DATABASE_URL"].split("://", 1)[1]
        return f"postgresql+asyncpg://{base}"
    return f"sqlite+aiosqlite:///{FOLDER / 'adk-database.sqlite3'}"


def event(number: int) -> Event:
    """Return an event like an agent's: some text, and one key in each scope."""
    return Event(
        author="agent",
        invocation_id=f"i{number // 4}",
        content=types.Content(role="model", parts=[types.Part(text=WORDS * 3)]),
        actions=EventActions(
            state_delta={"turn": number, "user:last": f"turn {number}", "app:total": number}
        ),
    )


async def session_of(service: BaseSessionService, name: str, **options: Any) -> Session:
    """Create a session."""
    return await service.create_session(app_name=APP, user_id=USER, session_id=name, **options)


def fill_ours(name: str, events: Iterable[Event]) -> None:
    """Append events in batches, which is faster than one by one.

    One transaction for all would be slow on PostgreSQL: the rows of shared scopes keep a version of each update.
    """
    key = SessionKey("", APP, USER, name)
    remaining = iter(events)
    while batch := list(islice(remaining, 100)):
        with transaction.atomic():
            for agent_event in batch:
                writes.append_event(key, event_mapping.to_record(agent_event))


def long_session(name: str, events: int, agent: str = "agent") -> None:
    """Create a session of many events: the user's messages between the agent's, each with text and a written key."""
    session = writes.create_session(StorableKey("", APP, USER, name))
    records = {author: _record_by(author) for author in ("user", agent)}
    for start in range(1, events + 1, BATCH):
        store.Event.objects.bulk_create(
            store.Event(
                session=session,
                seq=seq,
                event_id=f"e{seq}",
                invocation_id=f"i{seq // 4}",
                author="user" if seq % 4 == 0 else agent,
                kind=EventKind.USER if seq % 4 == 0 else EventKind.AGENT,
                timestamp=session.created_at + seq,
                is_final=seq % 4 == 3,
                summary=records[agent].summary,
                data=records["user" if seq % 4 == 0 else agent].data,
            )
            for seq in range(start, min(start + BATCH, events + 1))
        )
    with connection.cursor() as cursor:
        cursor.execute(LEDGER, {"pk": session.pk, "no": False})
        cursor.execute("ANALYZE")
    store.AgentSession.objects.filter(pk=session.pk).update(last_seq=events, revision=events)


def _record_by(author: str) -> EventRecord:
    agent_event = event(1)
    agent_event.author = author
    return event_mapping.to_record(agent_event)


LEDGER = """
INSERT INTO sessions_app_statechange (scope, owner_id, key, key_id, position, value, private, note, removed, cause,
    timestamp, session_id, from_user, from_session, seq, event_id, invocation_id, author, writer, writer_name,
    call_id, inferred)
SELECT 'session', e.session_id, 'turn', 'turn', e.seq, '1', NULL, '', %(no)s, 'append', e.timestamp, e.session_id,
    'ann', 'long', e.seq, e.event_id, e.invocation_id, e.author, 'delta', '', '', %(no)s
FROM sessions_app_event e WHERE e.session_id = %(pk)s
"""
"""One ledger row per event of a session."""


def fill_sqlite_peer(name: str, events: Iterable[Event]) -> None:
    """Write events to the tables of ADK's `SqliteSessionService`."""
    fill_sqlite(FOLDER / "adk.sqlite3", APP, name, events)


def fill_sqlite(file: Path, app: str, name: str, events: Iterable[Event]) -> None:
    """Write events to a file of ADK's `SqliteSessionService`, in its format."""
    rows = (
        (
            row_event.id,
            app,
            USER,
            name,
            row_event.invocation_id,
            row_event.timestamp,
            row_event.model_dump_json(exclude_none=True),
        )
        for row_event in events
    )
    with sqlite3.connect(file) as database:
        database.executemany(
            "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, timestamp, event_data)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            rows,
        )


def fill_database_peer(name: str, events: Iterable[Event]) -> None:
    """Write events to the tables of ADK's `DatabaseSessionService`, in its format."""
    rows = [
        (
            row_event.id,
            APP,
            USER,
            name,
            row_event.invocation_id,
            datetime.fromtimestamp(row_event.timestamp, UTC)
            .replace(tzinfo=None)
            .isoformat(" ", "microseconds"),
            row_event.model_dump_json(exclude_none=True),
        )
        for row_event in events
    ]
    columns = "id, app_name, user_id, session_id, invocation_id, timestamp, event_data"
    if ON_POSTGRES:
        with connection.cursor() as cursor:
            cursor.executemany(
                f"INSERT INTO events ({columns}) VALUES (%s, %s, %s, %s, %s, %s::timestamp, %s)", rows
            )
        return
    with sqlite3.connect(FOLDER / "adk-database.sqlite3") as database:
        database.executemany(f"INSERT INTO events ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


FILLERS = {"SqliteSessionService": fill_sqlite_peer, "DatabaseSessionService": fill_database_peer}


async def times_of(work: Callable[[int], Awaitable[Any]], turns: int, warm_up: int = 0) -> list[float]:
    """Return the milliseconds of each turn without the first ones, which warm up."""
    times = []
    for turn in range(warm_up + turns):
        start = time.perf_counter()
        await work(turn)
        times.append((time.perf_counter() - start) * 1000)
    return times[warm_up:]


async def median_of(work: Callable[[int], Awaitable[Any]], turns: int, warm_up: int = 0) -> float:
    """Return the median of `times_of`."""
    return statistics.median(await times_of(work, turns, warm_up))


def as_json(value: Any) -> str:
    """Return JSON as ADK's server writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
