"""Pages of trends, and the cost of rolling up, in a store of as many invocations as `large_store` has: 5 a session.

The page reads the roll-ups only. So the recorded calls of all but the newest invocations are rolled up from memory by
the same functions and never stored; the newest ones are stored, and rolled up as the web process does it.
Figures are processor time of this process, so that other load on the machine hardly matters.
"""

from __future__ import annotations

import json
import random
import statistics
import time
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from django.test import Client

from benchmarks.figures import Figure
from benchmarks.large_store import APPS, EVENTS, TURNS, USERS
from benchmarks.stores import FULL
from sessions_app.store.models import AgentSession, ModelCall, Run, Span, Trace
from sessions_app.trends import rollup

SESSIONS = 100_000 if FULL else 2_000
STORED = 1_000
"""Newest invocations whose calls are stored."""

CHUNK = 20_000
"""Invocations that are rolled up from memory at once."""

INTERVAL_S = 10.0
"""Seconds from one session to the next, as in `large_store`."""

AGENTS, MODELS, TOOLS = ("planner", "critic", "writer"), ("flash", "pro"), ("look", "find", "book")
TIMES = 10
PAGES = (
    *("", "measure=model-latency", "measure=cost&by=user", "measure=tokens&by=agent&days=90"),
    *("app=app1", "app=app1&by=user&days=90", "app=app1&measure=tool-latency&days=2"),
    "app=app1&measure=model-latency&by=code&days=90",
)


class Recorded(NamedTuple):
    """An invocation with its rows, which are not stored."""

    trace: Trace
    calls: list[ModelCall]
    spans: list[Span]
    run: Run


def invocations() -> Iterator[Recorded]:
    """Yield the invocations of all sessions, the oldest first: two model calls, a tool call and a run each."""
    chance = random.Random(1)
    now = time.time()
    for number in range(SESSIONS):
        at = now - (SESSIONS - number) * INTERVAL_S - 60
        session = AgentSession(
            pk=number + 1,
            app_name=f"app{number % APPS}",
            user_id=f"user{number // APPS % USERS}",
            session_id=f"s{number}",
            created_at=at,
            updated_at=at,
            last_seq=EVENTS,
            indexed_seq=EVENTS,
            problems_seq=EVENTS,
        )
        for turn in range(EVENTS // len(TURNS)):
            yield _invocation(session, f"i{number}-{turn}", at + 10 * turn, chance)


def _invocation(session: AgentSession, name: str, at: float, chance: random.Random) -> Recorded:
    agent = chance.choice(AGENTS)
    end = at + chance.lognormvariate(1, 0.5)
    stages = json.dumps([["loaded", at, agent], ["end", end, agent]])
    of = {"session": session, "invocation_id": name}
    trace = Trace(**of, root_agent=agent, started_at=at, finished_at=end, stages=stages)
    calls = [
        ModelCall(
            **of,
            ref=f"{name}-{number}",
            number=number,
            agent=agent,
            model=chance.choice(MODELS),
            started_at=at + number,
            first_at=at + number + chance.random(),
            finished_at=at + number + chance.lognormvariate(0, 0.7),
            request="{}",
            prompt_tokens=1_000,
            output_tokens=100,
            total_tokens=1_100,
        )
        for number in (1, 2)
    ]
    tool = chance.choice(TOOLS)
    began = int(at * 1e9)
    span = Span(
        **of,
        name=f"execute_tool {tool}",
        kind=Span.Kind.TOOL,
        started_ns=began,
        ended_ns=began + int(chance.lognormvariate(-1, 1) * 1e9),
        attributes=json.dumps({"gen_ai.tool.name": tool, "gen_ai.agent.name": agent}),
    )
    code = f"{int(at // 43_200):x}"  # the code changes twice a day
    run = Run(id=name, **of, status=Run.Status.DONE, code_version=code, created_at=at)
    return Recorded(trace, calls, [span], run)


def roll_up_from_memory(recorded: list[Recorded]) -> None:
    """Add invocations to the buckets."""
    batch = rollup.Batch([])
    for trace, calls, spans, run in recorded:
        invocation = (trace.session_id, trace.invocation_id)
        trace.former_realm = None  # type: ignore[attr-defined]
        rollup.add_invocation(
            batch, trace, rollup.Records({invocation: calls}, {invocation: spans}, {invocation: [run]}, {})
        )
    rollup.add_to_buckets(batch.totals)


def store(recorded: list[Recorded]) -> None:
    """Store invocations with their sessions."""
    sessions = {one.trace.session_id: one.trace.session for one in recorded}
    AgentSession.objects.bulk_create(sessions.values())
    Trace.objects.bulk_create(one.trace for one in recorded)
    ModelCall.objects.bulk_create(call for one in recorded for call in one.calls)
    Span.objects.bulk_create(span for one in recorded for span in one.spans)
    Run.objects.bulk_create(one.run for one in recorded)


def page_time(query: str) -> float:
    """Return the median processor time of a page in milliseconds, after two to warm up."""
    client = Client(headers={"host": "127.0.0.1"})
    times = []
    for _ in range(2 + TIMES):
        began = time.process_time()
        answer = client.get(f"/trends/?{query}")
        times.append((time.process_time() - began) * 1000)
        assert answer.status_code == 200, answer.content[:500]
    return statistics.median(times[2:])


def main() -> None:
    """Measure and print."""
    recorded = invocations()
    older = SESSIONS * EVENTS // len(TURNS) - STORED
    for start in range(0, older, CHUNK):
        roll_up_from_memory(list(islice(recorded, min(CHUNK, older - start))))
    store(list(recorded))
    began = time.process_time()
    rollup.count_all()
    per_event = (time.process_time() - began) * 1000 / (STORED * len(TURNS))
    print(Figure("roll-up of trends, an event", "ms", per_event, 1.0).as_line())
    for query in PAGES:
        what = f"trends of {SESSIONS * EVENTS:,} events, {query or 'first page'} (processor time)"
        print(Figure(what, "ms", page_time(query), 100.0).as_line())


if __name__ == "__main__":
    main()
