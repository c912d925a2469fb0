"""Agent that repeats the user's message."""

from __future__ import annotations

AGENT = """
from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.genai import types


class Echo(BaseAgent):
    async def _run_async_impl(self, ctx):
        said = ctx.user_content.parts[0].text
        content = types.Content(role="model", parts=[types.Part(text=ANSWERS.get(said, said))])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


ANSWERS = {}
root_agent = Echo(name="echo")
"""
