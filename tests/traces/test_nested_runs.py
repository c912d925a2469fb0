"""Records of agents inside `AgentTool` calls, in runs on ADK's own Runner."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.events.event import Event as AdkEvent
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sessions_app.adk import nested_runs
from sessions_app.branches.fork import NewFork, fork
from sessions_app.sessions import purge
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, ModelCall, NestedRun, StateChange, UserScope
from sessions_app.store.sessions import writes
from sessions_app.store.state.history import state_at
from sessions_app.store.traces.outbox import outbox
from tests.fake_models import ScriptedModel, call
from tests.sessions.build import APP, USER, get


def remember(city: str, tool_context: ToolContext) -> str:
    """Remember a city."""
    tool_context.state["city"] = city
    return "remembered"


def helper(*turns: Any, name: str = "helper", **fields: Any) -> AgentTool:
    """Return an agent as a tool."""
    return AgentTool(LlmAgent(name=name, model=ScriptedModel.saying(*turns), **fields))


def caller(tools: list[Any], *turns: Any) -> LlmAgent:
    """Return the agent of the session."""
    return LlmAgent(name="ann", model=ScriptedModel.saying(*turns), tools=tools)


async def stored() -> list[NestedRun]:
    await outbox().wait_written()
    rows = NestedRun.objects.select_related("child").order_by("pk")
    return await units_of_work.read(lambda: list(rows))


async def read_events(run: NestedRun) -> list[Event]:
    rows = Event.objects.filter(session=run.child_id).order_by("seq")
    return await units_of_work.read(lambda: list(rows))


async def state_at_start(run: NestedRun) -> dict[str, str]:
    """Return the values of the state at the start of a run, as JSON."""
    rows = StateChange.objects.filter(session=run.child_id, seq=0)
    prefix = {"session": "", "user": "user:", "app": "app:"}
    return await units_of_work.read(lambda: {f"{prefix[row.scope]}{row.key}": row.value for row in rows})


TABLES = (AgentSession, Event, NestedRun, StateChange)
"""Tables that are empty when the only session is removed, if no scope but the session's has keys."""


def brief(event: Event) -> tuple[str, str]:
    return event.author, event.kind


async def test_events_of_an_agent_used_as_a_tool_are_stored_at_its_call(ask):
    tool = helper(call("remember", city="Oslo"), "it is Oslo", tools=[remember])
    await ask(caller([tool], call("helper", "c1", request="where?"), "done"))
    [run] = await stored()
    assert (run.agent, run.call_id, run.caller_seq, run.outer_seq, run.error) == ("helper", "c1", 2, 2, "")
    assert run.caller_id == run.outer_id
    assert (run.event_count, run.stored_count) == (4, 4)
    assert run.finished_at is not None
    assert run.finished_at >= run.started_at
    events = await read_events(run)
    assert [brief(event) for event in events] == [
        ("user", "user"),
        ("helper", "tool_call"),
        ("helper", "tool_result"),
        ("helper", "agent"),
    ]
    assert [event.seq for event in events] == [1, 2, 3, 4]
    assert events[0].decoded_summary["text"] == "where?"
    assert json.loads(events[2].data)["actions"]["stateDelta"] == {"city": "Oslo"}


async def test_session_and_its_model_never_contain_nested_events(ask, ours):
    await ask(caller([helper("secret thought")], call("helper", "c1", request="x"), "done"))
    rows = await units_of_work.read(
        lambda: list(Event.objects.filter(session__realm="").order_by("seq").values_list("author", flat=True))
    )
    assert rows == ["user", "ann", "ann", "ann"]
    assert [event.author for event in (await get(ours)).events] == rows


class HearingModel(ScriptedModel):
    """Remembers the requests that it gets, as JSON."""

    heard: list[str] = []

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.heard.append(llm_request.model_dump_json(exclude={"tools_dict"}))
        async for response in super().generate_content_async(llm_request, stream):
            yield response


async def test_parents_model_never_gets_what_the_nested_agent_said_before_its_answer(ask):
    tool = helper(
        *[
            call("remember", city="Atlantis"),
            "first answer",
            call("remember", city="Atlantis"),
            "second answer",
        ],
        tools=[remember],
    )
    turns = [call("helper", "c1", request="x"), "done", call("helper", "c2", request="y"), "done"]
    model = HearingModel(turns=turns)
    agent = LlmAgent(name="ann", model=model, tools=[tool])
    await ask(agent)
    await ask(agent)
    assert len(await stored()) == 2
    assert len(model.heard) == 4
    assert "first answer" in model.heard[-1]
    assert not [request for request in model.heard if "Atlantis" in request and "remember" in request]


async def test_rewind_keeps_the_nested_runs_of_every_turn_apart(ask, ours):
    agent = caller(
        [helper("one", "two", "three")],
        *(call("helper", "c1", request="a"), "done", call("helper", "c2", request="b"), "done"),
        *(call("helper", "c3", request="c"), "done"),
    )
    await ask(agent)
    await ask(agent)
    [_, second] = await stored()
    async with Runner(app_name=APP, agent=agent, session_service=ours) as runner:
        await runner.rewind_async(
            user_id=USER, session_id="s1", rewind_before_invocation_id=second.invocation_id
        )
    await ask(agent)
    runs = await stored()
    assert [(run.call_id, run.caller_seq) for run in runs] == [("c1", 2), ("c2", 6), ("c3", 11)]
    texts = [(await read_events(run))[-1].decoded_summary["text"] for run in runs]
    assert texts == ["one", "two", "three"]


async def test_runs_of_reused_call_ids_are_stored_at_their_own_events(ask):
    turns = [call("helper", "c1", request="a"), call("helper", "c1", request="b"), "done"]
    await ask(caller([helper("one", "two")], *turns))
    assert [(run.call_id, run.caller_seq) for run in await stored()] == [("c1", 2), ("c1", 4)]


async def test_parallel_agents_with_one_call_id_keep_their_nested_runs(ask):
    agents = [
        LlmAgent(
            name=name,
            model=ScriptedModel.saying(call("helper", "c1", request=name), "done"),
            tools=[helper(name)],
        )
        for name in ("left", "right")
    ]
    await ask(ParallelAgent(name="both", sub_agents=agents))
    places = {}
    for run in await stored():
        texts = [event.decoded_summary["text"] for event in await read_events(run)]
        places[texts[0]] = (texts[1], run.caller_seq)
    calling_events = Event.objects.filter(kind="tool_call", session__realm="")
    calling = await units_of_work.read(lambda: dict(calling_events.values_list("author", "seq")))
    assert places == {name: (name, seq) for name, seq in calling.items()}


async def test_nested_model_call_is_linked_to_its_nested_event(ask, client):
    await ask(caller([helper("inside")], call("helper", "c1", request="x"), "done"))
    [run] = await stored()
    answer = (await read_events(run))[-1]
    calls = await units_of_work.read(lambda: list(ModelCall.objects.filter(event_id=answer.event_id)))
    assert [row.agent for row in calls] == ["helper"]
    url = f"/sessions/id/{run.child_id}/events/{answer.seq}/model/"
    page = await units_of_work.read(lambda: client.get(url).content.decode())
    assert f"/sessions/id/{run.outer_id}/model-calls/{calls[0].pk}/json/" in page


async def test_agents_nested_five_deep_are_stored_under_their_calls(ask):
    tool = helper("the bottom", name="a5")
    for depth in (4, 3, 2, 1):
        tool = helper(
            call(f"a{depth + 1}", f"c{depth + 1}", request="on"),
            f"back {depth}",
            name=f"a{depth}",
            tools=[tool],
        )
    await ask(caller([tool], call("a1", "c1", request="down"), "done"))
    runs = {run.agent: run for run in await stored()}
    assert list(runs) == ["a1", "a2", "a3", "a4", "a5"]
    assert {run.outer_seq for run in runs.values()} == {run.caller_seq for run in runs.values()} == {2}
    assert runs["a1"].caller_id == runs["a1"].outer_id
    for depth in (2, 3, 4, 5):
        assert runs[f"a{depth}"].caller_id == runs[f"a{depth - 1}"].child_id
        assert runs[f"a{depth}"].call_id == f"c{depth}"
    assert all(run.finished_at for run in runs.values())


async def test_state_as_the_nested_agent_found_it_is_stored_without_credentials(ask):
    def prepare(callback_context: CallbackContext) -> None:
        callback_context.state["city"] = "Oslo"
        callback_context.state["user:key"] = {"authType": "apiKey", "apiKey": "s3cret"}

    agent = caller([helper("ok")], call("helper", "c1", request="x"), "done")
    agent.before_agent_callback = prepare
    await ask(agent)
    [run] = await stored()
    state = await state_at_start(run)
    assert state["city"] == '"Oslo"'
    assert "user:key" in state
    assert "s3cret" not in str(state)
    changes = StateChange.objects.filter(session=run.child_id)
    assert await units_of_work.read(lambda: set(changes.values_list("private", flat=True))) == {None}


async def test_large_state_is_bounded(ask):
    long, fitting = (
        "x" * (2 * nested_runs.MAX_VALUE_BYTES),
        nested_runs.MAX_STATE_BYTES // nested_runs.MAX_VALUE_BYTES - 1,
    )
    agent = caller([helper("ok")], call("helper", "c1", request="x"), "done")

    def prepare(callback_context: CallbackContext) -> None:
        callback_context.state.update({f"key{number}": long for number in range(fitting + 3)})

    agent.before_agent_callback = prepare
    await ask(agent)
    [run] = await stored()
    state = await state_at_start(run)
    assert (sorted(state), run.state_omitted) == (sorted(f"key{number}" for number in range(fitting)), 3)
    assert state["key0"].endswith('… (20,002 characters)"')


async def test_nested_agent_that_fails_keeps_its_events_and_its_error(ask):
    tool = helper(call("remember", city="Oslo"), RuntimeError("no model"), tools=[remember])
    with pytest.raises(RuntimeError):
        await ask(caller([tool], call("helper", "c1", request="x"), "done"))
    [run] = await stored()
    assert run.error == "RuntimeError: no model"
    assert run.finished_at is not None
    assert [event.kind for event in await read_events(run)][:3] == ["user", "tool_call", "tool_result"]


async def test_cancelled_nested_agent_is_marked_as_cut_off(ask):
    started = asyncio.Event()

    async def wait(tool_context: ToolContext) -> str:
        """Wait."""
        started.set()
        await asyncio.sleep(60)
        return "late"

    tool = helper(call("wait", "w1"), "never", tools=[wait])
    run_task = asyncio.create_task(ask(caller([tool], call("helper", "c1", request="x"), "done")))
    await started.wait()
    run_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run_task
    await asyncio.sleep(0)
    [run] = await stored()
    assert run.error == NestedRun.CUT_OFF
    assert run.finished_at is not None
    assert [event.kind for event in await read_events(run)] == ["user", "tool_call"]


async def test_two_nested_agents_in_parallel_are_told_apart(ask):
    first, second = helper("one", name="one"), helper("two", name="two")
    calls = [call("one", "c1", request="a"), call("two", "c2", request="b")]
    await ask(caller([first, second], calls, "done"))
    runs = {run.call_id: run for run in await stored()}
    assert {call_id: run.agent for call_id, run in runs.items()} == {"c1": "one", "c2": "two"}
    for run in runs.values():
        assert [event.author for event in await read_events(run)] == ["user", run.agent]


async def test_events_of_a_call_are_bounded_and_the_rest_is_counted(ask):
    most = nested_runs.MAX_EVENTS
    await ask(
        caller([AgentTool(Talker(name="talker", times=most))], call("talker", "c1", request="x"), "done")
    )
    [run] = await stored()
    assert (run.event_count, run.stored_count) == (most + 1, most)
    assert len(await read_events(run)) == most


async def test_events_of_a_call_are_bounded_in_size(ask):
    await ask(caller([helper("x" * nested_runs.MAX_BYTES)], call("helper", "c1", request="small"), "done"))
    [run] = await stored()
    assert (run.event_count, run.stored_count) == (2, 1)


async def test_events_appear_while_the_nested_agent_runs(ask):
    counts: list[tuple[int, float | None]] = []

    async def look(tool_context: ToolContext) -> str:
        """Look at the store."""
        for run in await stored():
            counts.append((run.stored_count, run.finished_at))
        return "looked"

    await ask(caller([helper(call("look"), "end", tools=[look])], call("helper", "c1", request="x"), "done"))
    assert counts == [(2, None)]


async def test_deleting_the_session_deletes_its_nested_runs(ask):
    await ask(caller([helper("inside")], call("helper", "c1", request="x"), "done"))
    assert await stored()
    await units_of_work.write(lambda: writes.delete_session(AgentSession.objects.get(realm="")))
    assert not await units_of_work.read(lambda: [table for table in TABLES if table.objects.exists()])


async def test_fork_copies_the_nested_runs_of_the_events_it_copies(ask):
    agent = caller(
        [helper("inside", "again")],
        *(call("helper", "c1", request="x"), "done", call("helper", "c2", request="y"), "done"),
    )
    await ask(agent)
    await ask(agent)
    [first, second] = await stored()
    new = await units_of_work.read(lambda: fork(first.outer_id, NewFork(seq=second.caller_seq - 1)))
    copied = [run for run in await stored() if run.outer_id == new.pk]
    assert [(run.child.session_id, run.caller_seq) for run in copied] == [
        (first.child.session_id, first.caller_seq)
    ]
    assert [event.data for event in await read_events(copied[0])] == [
        event.data for event in await read_events(first)
    ]


class Talker(BaseAgent):
    """Says the same again and again."""

    times: int

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[AdkEvent, None]:
        content = types.Content(role="model", parts=[types.Part(text="again")])
        for _ in range(self.times):
            yield AdkEvent(author=self.name, invocation_id=ctx.invocation_id, content=content)


@pytest.mark.soak
async def test_nested_run_of_ten_thousand_events_is_bounded_and_does_not_disturb_the_session(ask):
    events = await ask(
        caller([AgentTool(Talker(name="talker", times=10_000))], call("talker", "c1", request="x"), "done")
    )
    assert events[-1].content.parts[0].text == "done"
    [run] = await stored()
    assert (run.event_count, run.stored_count) == (10_001, nested_runs.MAX_EVENTS)
    assert run.finished_at is not None
    assert len(await read_events(run)) == nested_runs.MAX_EVENTS


async def test_purge_removes_nested_runs_with_their_session(ask):
    await ask(caller([helper("inside")], call("helper", "c1", request="x"), "done"))
    assert await stored()
    report = await units_of_work.read(lambda: purge.purge(purge.PurgeFilter(older_than_s=-1.0)))
    assert report.sessions == 1
    assert not await units_of_work.read(lambda: [table for table in TABLES if table.objects.exists()])


async def test_state_of_users_and_apps_goes_with_the_nested_session(ask):
    def prepare(callback_context: CallbackContext) -> None:
        callback_context.state["user:name"] = "Ann"

    agent = caller([helper("inside")], call("helper", "c1", request="x"), "done")
    agent.before_agent_callback = prepare
    await ask(agent)
    [run] = await stored()
    in_realm = UserScope.objects.filter(realm=run.child.realm)
    assert await units_of_work.read(in_realm.exists)
    await units_of_work.read(lambda: purge.purge(purge.PurgeFilter(older_than_s=-1.0)))
    assert not await units_of_work.read(in_realm.exists)


async def test_fork_copies_runs_inside_nested_runs_with_their_state(ask):
    inner = helper(call("remember", city="Oslo"), "it is Oslo", name="inner", tools=[remember])
    outer = helper(call("inner", "c2", request="y"), "ok", name="outer", tools=[inner])
    await ask(caller([outer], call("outer", "c1", request="x"), "done"))
    [first, _] = await stored()
    new = await units_of_work.read(lambda: fork(first.outer_id, NewFork()))
    copies = [run for run in await stored() if run.outer_id == new.pk]
    assert [(run.agent, run.caller_seq, run.outer_seq) for run in copies] == [
        ("outer", 2, 2),
        ("inner", 2, 2),
    ]
    assert [run.caller_id for run in copies] == [new.pk, copies[0].child_id]
    state = await units_of_work.read(lambda: state_at(copies[1].child).merge_scopes())
    assert state["city"] == "Oslo"


async def test_nested_sessions_of_a_fork_belong_to_its_app_and_user(ask):
    await ask(caller([helper("inside")], call("helper", "c1", request="x"), "done"))
    [run] = await stored()
    new = await units_of_work.read(lambda: fork(run.outer_id, NewFork(app_name="team", user_id="bob")))
    [copy] = [run for run in await stored() if run.outer_id == new.pk]
    assert (copy.child.app_name, copy.child.user_id) == ("team", "bob")


async def test_fork_of_a_nested_session_shows_the_model_calls_of_its_origin(ask, client):
    await ask(caller([helper("inside")], call("helper", "c1", request="x"), "done"))
    [run] = await stored()
    new = await units_of_work.read(lambda: fork(run.child_id, NewFork(own_realm=True)))
    url = f"/sessions/id/{new.pk}/events/2/model/"
    page = await units_of_work.read(lambda: client.get(url).content.decode())
    assert f"/sessions/id/{run.outer_id}/model-calls/" in page


async def test_fork_of_a_nested_session_has_the_runs_that_it_called(ask):
    inner = helper("deep", name="inner")
    outer = helper(call("inner", "c2", request="y"), "ok", name="outer", tools=[inner])
    await ask(caller([outer], call("outer", "c1", request="x"), "done"))
    [first, second] = await stored()
    new = await units_of_work.read(lambda: fork(first.child_id, NewFork(own_realm=True)))
    [copy] = [run for run in await stored() if run.outer_id == new.pk]
    assert (copy.agent, copy.caller_id, copy.caller_seq, copy.outer_seq) == (
        "inner",
        new.pk,
        second.caller_seq,
        second.caller_seq,
    )
