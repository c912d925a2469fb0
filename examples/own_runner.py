"""Your own program, with its own ADK `Runner`, watched live in DevUI.

    python examples/own_runner.py --turns 5 --pause 2

Keep DevUI open on the session that this prints: every event appears there as it is stored. Two lines make
the difference to any other ADK program: the session service, and the `Recorder` among the App's plug-ins.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from itertools import cycle, islice
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured
from google.adk.agents import BaseAgent
from google.adk.apps import App
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.genai import types

import devui

AGENTS = Path(__file__).parent / "agents"
QUESTIONS = (
    "Hello",
    "What is the weather in Paris?",
    "Compare Rome and Lima",
    "What should I pack for Oslo?",
)


async def run(user: str, session_id: str, turns: int, pause: float) -> None:
    """Ask the weather agent `turns` questions in one session, `pause` seconds apart."""
    from sessions_app.adk import DjangoSessionService, Recorder  # needs devui.setup()

    agent = AgentLoader(str(AGENTS)).load_agent("weather")
    assert isinstance(agent, BaseAgent)
    app = App(name="weather", root_agent=agent, plugins=[Recorder()])
    service = DjangoSessionService()
    if await service.get_session(app_name=app.name, user_id=user, session_id=session_id) is None:
        await service.create_session(app_name=app.name, user_id=user, session_id=session_id)
    print(f"Session {session_id!r} of user {user!r} in app {app.name!r}")

    async with Runner(app=app, session_service=service) as runner:
        for question in islice(cycle(QUESTIONS), turns):
            print(f"> {question}")
            message = types.Content(role="user", parts=[types.Part(text=question)])
            async for event in runner.run_async(user_id=user, session_id=session_id, new_message=message):
                print(f"  {describe(event)}")
            await asyncio.sleep(pause)


def describe(event: Event) -> str:
    """Return a line for an event: author, content, and the state keys that it wrote."""
    parts = (event.content.parts if event.content else None) or []
    texts = [part.text for part in parts if part.text]
    calls = [f"{call.name}({call.args})" for call in event.get_function_calls()]
    results = [f"{result.name} answered" for result in event.get_function_responses()]
    keys = f" [{', '.join(event.actions.state_delta)}]" if event.actions.state_delta else ""
    return f"{event.author}: {' '.join([*texts, *calls, *results])}{keys}"


def main() -> None:
    """Read the command line, set up the store, run."""
    parser = argparse.ArgumentParser(description="Run an agent outside DevUI, in DevUI's store.")
    parser.add_argument(
        "--database", help="store, as in DATABASE_URL (default: that, else the one in .devui/)"
    )
    parser.add_argument("--user", default="script", help="user id (default: %(default)s)")
    parser.add_argument(
        "--session", default="own-runner", help="session id, made if new (default: %(default)s)"
    )
    parser.add_argument("--turns", type=int, default=4, help="how many questions (default: %(default)s)")
    parser.add_argument("--pause", type=float, default=1, help="seconds between them (default: %(default)s)")
    options = parser.parse_args()
    try:
        devui.setup(options.database)
    except ImproperlyConfigured as error:
        sys.exit(str(error))
    asyncio.run(run(options.user, options.session, options.turns, options.pause))


if __name__ == "__main__":
    main()
