"""The session list, as the server makes its page, in a store of many sessions with their events and ledger."""

from __future__ import annotations

import asyncio
import sqlite3
import time

from django.db import connection
from django.test import Client
from google.adk.sessions.base_session_service import BaseSessionService

from benchmarks.figures import Figure
from benchmarks.stores import APP, FOLDER, FULL, USER, median_of, peers, session_of

SESSIONS = 100_000 if FULL else 2_000
EVENTS, CHANGES = 20, 50
"""Per session: 2 million events and 5 million rows of the ledger in all, at full size."""

NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %(rows)s)"

SESSION = f"""
INSERT INTO sessions_app_agentsession (realm, app_name, user_id, session_id, created_at, updated_at, revision,
    last_seq, origin, title, first_text, last_text, error_count, total_tokens, lineage)
{NUMBERS}
SELECT '', %(app)s || (i %% 5), %(user)s || (i %% 50), 's' || i, %(now)s - i, %(now)s - i, {EVENTS}, {EVENTS},
    'live', '', 'How is the weather in town ' || i || '?', 'It is sunny in town ' || i || ', 24 degrees.',
    i %% 10 = 0, 1200, '' FROM n
"""
EVENT = f"""
INSERT INTO sessions_app_event (session_id, seq, event_id, invocation_id, author, kind, timestamp, branch,
    app_version, user_version, is_final, total_tokens, summary, data)
{NUMBERS}
SELECT s.id, n.i, 'e' || n.i, 'i' || (n.i / 4), 'agent', 'agent', s.created_at, '', 0, 0, 1, 60,
    '{{"text":"It is sunny, 24 degrees."}}', '{{"content":{{"parts":[{{"text":"It is sunny, 24 degrees."}}]}}}}'
FROM sessions_app_agentsession s, n
"""
CHANGE = f"""
INSERT INTO sessions_app_statechange (scope, owner_id, key, key_id, position, value, note, removed, cause, timestamp,
    session_id, from_user, from_session, seq, event_id, invocation_id, author, writer, writer_name, call_id, inferred)
{NUMBERS}
SELECT 'session', s.id, 'key' || (n.i %% 9), 'key' || (n.i %% 9), n.i, '"value"', '', 0, 'append', s.created_at,
    s.id, s.user_id, s.session_id, n.i %% {EVENTS}, 'e', 'i', 'agent', 'tool', 'look', '', 0
FROM sessions_app_agentsession s, n
"""


def fill() -> None:
    """Put the sessions into our store."""
    with connection.cursor() as cursor:
        given = {"app": APP, "user": USER, "now": time.time()}
        for statement, rows in ((SESSION, SESSIONS), (EVENT, EVENTS), (CHANGE, CHANGES)):
            cursor.execute(statement, {**given, "rows": rows} if statement is SESSION else {"rows": rows})
        cursor.execute("ANALYZE")


async def fill_peer(name: str, peer: BaseSessionService) -> None:
    """Put as many sessions, without events, into a store of ADK."""
    await session_of(peer, "first")
    if name == "SqliteSessionService":
        rows = ((APP, f"{USER}{number % 50}", f"s{number}", number) for number in range(SESSIONS))
        with sqlite3.connect(FOLDER / "adk.sqlite3") as database:
            database.executemany("INSERT INTO sessions VALUES (?, ?, ?, '{}', ?4, ?4)", rows)
        return
    for number in range(SESSIONS):
        await session_of(peer, f"s{number}")


async def main() -> None:
    """Measure and print."""
    await asyncio.to_thread(fill)
    client = Client(headers={"host": "127.0.0.1"})

    def page(query: str) -> None:
        answer = client.get(f"/sessions/?realm={query}")
        assert answer.status_code == 200, answer.content[:500]
        assert b"weather in town" in answer.content

    async def time_of(query: str) -> float:
        return await median_of(lambda _: asyncio.to_thread(page, query), 20, warm_up=3)

    what = f"session list of {SESSIONS:,}"
    own = await time_of("")
    found = peers()
    for name, peer in found.items():
        if FULL and name == "DatabaseSessionService":
            continue  # creating that many one by one would take half an hour
        await fill_peer(name, peer)
        theirs = await median_of(lambda _, peer=peer: peer.list_sessions(app_name=APP), 5, warm_up=1)
        print(Figure(f"{what}, its page made", "ms", own, 30, theirs, f"{name}.list_sessions").as_line())
    for query, budget in ((f"&app={APP}1", 100), ("&errors_only=on", 100), ("&q=town+1234", 200)):
        print(Figure(f"{what}, {query[1:].split('=')[0]}", "ms", await time_of(query), budget).as_line())


if __name__ == "__main__":
    asyncio.run(main())
