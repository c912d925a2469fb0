"""A model that does what the user says, so that tests direct the agents.

`say WORDS…` streams the words, one every PAUSE seconds of its agent's model; `call TOOL JSON` calls a tool;
`calls [[TOOL, ARGS], …]` calls tools at once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types


class Acting(BaseLlm):
    """Follows the last thing the user said."""

    model: str = "acting"
    pause: float = 0.0

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            yield self._answer(f"{last.function_response.name} answered {last.function_response.response}")
            return
        verb, _, rest = last.text.partition(" ")
        if verb == "call":
            name, _, args = rest.partition(" ")
            yield self._answer(types.Part.from_function_call(name=name, args=json.loads(args or "{}")))
            return
        if verb == "calls":
            calls = [types.Part.from_function_call(name=name, args=args) for name, args in json.loads(rest)]
            yield LlmResponse(content=types.Content(role="model", parts=calls))
            return
        for word in rest.split():
            await asyncio.sleep(self.pause)
            if stream:
                yield LlmResponse(content=self._content(types.Part(text=word + " ")), partial=True)
        yield self._answer(rest)

    def _answer(self, part: str | types.Part) -> LlmResponse:
        return LlmResponse(content=self._content(types.Part(text=part) if isinstance(part, str) else part))

    def _content(self, part: types.Part) -> types.Content:
        return types.Content(role="model", parts=[part])
