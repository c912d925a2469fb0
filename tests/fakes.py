"""A model that says what it is told to, for agents that run in tests."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

from google.adk.models.base_llm import BaseLlm
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


def _content(parts: list[types.Part]) -> types.Content:
    return types.Content(role="model", parts=parts)
