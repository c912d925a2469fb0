"""A program with an agent of its own, which knows nothing of DevUI: run with OTEL_EXPORTER_OTLP_ENDPOINT.

Its tool fails for parcels whose number begins with X: with an error result, or with an exception for XX.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.adk.telemetry.setup import maybe_set_otel_providers
from google.genai import types
from opentelemetry import _logs, trace


class ScriptedModel(BaseLlm):
    """Calls the tool with the last word of the message, then says what it returned."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield one response."""
        last = llm_request.contents[-1].parts[-1]
        if last.function_response:
            parts = [types.Part(text=f"The depot says: {last.function_response.response}")]
        else:
            number = last.text.rstrip("?").split()[-1]
            call = types.FunctionCall(name="track_parcel", args={"number": number})
            parts = [types.Part(text="Let me look it up."), types.Part(function_call=call)]
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=20, candidates_token_count=5, total_token_count=25
        )
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


def track_parcel(number: str) -> dict[str, str]:
    """Look up where a parcel is."""
    if number.startswith("XX"):
        raise ValueError("the depot is offline")
    if number.startswith("X"):
        return {"status": "error", "error_message": "no such parcel at the depot"}
    return {"status": "success", "place": "Lisbon"}


async def main(messages: list[str]) -> None:
    """Send messages to the agent in one session."""
    agent = LlmAgent(
        name="parcels",
        model=ScriptedModel(model="scripted-1"),
        instruction="Track parcels.",
        tools=[track_parcel],
    )
    runner = InMemoryRunner(agent=agent, app_name="parcel_desk")
    session = await runner.session_service.create_session(app_name="parcel_desk", user_id="ann")
    for message in messages:
        content = types.Content(role="user", parts=[types.Part(text=message)])
        try:
            async for _ in runner.run_async(user_id="ann", session_id=session.id, new_message=content):
                pass
        except ValueError as error:
            print(f"failed: {error}")
    print(session.id)


maybe_set_otel_providers()
asyncio.run(main(sys.argv[1:]))
for provider in (trace.get_tracer_provider(), _logs.get_logger_provider()):
    provider.shutdown()
