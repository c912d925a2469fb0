"""Page "Why this answer" of a session of 2,000 events: the last answer, whose request has every event before it.

The figure is processor time of this process, so that other load on the machine hardly matters.
"""

from __future__ import annotations

import asyncio
import statistics
import time

from django.db import connection
from django.test import Client
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent

from benchmarks.figures import Figure
from benchmarks.recorded_run import Short, message, runner
from benchmarks.stores import APP, USER, event, fill_ours, ours
from devui.runtime.agent_description import describe
from sessions_app.adk import Recorder
from sessions_app.agents import cards
from sessions_app.store.models import AgentSession
from sessions_app.store.traces import outbox

EVENTS = 2_000
TIMES = 10
INSTRUCTION = (
    "You report the weather.\nThe turn is {turn}.\nThe last one was {user:last?}.\nThe city is {city}."
)


def choose_city(callback_context: CallbackContext) -> None:
    """Write a key that the instruction names."""
    callback_context.state["city"] = "Paris"


async def record_answer() -> None:
    """Run one recorded turn on a session that has the other events."""
    await ours().create_session(app_name=APP, user_id=USER, session_id="why")
    events = [event(number) for number in range(EVENTS)]
    for agent_event in events[::4]:
        agent_event.author = "user"
    await asyncio.to_thread(fill_ours, "why", events)
    agent = LlmAgent(name="agent", model=Short(), instruction=INSTRUCTION, before_agent_callback=choose_city)
    await asyncio.to_thread(cards.save_loaded, APP, "1", describe(agent, None, APP))
    async with runner(agent, [Recorder()]) as running:
        async for _ in running.run_async(user_id=USER, session_id="why", new_message=message("go")):
            pass
    await asyncio.to_thread(outbox.close)


def measure_page() -> float:
    """Return the median processor time of the page in milliseconds, after two to warm up."""
    session = AgentSession.objects.get(app_name=APP, session_id="why")
    client = Client(headers={"host": "127.0.0.1"})
    times = []
    for _ in range(2 + TIMES):
        start = time.process_time()
        response = client.get(f"/sessions/id/{session.pk}/events/{session.last_seq}/why/")
        times.append((time.process_time() - start) * 1000)
        assert b"why-lines" in response.content, response.content[:500]
    return statistics.median(times[2:])


def main() -> None:
    """Measure and print."""
    asyncio.run(record_answer())
    connection.close()
    label = f"page Why this answer, session of {EVENTS:,} events (processor time)"
    print(Figure(label, "ms", measure_page(), 200.0).as_line())


if __name__ == "__main__":
    main()
