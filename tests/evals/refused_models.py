"""A model whose service refuses calls, and an agent with it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import httpx
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import errors, types

SOON = {"Retry-After": "0.02"}


def client_error(code, headers=SOON):
    response = httpx.Response(code, headers=headers)
    return errors.APIError(code, {"error": {"code": code, "message": "Slow down.", "status": "NO"}}, response)


class Fails(BaseLlm):
    """A model that raises what is left to raise, then gives verdicts that everything is right."""

    left: list[Exception]
    request_count: int = 0
    says: str = '{"is_the_agent_response_valid": "valid"}'

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.request_count += 1
        if self.left:
            raise self.left.pop(0)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=self.says)]))


def agent(model, **more):
    return LlmAgent(name="counter", model=model, **more)
