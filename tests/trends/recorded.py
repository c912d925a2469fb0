"""Recorded invocations as rows, as the recorder and the runtime leave them."""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sessions_app.store.models import AgentSession, ModelCall, Run, Span, Trace

START = 1_790_000_000.0
"""21 September 2026, 14:13:20 UTC."""

DAY = 86_400


def today(hour: float = 0.0) -> float:
    """Return a time of the current day that has passed."""
    return min(time.time() - 120, time.time() // DAY * DAY + hour * 3600)


def write_prices(settings: Any, folder: Path, models: str = "flash", price: float = 1.0) -> None:
    """Write the price file of a data folder, and use this folder."""
    settings.DATA_DIR = folder
    text = f'currency = "EUR"\n[[price]]\nmodel = "{models}"\ninput = {price}\noutput = {price}\n'
    (folder / "prices.toml").write_text(text)


@dataclass
class Call:
    """A model call, or a tool call, that began some seconds after its invocation."""

    name: str
    seconds: float | None = 1.0
    after: float = 0.1
    first: float | None = 0.5
    failed: bool = False
    tokens: tuple[int, int, int] = (100, 20, 10)
    """Prompt, output, cached."""


@dataclass
class Invocation:
    """An invocation that lasts some seconds; None: it has not ended."""

    at: float = START
    seconds: float | None = 3.0
    agent: str = "planner"
    end: str = "end"
    models: list[Call] = field(default_factory=list)
    tools: list[Call] = field(default_factory=list)
    code: str = ""
    revision: str = ""
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


def session(user: str = "ann", app: str = "weather", realm: str = "") -> AgentSession:
    """Make a session whose events were checked."""
    return AgentSession.objects.create(
        realm=realm,
        app_name=app,
        user_id=user,
        session_id=uuid.uuid4().hex,
        created_at=START,
        updated_at=START,
        problems_seq=0,
        indexed_seq=0,
    )


def record(owner: AgentSession, invocation: Invocation) -> Trace:
    """Store an invocation of a session."""
    trace = Trace.objects.create(
        session=owner,
        invocation_id=invocation.id,
        root_agent=invocation.agent,
        started_at=invocation.at,
        stages=json.dumps([["loaded", invocation.at, invocation.agent]]),
    )
    if invocation.code:
        Run.objects.create(
            id=uuid.uuid4().hex,
            session=owner,
            status=Run.Status.DONE,
            invocation_id=invocation.id,
            code_version=invocation.code,
            git_revision=invocation.revision,
            created_at=invocation.at - 0.01,
        )
    for call in invocation.models:
        add_model_call(owner, invocation, call)
    for call in invocation.tools:
        add_tool_call(owner, invocation, call)
    if invocation.seconds is not None:
        end(trace, invocation.at + invocation.seconds, invocation.end)
    return trace


def add_model_call(owner: AgentSession, invocation: Invocation, call: Call) -> None:
    began = invocation.at + call.after
    prompt, output, cached = call.tokens
    ModelCall.objects.create(
        session=owner,
        ref=uuid.uuid4().hex,
        invocation_id=invocation.id,
        number=1,
        agent=invocation.agent,
        model=call.name,
        started_at=began,
        first_at=None if call.first is None else began + call.first,
        finished_at=None if call.seconds is None else began + call.seconds,
        request="{}",
        prompt_tokens=prompt,
        output_tokens=output,
        cached_tokens=cached,
        total_tokens=prompt + output,
        error_type="ValueError" if call.failed else "",
    )


def add_tool_call(owner: AgentSession, invocation: Invocation, call: Call) -> None:
    began = round((invocation.at + call.after) * 1e9)
    Span.objects.create(
        session=owner,
        invocation_id=invocation.id,
        trace_id="1",
        span_id="1",
        name=f"execute_tool {call.name}",
        kind=Span.Kind.TOOL,
        started_ns=began,
        ended_ns=began + round((call.seconds or 0.0) * 1e9),
        failed=call.failed,
        attributes=json.dumps({"gen_ai.tool.name": call.name, "gen_ai.agent.name": invocation.agent}),
    )


def end(trace: Trace, at: float, stage: str = "end") -> None:
    """End an invocation, or its next part."""
    trace.refresh_from_db()
    stages = json.dumps([*trace.decoded_stages, [stage, at, trace.root_agent]])
    Trace.objects.filter(pk=trace.pk).update(stages=stages, finished_at=at)


def resume(trace: Trace, at: float) -> None:
    """Continue an invocation that has ended."""
    trace.refresh_from_db()
    stages = json.dumps([*trace.decoded_stages, ["loaded", at, trace.root_agent]])
    Trace.objects.filter(pk=trace.pk).update(stages=stages, finished_at=None)
