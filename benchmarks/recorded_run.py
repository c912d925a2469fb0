"""Cost of the recorder in a run: an event of an agent that writes state, and a model call, with and without it.

Also the cost of pause points at which no call pauses.
"""

from __future__ import annotations

import logging
import statistics
import time
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.genai import types

from benchmarks.figures import Figure
from benchmarks.stores import APP, USER, event, ours
from devui.runtime.pause_plugin import CallPausePlugin, OutcomePausePlugin
from devui.runtime.run_pauser import RunPauser
from sessions_app.adk import Recorder
from sessions_app.console.pause_points import PausePoints

EVENTS = 300
CALLS = 100
WARM_UP = 20
RECORDS = 200
"""Log records of a turn whose log is stored."""

log = logging.getLogger("benchmarks.agent")
log.setLevel(logging.INFO)

Plugins = list[BasePlugin]


class Writer(BaseAgent):
    """Yields that many events, each with a key in every scope."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for number in range(EVENTS + WARM_UP):
            agent_event = event(number)
            agent_event.invocation_id, agent_event.author = ctx.invocation_id, self.name
            yield agent_event


class Short(BaseLlm):
    """Model that answers at once."""

    model: str = "short"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield one answer."""
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Yes.")]))


def runner(agent: BaseAgent, plugins: Plugins) -> Runner:
    """Return a runner over DevUI's services."""
    app = App(name=APP, root_agent=agent, plugins=plugins)
    return Runner(app=app, session_service=ours(), auto_create_session=True)


async def event_time(plugins: Plugins) -> float:
    """Return the median of an event in one run, in milliseconds: created, stored and yielded."""
    times = []
    async with runner(Writer(name="writer"), plugins) as running:
        before = time.perf_counter()
        async for _ in running.run_async(
            user_id=USER, session_id=f"events-{len(plugins)}", new_message=message("go")
        ):
            now = time.perf_counter()
            times.append((now - before) * 1000)
            before = now
    return statistics.median(times[WARM_UP:])


def log_records(callback_context: CallbackContext) -> None:
    """Log as much as a talkative agent."""
    for number in range(RECORDS):
        log.info("step %d of the plan of %s", number, callback_context.agent_name)


async def turn_times(name: str, alone: Plugins, measured: Plugins, **options: Any) -> tuple[float, float]:
    """Return the median processor time of a turn without and with the measured plugins, in milliseconds.

    The turns alternate between two growing sessions. The processor time is that of all threads.

    Args:
        name: name of the agent and of its sessions.
        alone, measured: the plugins of the turns.
        options: further options of the agent.
    """
    runners = {
        on: runner(LlmAgent(name=name, model=Short(), **options), measured if on else alone)
        for on in (False, True)
    }
    times: dict[bool, list[float]] = {False: [], True: []}
    async with runners[False], runners[True]:
        for number in range(CALLS + WARM_UP):
            for on, running in runners.items():
                before = time.process_time()
                async for _ in running.run_async(
                    user_id=USER,
                    session_id=f"{name}-{'measured' if on else 'alone'}",
                    new_message=message(f"question {number}"),
                ):
                    pass
                times[on].append((time.process_time() - before) * 1000)
    return statistics.median(times[False][WARM_UP:]), statistics.median(times[True][WARM_UP:])


def message(text: str) -> types.Content:
    """Return a message."""
    return types.Content(role="user", parts=[types.Part(text=text)])


async def rows() -> list[Figure]:
    """Measure each without and with the plugins. The peer of a row is the same without."""
    logging_agent: dict[str, Any] = {"before_agent_callback": log_records}
    measured = {
        "event of a run, stored": (await event_time([]), await event_time([Recorder()])),
        f"turn with a model call, {CALLS} in a session, processor time": await turn_times(
            "speaker", [], [Recorder()]
        ),
        f"the same with {RECORDS} log records": await turn_times("logger", [], [Recorder()], **logging_agent),
    }
    figures = []
    for what, (alone, recorded) in measured.items():
        figures.append(Figure(what, "ms", alone))
        figures.append(Figure(f"{what}, recorder on", "ms", recorded, None, alone, "recorder off"))
    points = PausePoints(model_calls=True, tool_calls=True, condition="city = Oslo")
    pauser = RunPauser("benchmark", points, print)
    pausing: Plugins = [CallPausePlugin(pauser), Recorder(), OutcomePausePlugin(pauser)]
    alone, pausable = await turn_times("pausable", [Recorder()], pausing)
    what = "turn with a model call and pause points that it does not meet"
    return [*figures, Figure(what, "ms", pausable, None, alone, "no pause points")]
