"""Stores of shards: `run_evals` with an empty SQLite file for each, as on machines of their own."""

from __future__ import annotations

import io
import os
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from django.core.management import call_command

from tests import forked_processes

ROOT = Path(__file__).resolve().parents[2]

AGENT = """
from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.genai import types


class Keeper(BaseAgent):
    async def _run_async_impl(self, ctx):
        said = ctx.user_content.parts[0].text
        delta = {"last": said, "user:seen": said, "app:count": 1, "temp:raw": said}
        content = types.Content(role="model", parts=[types.Part(text=ANSWERS.get(said, said))])
        yield Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=content,
            actions=EventActions(state_delta=delta),
        )


ANSWERS = {}
root_agent = Keeper(name="keeper")
"""
"""An agent that answers what was said, and keeps it in its state."""


CALLER = """
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import AgentTool
from google.genai import types


class Calling(BaseLlm):
    calls: str = ""

    async def generate_content_async(self, llm_request, stream=False):
        is_answered = any(part.function_response for part in llm_request.contents[-1].parts)
        if self.calls and not is_answered:
            part = types.Part(function_call=types.FunctionCall(name=self.calls, args={"request": "go on"}))
        else:
            part = types.Part(text="done")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def make_agent(name, calls="", tools=()):
    return LlmAgent(name=name, model=Calling(model="calling", calls=calls), tools=list(tools))


inner = make_agent("inner")
outer = make_agent("outer", "inner", [AgentTool(inner)])
root_agent = make_agent("caller", "outer", [AgentTool(outer)])
"""
"""An agent that calls an agent, which calls another one."""


def command(store: Path, *arguments: object, code: int = 0, **environment: str) -> str:
    """Run a management command on an SQLite store; return what it prints."""
    done = forked_processes.run(
        [sys.executable, "manage.py", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": f"sqlite:///{store}", **environment},
    )
    assert done.returncode == code, done.stdout + done.stderr
    return str(done.stdout + done.stderr)


def merge(*arguments: object) -> tuple[int, str]:
    """Call `merge_evals` in this process; return its exit code and output."""
    out, code = io.StringIO(), 0
    try:
        call_command("merge_evals", *map(str, arguments), stdout=out)
    except SystemExit as end:
        code = int(end.code or 0)
    return code, out.getvalue()


def change(store: Path, sql: str, *values: Any) -> None:
    """Change rows of a store."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute(sql, values)
        connection.commit()
