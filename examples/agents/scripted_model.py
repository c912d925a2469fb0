"""A model that follows a script: offline, free, and the same every time.

The example agents are ordinary ADK agents; only their model is scripted. It reads the real `LlmRequest`
(instruction, conversation, tool results) and answers with the first rule that fits. To run an example
on a real model, replace `model=ScriptedLlm(...)` by `model="gemini-flash-latest"`.

`DEVUI_EXAMPLE_DELAY_MS` (default 30) is the pause before each streamed chunk.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace

from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.genai import types

Reply = str | types.Part | Sequence[str | types.Part]

CHUNK = re.compile(r"\S{1,6}\s*|\s+")
FACT = re.compile(r"^([\w ]+):[ \t]*(.*)$", re.MULTILINE)
OTHER_AGENT = "For context:"  # how ADK introduces a text of another agent


def call(tool: str, **args: object) -> types.Part:
    """Return a function call of a model."""
    return types.Part.from_function_call(name=tool, args=args)


def think(text: str) -> types.Part:
    """Return a thought, which is shown apart from the answer."""
    return types.Part(text=text, thought=True)


@dataclass(frozen=True)
class Turn:
    """The content of one model call."""

    text: str
    """The last text of the user."""
    last_answer: str
    """The last text of this agent itself."""
    results: list[types.FunctionResponse]
    """Tool results since then, oldest first."""
    facts: dict[str, str]
    """The `key: value` lines of the instruction, in which ADK has filled in the state."""
    words: dict[str, str] = field(default_factory=dict)
    """What the named groups of the rule's pattern matched."""

    def __getitem__(self, group: str) -> str:
        """Return the text that a named group of the rule's pattern matched."""
        return self.words[group]

    @property
    def tool(self) -> str:
        """The tool that answered last, or an empty string."""
        return (self.results[-1].name or "") if self.results else ""

    @property
    def result(self) -> dict[str, object]:
        """The newest tool result."""
        return dict(self.results[-1].response or {}) if self.results else {}

    @classmethod
    def of(cls, request: LlmRequest) -> Turn:
        """Parse the request that ADK has built for this call."""
        text = last_answer = ""
        results: list[types.FunctionResponse] = []
        for content in request.contents:
            parts = content.parts or []
            words = "\n".join(part.text for part in parts if part.text and not part.thought)
            answers = [part.function_response for part in parts if part.function_response]
            if content.role == "model":
                last_answer = words or last_answer
            elif answers:
                results += answers
            elif not words.startswith(OTHER_AGENT):
                text, results = words, []
        facts = FACT.findall(str(request.config.system_instruction or ""))
        return cls(text, last_answer, results, dict(facts))


@dataclass(frozen=True)
class Rule:
    """Gives `reply` if the user's text matches `pattern` and the last tool to answer was `after`."""

    pattern: str = ""
    reply: Reply | Callable[[Turn], Reply] = ""
    after: str = ""

    def answer(self, turn: Turn) -> Reply | None:
        """Return the reply to this turn; None if the rule does not apply."""
        match = re.search(self.pattern, turn.text, re.IGNORECASE)
        if match is None or turn.tool != self.after:
            return None
        words = {name: word or "" for name, word in match.groupdict().items()}
        return self.reply(replace(turn, words=words)) if callable(self.reply) else self.reply


class ScriptedLlm(BaseLlm):
    """A `BaseLlm` that answers with the first matching rule."""

    model: str = "scripted-1"
    rules: list[Rule]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Yield partial chunks when streaming, then the whole answer with its token counts."""
        parts = self._answer(Turn.of(llm_request))
        if stream:
            for part in parts:
                for chunk in CHUNK.findall(part.text or ""):
                    await asyncio.sleep(_delay())
                    piece = types.Part(text=chunk, thought=part.thought)
                    yield LlmResponse(content=_content([piece]), partial=True, model_version=self.model)
        yield LlmResponse(
            content=_content(parts),
            usage_metadata=_usage(llm_request, parts),
            model_version=self.model,
            finish_reason=types.FinishReason.STOP,
        )

    def _answer(self, turn: Turn) -> list[types.Part]:
        for rule in self.rules:
            reply = rule.answer(turn)
            if reply is not None:
                pieces = [reply] if isinstance(reply, str | types.Part) else reply
                return [types.Part(text=piece) if isinstance(piece, str) else piece for piece in pieces]
        raise LookupError(f"No rule of {self.model} answers {turn.text!r} after tool {turn.tool!r}.")


def _content(parts: list[types.Part]) -> types.Content:
    return types.Content(role="model", parts=parts)


def _delay() -> float:
    """Return the seconds to wait before each streamed chunk."""
    return float(os.environ.get("DEVUI_EXAMPLE_DELAY_MS", "30")) / 1000


def _tokens(parts: Sequence[types.Part]) -> int:
    """Return the number of tokens, by the rule of thumb of four characters each."""
    size = 0
    for part in parts:
        function_call, function_response = part.function_call, part.function_response
        size += len(part.text or "")
        size += len(f"{function_call.name}{function_call.args}") if function_call else 0
        size += len(f"{function_response.name}{function_response.response}") if function_response else 0
    return -(-size // 4)


def _usage(request: LlmRequest, parts: list[types.Part]) -> types.GenerateContentResponseUsageMetadata:
    instruction = types.Part(text=str(request.config.system_instruction or ""))
    history = [part for content in request.contents for part in content.parts or []]
    prompt = _tokens([instruction, *history])
    thoughts = _tokens([part for part in parts if part.thought])
    answer = _tokens([part for part in parts if not part.thought])
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=answer,
        thoughts_token_count=thoughts or None,
        total_token_count=prompt + thoughts + answer,
    )
