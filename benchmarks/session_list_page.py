"""The session list as the server renders its page, in a store of many sessions with events and ledger.

Figures are processor time of this process and, on PostgreSQL, of its backend, so that other load on the machine hardly
matters. A store that contains sessions already is measured as it is.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import time
from collections.abc import Callable
from pathlib import Path

from django.db import connection
from django.test import Client
from google.adk.sessions.base_session_service import BaseSessionService

from benchmarks.figures import Figure
from benchmarks.large_store import fill
from benchmarks.stores import APP, FOLDER, FULL, ON_POSTGRES, USER, peers, session_of
from sessions_app.store.models import AgentSession
from sessions_app.tables import session_columns

SESSIONS = 100_000 if FULL else 2_000
TIMES = 10
"""Pages rendered per query, after two to warm up. A backend's time has a resolution of 10 ms."""

QUERIES = (
    *("app:app1", "user:user3", "is:error"),
    *("kind:error", "tool:rare_tool", "tool:old_tool", "-kind:user", 'error:"town 50"'),
    *("duration>1h", "title:zzz"),
    *("user:tier = gold", "user:tier missing", "user:tier never"),
    *("key0 = 50", "key0 > 103", "key0 > 50 never", "key0 >= 0 never", "-key0 >= 0", "key0 ~ zz"),
    *("retries > 5 ever", "tool:get_weather tool:old_tool", "old_key missing old_key ever"),
    *("order_id missing", "nearly_everywhere missing", "nearly_everywhere never", "-key0 ever"),
    *("old_key = antique", "old_key ever", "old_key != antique", "-old_key missing"),
    *("key0 ~ zz key1 ~ yy", "key0 ~ zz ever", "-key0 ~ 1", "user:tier ~ zz", "-user:tier = basic"),
    *(
        "tool:old_tool error:exhausted",
        "title:zzz key0 ~ zz",
        "app:app1 key0 ~ zz",
        "app:app1 order_id > 99000",
    ),
    *("tool:get_weather old_key missing -tool:old_tool errors>5", "is:idle title:zzz"),
)
"""Terms that many sessions match, few, only the oldest, one or none; see `large_store`."""

ORDERS = [
    f"{sign}{column.key}" for column in session_columns.TABLE.columns if column.order for sign in ("", "-")
]
"""Values of the parameter `sort`."""

TEXTS = (
    *("thunderstorm", "sunny", "antique", "weather sunny", '"sunny in town 50"', "-sunny", "-antique"),
    *("tool:old_tool modern", "old_key ever sunny", "antique modern", "tool:old_tool old_key missing modern"),
    *("is:idle thunderstorm",),
)


async def fill_peer(name: str, peer: BaseSessionService) -> None:
    """Fill ADK's store with as many sessions, without events."""
    await session_of(peer, "first")
    if name == "SqliteSessionService":
        rows = ((APP, f"{USER}{number % 50}", f"s{number}", number) for number in range(SESSIONS))
        with sqlite3.connect(FOLDER / "adk.sqlite3") as database:
            database.executemany("INSERT INTO sessions VALUES (?, ?, ?, '{}', ?4, ?4)", rows)
        return
    for number in range(SESSIONS):
        await session_of(peer, f"s{number}")


async def cost_of_peer(name: str, peer: BaseSessionService) -> float:
    """Return the median processor time of ADK's list in this process, of five, in milliseconds."""
    await fill_peer(name, peer)
    times = []
    for _ in range(6):
        began = time.process_time()
        await peer.list_sessions(app_name=APP)
        times.append((time.process_time() - began) * 1000)
    return statistics.median(times[1:])


def cost_of(render: Callable[[], None]) -> tuple[float, float]:
    """Return the median processor time of a call in this process, and the mean of the backend, in milliseconds."""
    for _ in range(2):
        render()
    times, backend_start = [], _backend_s()
    for _ in range(TIMES):
        began = time.process_time()
        render()
        times.append((time.process_time() - began) * 1000)
    return statistics.median(times), (_backend_s() - backend_start) / TIMES * 1000


def _backend_s() -> float:
    """Return the processor time of the backend so far, in seconds; 0 if it does not run on this machine."""
    if not ON_POSTGRES:
        return 0.0
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure and print."""
    if not AgentSession.objects.exists():
        fill(SESSIONS)
    client = Client(headers={"host": "127.0.0.1"})
    what = f"session list of {AgentSession.objects.count():,}"

    def figure(
        query: str, budget: float, peer: float | None = None, peer_name: str = "", *, sort: str = ""
    ) -> Figure:
        def page() -> None:
            answer = client.get("/sessions/", {"q": query, "sort": sort})
            assert answer.status_code == 200, answer.content[:500]

        web, backend = cost_of(page)
        backend_note = f" (backend {backend:.0f})" if ON_POSTGRES else ""
        sort_note = f", sorted by {sort}" if sort else ""
        return Figure(
            f"{what}, {query or 'no search'}{sort_note}{backend_note}",
            "ms",
            web + backend,
            budget,
            peer,
            peer_name,
        )

    peer_costs = {
        f"{name}.list_sessions, no page": asyncio.run(cost_of_peer(name, peer))
        for name, peer in peers().items()
        if not (FULL and name == "DatabaseSessionService")  # making that many one by one takes half an hour
    }
    for name, cost in peer_costs.items():
        print(figure("", 30, cost, name).as_line())
    if not peer_costs:
        print(figure("", 30).as_line())
    for sort in ORDERS:
        print(figure("", 100, sort=sort).as_line())
    for queries, budget in ((QUERIES, 100), (TEXTS, 200)):
        for query in queries:
            print(figure(query, budget).as_line())


if __name__ == "__main__":
    main()
