"""A weather desk that answers in the units of its instruction, and a model that rewrites the instruction.

Its evalset expects the units of the United States, and the instruction names others. `devui optimize` finds that out
with the model `offline-prompt-writer`. Both models follow rules: they are free, and the same every time.
"""

import re
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types

sys.path.append(str(Path(__file__).resolve().parents[2] / "agents"))  # the model that the examples share

from scripted_model import Reply, Rule, ScriptedLlm, Turn

STATIONS = {"Paris": (24, 10), "Rome": (27, 15), "Oslo": (-3, 30), "Lima": (16, 20), "Cairo": (36, 5)}
"""City → degrees Celsius, and wind in kilometers per hour."""

INSTRUCTION = """\
You are a weather desk. Answer in one short sentence.

temperature: Celsius
wind: kilometers per hour
"""


def say_temperature(turn: Turn) -> Reply:
    """Say the temperature in the unit of the instruction."""
    celsius, _ = STATIONS[turn["city"].title()]
    if turn.facts.get("temperature") == "Fahrenheit":
        return f"It is {celsius * 9 / 5 + 32:.0f} °F in {turn['city']}."
    return f"It is {celsius} °C in {turn['city']}."


def say_wind(turn: Turn) -> Reply:
    """Say the wind in the unit of the instruction."""
    _, kmh = STATIONS[turn["city"].title()]
    if turn.facts.get("wind") == "miles per hour":
        return f"The wind is {kmh / 1.609:.0f} mph in {turn['city']}."
    return f"The wind is {kmh} km/h in {turn['city']}."


CITY = f"(?P<city>{'|'.join(STATIONS)})"
RULES = [
    Rule(rf"warm.* in {CITY}", say_temperature),
    Rule(rf"wind.* in {CITY}", say_wind),
    Rule(r"thank", "You are welcome."),
    Rule(reply=f"Ask me how warm or how windy it is in {', '.join(STATIONS)}."),
]

IDEAS = {
    "temperature: Celsius": "temperature: Fahrenheit",
    "wind: kilometers per hour": "wind: miles per hour",
}
CURRENT = re.compile(r"<current_prompt>\n(.*?)\n</current_prompt>|```\n(.*?)\n```", re.DOTALL)
"""The instruction in a prompt of ADK's SimplePromptOptimizer, or of its GEPA optimiser."""


class OfflinePromptWriter(BaseLlm):
    """Rewrites an instruction by its first idea that applies; without one it repeats the instruction."""

    @classmethod
    def supported_models(cls) -> list[str]:
        """Return the pattern of its name."""
        return ["offline-prompt-writer"]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield the new instruction, with token counts."""
        prompt = "\n".join(
            part.text or "" for content in llm_request.contents for part in content.parts or []
        )
        answer = rewrite(prompt)
        prompt_tokens, answer_tokens = -(-len(prompt) // 4), -(-len(answer) // 4)
        yield LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text=answer)]),
            usage_metadata=types.GenerateContentResponseUsageMetadata(
                prompt_token_count=prompt_tokens,
                candidates_token_count=answer_tokens,
                total_token_count=prompt_tokens + answer_tokens,
            ),
        )


def rewrite(prompt: str) -> str:
    """Return the instruction that a prompt quotes, changed by one idea; in a fence if the prompt has one."""
    match = CURRENT.search(prompt)
    if match is None:
        return "The prompt quotes no instruction."
    fenced = match[2]
    instruction = match[1] or fenced
    for old, new in IDEAS.items():
        if old in instruction:
            instruction = instruction.replace(old, new)
            break
    return f"```\n{instruction}\n```" if fenced else instruction


LLMRegistry.register(OfflinePromptWriter)

root_agent = LlmAgent(
    name="thermo",
    description="Answers questions about temperature and wind.",
    model=ScriptedLlm(rules=RULES),
    instruction=INSTRUCTION,
)
