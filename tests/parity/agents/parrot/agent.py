"""Follows the user's JSON message: {"calls": [[tool, arguments], …], "say": …, "raise": …, "count": true}."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

import offline_judge
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.registry import LLMRegistry
from google.genai import types

offline_judge.register()


class ForgetfulJudge(offline_judge.OfflineJudge):
    """Leaves out the last rubric or sentence."""

    model: str = "forgetful-judge"

    @classmethod
    def supported_models(cls) -> list[str]:
        """Return the name for `judge_model`."""
        return ["forgetful-judge"]

    def answer(self, prompt: str) -> str:
        """Cut the offline judge's answer before its last verdict."""
        answer = super().answer(prompt)
        return max((answer.rpartition(start)[0] for start in ("ID: ", "sentence: ")), key=len) or answer


LLMRegistry.register(ForgetfulJudge)


class Parrot(BaseAgent):
    """Repeats."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        parts = (ctx.user_content.parts if ctx.user_content else None) or []
        body = json.loads("".join(part.text or "" for part in parts))
        for name, args in body.get("calls", []):
            call = types.Part(function_call=types.FunctionCall(name=name, args=args))
            yield self._event(ctx, call)
            yield self._event(ctx, types.Part.from_function_response(name=name, response={"ok": True}))
        if "raise" in body:
            raise RuntimeError(body["raise"])
        if body.get("count"):
            number = ctx.session.state.get("user:n", 0) + 1
            yield self._event(ctx, types.Part(text=f"number {number}"), **{"user:n": number})
        elif "say" in body:
            yield self._event(ctx, types.Part(text=body["say"]))

    def _event(self, ctx: InvocationContext, part: types.Part, **delta: int) -> Event:
        return Event(
            author=self.name,
            invocation_id=ctx.invocation_id,
            content=types.Content(role="model", parts=[part]),
            actions=EventActions(state_delta=delta),
        )


root_agent = Parrot(name="parrot")
