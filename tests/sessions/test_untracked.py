"""Keys changed without an event: detected by the recorder, lost after the invocation."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.adk import Recorder
from sessions_app.adk.untracked_state import StateCopy
from sessions_app.store import events, scopes
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, UntrackedKey
from sessions_app.store.sessions import writes
from tests.fake_models import ScriptedModel, call
from tests.sessions.build import APP, USER, append, create, event, get
from tests.sessions.strategies import json_values, texts


def run_agent(tool: Any, *turns: Any) -> LlmAgent:
    return LlmAgent(
        name="ann", model=ScriptedModel.saying(*(turns or (call(tool.__name__), "done"))), tools=[tool]
    )


async def run(agent: BaseAgent, service: Any) -> None:
    message = types.Content(role="user", parts=[types.Part(text="go")])
    async with Runner(
        app=App(name=APP, root_agent=agent, plugins=[Recorder()]), session_service=service
    ) as runner:
        async for _ in runner.run_async(user_id=USER, session_id="s1", new_message=message):
            pass


async def untracked_keys() -> dict[str, tuple[Any, Any]]:
    """Return (value, stored) of each key that was noticed, with its prefix; a missing value is None."""
    rows = await units_of_work.read(lambda: list(UntrackedKey.objects.order_by("pk")))
    loads = [None if text is None else json.loads(text) for row in rows for text in (row.value, row.stored)]
    return {
        scopes.PREFIX[row.scope] + row.key: (loads[2 * n], loads[2 * n + 1]) for n, row in enumerate(rows)
    }


def mutating(change: Any) -> Any:
    """Return a tool that changes the session's own state."""

    def meddle(tool_context: ToolContext) -> str:
        change(tool_context._invocation_context.session.state, tool_context)
        return "ok"

    return meddle


async def test_key_set_on_the_session_object_is_noticed_and_lost(ours):
    await create(ours, state={"n": 1, "kept": True})

    def change(own, context):
        own.update({"n": 2, "new": [1], "user:u": "x", "app:a": {"b": None}})

    await run(run_agent(mutating(change)), ours)
    assert await untracked_keys() == {
        "app:a": ({"b": None}, None),
        "n": (2, 1),
        "new": ([1], None),
        "user:u": ("x", None),
    }
    assert (await get(ours)).state == {"n": 1, "kept": True}
    [row] = await units_of_work.read(lambda: list(UntrackedKey.objects.filter(key="n")))
    session = await units_of_work.read(AgentSession.objects.get)
    assert (row.session_id, row.seq) == (session.pk, session.last_seq)


async def test_value_changed_in_place_and_deleted_key_are_noticed(ours):
    await create(ours, state={"cart": {"a": [1]}, "gone": 1})

    def change(own, context):
        own["cart"]["a"].append(2)
        del own["gone"]

    await run(run_agent(mutating(change)), ours)
    assert await untracked_keys() == {"cart": ({"a": [1, 2]}, {"a": [1]}), "gone": (None, 1)}


async def test_tool_writes_by_context_are_tracked(ours):
    await create(ours, state={"n": 1, "list": [1], "same": 1})

    def change(own, context):
        context.state["n"] = 2
        context.state["new"] = {"when": datetime.date(2026, 1, 2), "raw": b"x", "nan": float("nan")}
        context.state["user:u"] = (1, 2)
        context.state["temp:t"] = 1
        context.state["list"] = [*context.state["list"], 2]
        own["same"] = 1
        own["temp:own"] = 1

    await run(run_agent(mutating(change)), ours)
    assert await untracked_keys() == {}


async def test_a_value_changed_after_its_event_was_stored_is_noticed(ours):
    await create(ours)
    values: list[list[int]] = []

    def first(tool_context: ToolContext) -> str:
        values.append([1])
        tool_context.state["cart"] = values[0]
        return "ok"

    def second(tool_context: ToolContext) -> str:
        tool_context._invocation_context.session.state["cart"] = [1, 2]
        return "ok"

    turns = [call("first"), call("second"), "done"]
    await run(LlmAgent(name="ann", model=ScriptedModel.saying(*turns), tools=[first, second]), ours)
    assert await untracked_keys() == {"cart": ([1, 2], [1])}


async def test_failed_run_reports_its_untracked_changes(ours):
    await create(ours)
    agent = run_agent(mutating(lambda own, context: own.update(n=1)), call("meddle"), RuntimeError("boom"))
    with pytest.raises(RuntimeError, match="boom"):
        await run(agent, ours)
    assert await untracked_keys() == {"n": (1, None)}


async def test_concurrent_shared_writes_are_not_untracked(ours):
    await create(ours, state={"user:n": 1})
    other = await create(ours, "s2")

    async def meanwhile(tool_context: ToolContext) -> str:
        await append(other, ours, {"user:n": 2, "app:n": 3})
        return "ok"

    await run(run_agent(meanwhile), ours)
    assert await untracked_keys() == {}


async def test_an_agent_used_as_a_tool_has_a_state_of_its_own(ours):
    await create(ours)
    inner = run_agent(mutating(lambda own, context: own.update(n=1)))
    inner.name = "inner"
    outer = LlmAgent(
        name="ann",
        model=ScriptedModel.saying(call("inner", request="x"), "done"),
        tools=[AgentTool(inner)],
    )
    await run(outer, ours)
    assert await untracked_keys() == {}


async def test_sessions_of_another_service_are_left_alone(store):
    service = InMemorySessionService()
    await create(service)
    await run(run_agent(mutating(lambda own, context: own.update(n=1))), service)
    assert await untracked_keys() == {}


async def test_credentials_are_left_out(ours):
    await create(ours)
    secret = {"authType": "apiKey", "apiKey": "hush"}
    await run(run_agent(mutating(lambda own, context: own.update(held=secret))), ours)
    assert await untracked_keys() == {"held": ({"authType": "apiKey"}, None)}


async def test_a_session_deleted_meanwhile_is_no_failure(ours):
    session = await create(ours)
    await ours.delete_session(app_name=APP, user_id=USER, session_id="s1")
    await ours.note_untracked(session, "i1", [writes.UntrackedWrite("n", None, None)])
    assert await untracked_keys() == {}


names = st.sampled_from(["a", "b", "user:a", "app:a", "temp:a"]) | texts


@given(
    start=st.dictionaries(names, json_values, max_size=4),
    deltas=st.lists(st.dictionaries(names, json_values, max_size=3), max_size=3),
    meddled=st.dictionaries(names, json_values, max_size=3),
    removed_keys=st.sets(names, max_size=2),
)
def test_exactly_the_keys_that_differ_from_the_fold_are_noticed(start, deltas, meddled, removed_keys):
    copy = StateCopy.of(start)
    folded, own = dict(start), json.loads(json.dumps(start))
    for delta in deltas:
        record = events.build_record({**_body(event(delta={}))}, delta=delta)
        copy.note_stored(record.writes)
        folded.update(delta)
        own.update(delta)
    own.update(meddled)
    for name in removed_keys:
        own.pop(name, None)

    def text(values: dict[str, Any], name: str) -> str | None:
        return json.dumps(values[name]) if name in values else None

    expected = {
        name
        for name in {*folded, *own}
        if not name.startswith("temp:") and text(folded, name) != text(own, name)
    }
    assert {key.name for key in copy.untracked_keys(own)} == expected


def _body(event: Event) -> dict[str, Any]:
    return event.model_dump(mode="json", by_alias=True, exclude_none=True)
