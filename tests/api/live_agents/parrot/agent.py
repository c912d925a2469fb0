"""Live agent that repeats its input while it listens; fails or ends its process on request."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class Line(BaseLlmConnection):
    """A connection to nobody: what is said comes back."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    async def send_history(self, history: list[types.Content]) -> None:
        """Forget what was said before."""

    async def send_content(self, content: types.Content) -> None:
        """Hear a text."""
        for part in content.parts or []:
            self.heard.put_nowait(part.text or "")

    async def send_realtime(self, blob: Any) -> None:
        """Hear a sound or see a picture."""
        if isinstance(blob, types.Blob):
            self.heard.put_nowait(f"{blob.mime_type} of {len(blob.data or b'')} bytes")

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        """Say what was heard."""
        while True:
            message = await self.heard.get()
            if message == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if message.startswith("fail"):
                raise ValueError("kaput" + message.removeprefix("fail"))
            content = types.Content(role="model", parts=[types.Part(text=f"heard {message}")])
            yield LlmResponse(content=content, turn_complete=False)
            yield LlmResponse(turn_complete=True)

    async def close(self) -> None:
        """Nothing is open."""


class Parrot(BaseLlm):
    """A model that can be talked to live."""

    model: str = "parrot"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Say one thing."""
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="squawk")]))

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncIterator[BaseLlmConnection]:
        """Open a line."""
        yield Line()


root_agent = LlmAgent(name="parrot", model=Parrot(), instruction="Say what you hear.")
