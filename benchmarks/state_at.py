"""The merged state at any event, over a long ledger."""

from __future__ import annotations

import asyncio

from django.db import connection

from benchmarks.figures import Figure
from benchmarks.stores import APP, FULL, USER, median_of
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.session_key import StorableKey
from sessions_app.store.sessions import writes
from sessions_app.store.state import history as history

ROWS = 1_000_000 if FULL else 100_000
KEYS = 50

LEDGER = """
INSERT INTO sessions_app_statechange (scope, owner_id, key, key_id, position, value, private, note, removed, cause,
    timestamp, session_id, from_user, from_session, seq, event_id, invocation_id, author, writer, writer_name,
    call_id, inferred)
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %(rows)s)
SELECT 'session', %(pk)s, 'key' || (i %% %(keys)s), 'key' || (i %% %(keys)s), i, '"value of turn"', NULL, '', %(no)s,
    'append', 1.0 * i, %(pk)s, 'ann', 'long', i, 'e' || i, 'i', 'agent', 'tool', 'look', '', %(no)s
FROM n
"""
"""One ledger row per event; the events themselves are not read."""


def fill() -> AgentSession:
    """Create a session with a ledger of `ROWS` rows over `KEYS` keys."""
    session = writes.create_session(StorableKey("", APP, USER, "long"))
    with connection.cursor() as cursor:
        cursor.execute(LEDGER, {"rows": ROWS, "pk": session.pk, "keys": KEYS, "no": False})
        cursor.execute("ANALYZE")
    session.last_seq = ROWS
    session.save(update_fields=["last_seq"])
    return session


def state_at(session: AgentSession, seq: int) -> None:
    """Read the merged state at one event."""
    then = history.state_at(session, Event(session=session, seq=seq))
    assert len(then.merge_scopes()) == KEYS


async def main() -> None:
    """Measure and print."""
    session = await units_of_work.write(fill)
    seqs = [ROWS // 2, ROWS, 1000, ROWS - 1, ROWS // 3]
    median = await median_of(
        lambda turn: units_of_work.read(state_at, session, seqs[turn % 5]), 50, warm_up=5
    )
    print(Figure(f"state of {KEYS} keys at any of {ROWS:,} events", "ms", median, 20).as_line())


if __name__ == "__main__":
    asyncio.run(main())
