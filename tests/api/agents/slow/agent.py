"""Agent that streams a word every twentieth of a second; fails or ends its process on request.

Told to `count FILE`, it makes the file when it has ended, however that came about.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator
from pathlib import Path

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.genai import types

WORDS = 1_000


class Slow(BaseAgent):
    """A counter that can be interrupted."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        text = ctx.user_content.parts[0].text if ctx.user_content and ctx.user_content.parts else ""
        try:
            async for event in self._say(ctx, text):
                yield event
        finally:
            _tell_the_end(text)

    async def _say(self, ctx: InvocationContext, question: str) -> AsyncGenerator[Event, None]:
        for number in range(WORDS):
            if number == 2 and question == "fail":
                raise ValueError("kaput")
            if number == 2 and question == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            text = types.Part(text=f"word {number}")
            content = types.Content(role="model", parts=[text])
            yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)
            if question == "short":
                return
            await asyncio.sleep(0.05)


def _tell_the_end(question: str) -> None:
    if question.startswith("count "):
        Path(question.removeprefix("count ")).touch()


root_agent = Slow(name="slow", description="Counts slowly.")
