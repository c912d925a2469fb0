"""Agents that tests evaluate: real ADK agents without a model, and one with a scripted judge."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.models.registry import LLMRegistry
from google.genai import types

from sessions_app.agents.folder import AgentsFolder

Answer = Callable[[InvocationContext, str], Any]


class Scripted(BaseAgent):
    """Answers by a function of the context and of what the user said; it may return texts, events, or raise."""

    answer: Answer

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        text = "".join(
            part.text or "" for part in (ctx.user_content.parts if ctx.user_content else None) or []
        )
        answer = self.answer(ctx, text)
        if asyncio.iscoroutine(answer):
            answer = await answer
        for event in answer if isinstance(answer, list) else [answer]:
            if event is not None:
                yield self._event(ctx, event)

    def _event(self, ctx: InvocationContext, reply: Any) -> Event:
        if isinstance(reply, Event):
            reply.invocation_id, reply.author = ctx.invocation_id, self.name
            return reply
        content = types.Content(role="model", parts=[types.Part(text=str(reply))])
        return Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


def calls(name: str, **args: Any) -> Event:
    """Return an event in which the agent calls a tool."""
    part = types.Part(function_call=types.FunctionCall(name=name, args=args))
    return Event(author="agent", content=types.Content(role="model", parts=[part]))


def writes(text: str, **delta: Any) -> Event:
    """Return an answer that also writes state."""
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return Event(author="agent", content=content, actions=EventActions(state_delta=delta))


class Hanging:
    """Answers "fine", but hangs at the message "hang".

    Attributes:
        hangs: set when it hangs.
    """

    def __init__(self) -> None:
        self.hangs = asyncio.Event()

    async def answer(self, ctx: InvocationContext, text: str) -> str:
        if text == "hang":
            self.hangs.set()
            await asyncio.sleep(3600)
        return "fine"


def tokens(number: int) -> types.GenerateContentResponseUsageMetadata:
    """Return what a model says that an answer took."""
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=number - 1, candidates_token_count=1, total_token_count=number
    )


async def count(ctx: InvocationContext, text: str) -> Event:
    """Count in `user:n`, slowly enough that attempts overlap."""
    number = ctx.session.state.get("user:n", 0) + 1
    await asyncio.sleep(0.01)
    return writes(f"count {number}", **{"user:n": number, "app:n": number, "n": number})


@dataclass(frozen=True)
class Source:
    """An agent that is there already."""

    agent: BaseAgent
    app_name: str = "counter"
    code_version: str = "v1"
    folder: AgentsFolder = AgentsFolder(Path("/nowhere"), Path("/nowhere"), "counter")

    def load(self) -> tuple[BaseAgent, None]:
        return self.agent, None


def source(answer: Answer, folder: Path | None = None) -> Source:
    agent = Scripted(name="counter", answer=answer)
    if folder is None:
        return Source(agent)
    return Source(agent, folder=AgentsFolder(folder, folder.parent, folder.name), app_name=folder.name)


class Says(BaseLlm):
    """A model that always says the same."""

    text: str

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text=self.text)]))


def talker(text: str) -> LlmAgent:
    """Return an agent with a model, which some judges want to see the instruction of."""
    return LlmAgent(name="counter", model=Says(model="says", text=text), instruction="Be sunny.")


COUNTED = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=7, candidates_token_count=2, thoughts_token_count=1, cached_content_token_count=2
)


class Judge(BaseLlm):
    """A judge that needs no network: it gives the verdicts that its name asks for."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        if self.model == "judge-raises":
            raise ValueError("the judge is out for lunch")
        prompt = "".join(part.text or "" for content in llm_request.contents for part in content.parts or [])
        yield LlmResponse(
            content=types.Content(role="model", parts=[types.Part(text=self._verdict(prompt))]),
            usage_metadata=COUNTED if self.model == "judge-counts" else None,
        )

    def _verdict(self, prompt: str) -> str:
        if self.model == "judge-babbles":
            return "I like turtles."
        good = self.model == "judge-yes"
        if "is_the_agent_response_valid" in prompt:
            return f'{{"reasoning": "…", "is_the_agent_response_valid": "{"valid" if good else "invalid"}"}}'
        if "Your Sentence Segmentation Output" in prompt:
            return "<sentence>It is sunny.</sentence>"
        if "not_applicable" in prompt:
            label = "supported" if good else "contradictory"
            return (
                f"sentence: It is sunny.\nlabel: {label}\nrationale: looked up\n"
                "supporting_excerpt: null\ncontradicting_excerpt: null\n"
            )
        verdict = "yes" if good else "no"
        return f"Property: The answer greets.\nEvidence: hello\nRationale: It greets.\nVerdict: {verdict}\n"

    @classmethod
    def supported_models(cls) -> list[str]:
        return ["judge-.*"]


LLMRegistry.register(Judge)
