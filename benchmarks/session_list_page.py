"""The session list, as the server makes its page, in a store of many sessions with their events and ledger."""

from __future__ import annotations

import asyncio
import sqlite3

from django.test import Client
from google.adk.sessions.base_session_service import BaseSessionService

from benchmarks.figures import Figure
from benchmarks.large_store import fill
from benchmarks.stores import APP, FOLDER, FULL, USER, median_of, peers, session_of

SESSIONS = 100_000 if FULL else 2_000
QUERIES = (
    "app:app1",
    "user:user3",
    "is:error",
    "kind:error",
    "tool:old_tool",
    "tool:rare_tool",
    'error:"town 50"',
    "duration>1h",
    "user:tier = gold",
    "user:tier missing",
    "key0 = 50",
    "retries > 5 ever",
    "order_id missing",
    "nearly_everywhere missing",
    "nearly_everywhere never",
    "old_key = antique",
    "key0 > 50 never",
)
"""Terms that many sessions meet, few, only the oldest, one or none: see `large_store`."""

TEXTS = ("sunny", "thunderstorm", "antique", '"sunny in town 50"', "-antique")


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
    await asyncio.to_thread(fill, SESSIONS)
    client = Client(headers={"host": "127.0.0.1"})

    def page(query: str) -> None:
        answer = client.get("/sessions/", {"q": query} if query else {})
        assert answer.status_code == 200, answer.content[:500]

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
    for queries, budget in ((QUERIES, 100), (TEXTS, 200)):
        for query in queries:
            print(Figure(f"{what}, {query}", "ms", await time_of(query), budget).as_line())


if __name__ == "__main__":
    asyncio.run(main())
