"""Fake models for agents in tests, which give scripted answers."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from google.adk.models.base_llm import BaseLlm
from google.adk.models.base_llm_connection import BaseLlmConnection
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types
from pydantic import PrivateAttr

Say = str | types.Part


def call(tool: str, call_id: str | None = None, **args: Any) -> types.Part:
    """Return a function call as a model makes it."""
    return types.Part(function_call=types.FunctionCall(id=call_id, name=tool, args=args))


class ScriptedModel(BaseLlm):
    """Answers its n-th request with its n-th turn; a turn that is an exception is raised.

    When ADK streams, each text is sent in pieces of three characters before the whole answer.
    """

    model: str = "scripted"
    turns: list[Any]
    _said: int = PrivateAttr(default=0)

    @classmethod
    def saying(cls, *turns: Say | Sequence[Say] | Exception) -> ScriptedModel:
        """Return a model with these turns."""
        return cls(turns=list(turns))

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the next turn."""
        turn = self.turns[self._said]
        self._said += 1
        if isinstance(turn, Exception):
            raise turn
        says = [turn] if isinstance(turn, str | types.Part) else turn
        parts = [types.Part(text=say) if isinstance(say, str) else say for say in says]
        if stream:
            for text in (part.text or "" for part in parts):
                for start in range(0, len(text), 3):
                    yield LlmResponse(
                        content=_content([types.Part(text=text[start : start + 3])]), partial=True
                    )
        yield LlmResponse(content=_content(parts), finish_reason=types.FinishReason.STOP)


class LiveModel(ScriptedModel):
    """Speaks over a live connection: every text that it is sent is answered by the next turn, in pieces, aloud too.

    A turn that is an exception breaks the connection. `histories` is what each connection began with.
    """

    model: str = "scripted-live"
    histories: list[list[types.Content]] = []

    @classmethod
    def supported_models(cls) -> list[str]:
        """Return the patterns of the names that ADK makes such a model of."""
        return ["scripted-live"]

    @asynccontextmanager
    async def connect(self, llm_request: LlmRequest) -> AsyncIterator[BaseLlmConnection]:
        """Open a connection."""
        self.histories.append([])
        yield _Connection(self)

    def next_turn(self, text: str) -> Any:
        """Return what is said next to somebody who said this."""
        self._said += 1
        return self.turns[self._said - 1]


class _Connection(BaseLlmConnection):
    """A live connection to the scripted model."""

    SOUND = bytes(range(256)) * 20
    """16-bit PCM."""

    def __init__(self, model: LiveModel) -> None:
        self._model = model
        self._heard: asyncio.Queue[str | None] = asyncio.Queue()
        self._sound = b""
        self._mime = ""
        self._marks: list[str] = []

    async def send_history(self, history: list[types.Content]) -> None:
        self._model.histories[-1] += history

    async def send_content(self, content: types.Content) -> None:
        await self._heard.put("".join(part.text or "" for part in content.parts or []))

    async def send_realtime(self, blob: Any) -> None:
        """Hear sound until its end, which is answered with what was heard; a picture is answered at once."""
        if not isinstance(blob, types.Blob):
            self._marks.append(type(blob).__name__)
            if isinstance(blob, types.ActivityStart):
                return
            await self._heard.put(f"{self._describe_sound()} {' '.join(self._marks)}")
            self._sound = b""
            self._marks = []
        elif str(blob.mime_type).startswith("audio/"):
            self._sound += blob.data or b""
            self._mime = str(blob.mime_type)
        else:
            await self._heard.put(f"a picture of type {blob.mime_type}")

    def _describe_sound(self) -> str:
        samples = array("h", self._sound)
        is_silent = max(map(abs, samples), default=0) < 100
        return f"{'silence' if is_silent else 'sound'} of type {self._mime}"

    async def receive(self) -> AsyncGenerator[LlmResponse, None]:
        message = await self._heard.get()
        if message is None:
            return
        if " of type audio/" in message:
            for words, finished in (("what was ", False), ("what was heard", True)):
                yield LlmResponse(input_transcription=types.Transcription(text=words, finished=finished))
        turn = self._model.next_turn(message)
        if isinstance(turn, Exception):
            raise turn
        if not isinstance(turn, str):
            yield LlmResponse(content=_content([turn]))
            return
        for start in range(0, len(turn), 3):
            yield LlmResponse(content=_content([types.Part(text=turn[start : start + 3])]), partial=True)
        sound = types.Blob(data=self.SOUND, mime_type="audio/pcm;rate=24000")
        yield LlmResponse(content=_content([types.Part(inline_data=sound)]))
        yield LlmResponse(content=_content([types.Part(text=turn)]))
        yield LlmResponse(turn_complete=True)

    async def close(self) -> None:
        await self._heard.put(None)


def _content(parts: list[types.Part]) -> types.Content:
    return types.Content(role="model", parts=parts)
