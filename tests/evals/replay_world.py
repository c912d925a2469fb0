"""An agent whose model and tool count their calls, to tell replayed calls from real ones."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

from google.adk.agents.llm_agent import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.tool_context import ToolContext
from google.genai import types


@dataclass
class OutsideWorld:
    """The world outside of the agent: it counts real calls of the tool and of the model."""

    tool_calls: list[str] = field(default_factory=list)
    model_calls: int = 0
    sky: str = "sunny"

    def get_weather(self, city: str, tool_context: ToolContext) -> dict[str, object]:
        """Look the weather up."""
        self.tool_calls.append(city)
        tool_context.state["last_city"] = city
        tool_context.state["temp:raw"] = self.sky
        return {"sky": self.sky}


class Model(BaseLlm):
    """Calls the tool with the last word of the user's message, then answers with the result."""

    world: OutsideWorld
    city: str = ""

    async def generate_content_async(self, llm_request, stream=False) -> AsyncGenerator[LlmResponse, None]:
        self.world.model_calls += 1
        parts = llm_request.contents[-1].parts
        result = parts[0].function_response
        if result is not None:
            part = types.Part(text=f"It is {result.response['sky']}.")
        else:
            args = {"city": self.city or parts[0].text.split()[-1]}
            part = types.Part.from_function_call(name="get_weather", args=args)
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10, candidates_token_count=2, total_token_count=12
        )
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)


class Asks(BaseLlm):
    """Hands what the user says to another agent, and repeats what that found."""

    world: OutsideWorld

    async def generate_content_async(self, llm_request, stream=False) -> AsyncGenerator[LlmResponse, None]:
        self.world.model_calls += 1
        text = llm_request.contents[-1].parts[0]
        if text.function_response is not None:
            part = types.Part(text=str(text.function_response.response["result"]))
        else:
            part = types.Part.from_function_call(name="inner", args={"request": text.text})
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def weather_agent(world: OutsideWorld, instruction="Look it up.", city="", **more) -> LlmAgent:
    return LlmAgent(
        name="counter",
        model=Model(model="m", world=world, city=city),
        instruction=instruction,
        tools=[world.get_weather],
        **more,
    )
