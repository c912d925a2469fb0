"""Writers of keys as the recorder sees them, in runs of real agents on ADK's own Runner."""

from __future__ import annotations

import asyncio
import functools
import logging
from typing import Any

import pytest
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.context import Context
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.logging_plugin import LoggingPlugin
from google.adk.runners import Runner
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import START, Workflow
from google.genai import types

from sessions_app.adk import DjangoSessionService, Recorder, provenance
from sessions_app.store.database import units_of_work
from sessions_app.store.models import StateChange, TempWrite
from tests.fake_models import ScriptedModel, call
from tests.sessions.build import APP, USER, create, get


async def run(
    agent: BaseAgent,
    service: DjangoSessionService,
    *plugins: BasePlugin,
    streaming: bool = False,
    **fields: Any,
) -> list[Event]:
    """Run one turn of an agent and return its events. Without plug-ins the recorder is the only one."""
    app = App(name=APP, root_agent=agent, plugins=list(plugins) or [Recorder()])
    message = types.Content(role="user", parts=[types.Part(text="go")])
    config = RunConfig(streaming_mode=StreamingMode.SSE if streaming else StreamingMode.NONE)
    async with Runner(app=app, session_service=service) as runner:
        stream = runner.run_async(
            user_id=USER, session_id="s1", new_message=message, run_config=config, **fields
        )
        return [event async for event in stream]


async def writers() -> dict[str, tuple[str, str, bool]]:
    """Return (kind, name, inferred) of the last write of each key, with its prefix."""
    prefixes = {"session": "", "user": "user:", "app": "app:"}
    changes = StateChange.objects.filter(session__realm="").order_by("pk")
    rows = await units_of_work.read(lambda: list(changes))
    return {
        prefixes[row.scope] + row.key: (row.writer, row.writer_name, row.inferred)
        for row in rows
        if row.seq > 0
    }


def writer(kind: str, name: str = "") -> tuple[str, str, bool]:
    return (kind, name, False)


def count(tool_context: ToolContext) -> str:
    tool_context.state["count"] = tool_context.state.get("count", 0) + 1
    tool_context.state["user:counted"] = True
    return "counted"


def note(text: str, tool_context: ToolContext) -> str:
    tool_context.state[f"note_{text}"] = text
    tool_context.state["last"] = text
    return text


@pytest.fixture
async def session(ours):
    return await create(ours)


async def test_a_tool_is_named_with_its_call(ours, session):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying(call("count", "call-7"), "done"), tools=[count])
    await run(agent, ours)
    assert await writers() == {"count": writer("tool", "count"), "user:counted": writer("tool", "count")}
    [change] = await units_of_work.read(lambda: list(StateChange.objects.filter(key="count")))
    assert change.call_id == "call-7"


async def test_parallel_calls_in_one_event_are_distinguished(ours, session):
    asks = [call("note", "c1", text="a"), call("note", "c2", text="b"), call("count", "c3")]
    agent = LlmAgent(name="ann", model=ScriptedModel.saying(asks, "done"), tools=[note, count])
    await run(agent, ours)
    rows = await units_of_work.read(
        lambda: list(StateChange.objects.values_list("key", "writer_name", "call_id"))
    )
    assert set(rows) == {
        ("note_a", "note", "c1"),
        ("note_b", "note", "c2"),
        ("last", "note", "c2"),
        ("count", "count", "c3"),
        ("counted", "count", "c3"),
    }
    assert len({row.seq for row in await units_of_work.read(lambda: list(StateChange.objects.all()))}) == 1


async def test_tools_with_one_call_id_in_one_event_write_their_own_keys(ours, session):
    def remember(item: str, tool_context: ToolContext) -> None:
        tool_context.state["item"] = item

    def note(text: str, tool_context: ToolContext) -> None:
        tool_context.state["text"] = text

    calls = [call("remember", "x", item="a"), call("note", "x", text="b"), call("missing", "x")]
    agent = LlmAgent(name="a", model=ScriptedModel.saying(calls, "done"), tools=[remember, note])
    agent.on_tool_error_callback = lambda **_: {"error": "no such tool"}
    await run(agent, ours)
    assert await writers() == {"item": ("tool", "remember", False), "text": ("tool", "note", False)}


async def test_parallel_agents_with_one_call_id_write_their_own_keys(ours, session):
    def agent(name: str) -> LlmAgent:
        async def remember(item: str, tool_context: ToolContext) -> None:
            tool_context.state[f"before {name}"] = item
            await asyncio.sleep(0)
            tool_context.state[f"after {name}"] = item

        remember.__name__ = f"remember_{name}"
        model = ScriptedModel.saying(call(remember.__name__, "x", item=name), "done")
        return LlmAgent(name=name, model=model, tools=[remember])

    await run(ParallelAgent(name="both", sub_agents=[agent("left"), agent("right")]), ours)
    assert await writers() == {
        f"{when} {name}": ("tool", f"remember_{name}", False)
        for name in ("left", "right")
        for when in ("before", "after")
    }


async def test_callback_after_one_of_parallel_calls_is_named(ours, session):
    def stamp(tool, args, tool_context, tool_response) -> None:
        if args.get("text") == "b":
            tool_context.state["stamp"] = "b"
            tool_context.state["last"] = "stamped"

    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying([call("note", text="a"), call("note", text="b")], "done"),
        tools=[note],
        after_tool_callback=stamp,
    )
    await run(agent, ours)
    assert await writers() == {
        "note_a": writer("tool", "note"),
        "note_b": writer("tool", "note"),
        "last": writer("callback", "stamp"),
        "stamp": writer("callback", "stamp"),
    }


async def test_a_dict_that_parallel_calls_both_wrote_names_both(ours, session):
    def left(tool_context: ToolContext) -> None:
        tool_context.state["shared"] = {"left": 1}

    def right(tool_context: ToolContext) -> None:
        tool_context.state["shared"] = {"right": 1}

    model = ScriptedModel.saying([call("left"), call("right")], "done")
    await run(LlmAgent(name="ann", model=model, tools=[left, right]), ours)
    assert (await get(ours)).state == {"shared": {"left": 1, "right": 1}}
    assert await writers() == {"shared": writer("tool", "left and right")}


async def test_a_write_into_a_list_read_from_the_state_is_the_tools(ours):
    def add(tool_context: ToolContext) -> None:
        tool_context.state["list"].append(2)

    await create(ours, state={"list": [1]})
    await run(LlmAgent(name="ann", model=ScriptedModel.saying(call("add"), "done"), tools=[add]), ours)
    assert await writers() == {"list": writer("tool", "add")}
    assert (await get(ours)).state == {"list": [1, 2]}


async def test_the_output_key_is_named_with_its_agent(ours, session):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying("the answer"), output_key="answer")
    await run(agent, ours)
    assert (await get(ours)).state == {"answer": "the answer"}
    assert await writers() == {"answer": writer("output_key", "ann")}


async def test_the_output_key_wins_over_a_callback_that_wrote_the_same_key(ours, session):
    def guess(callback_context: CallbackContext, **_: Any) -> None:
        callback_context.state["answer"] = "guess"
        callback_context.state["guessed"] = True

    agent = LlmAgent(
        name="ann", model=ScriptedModel.saying("sure"), output_key="answer", after_model_callback=guess
    )
    await run(agent, ours)
    assert await writers() == {"answer": writer("output_key", "ann"), "guessed": writer("callback", "guess")}


async def test_every_callback_of_an_agent_is_named(ours, session):
    def mark(hook: str):
        def callback(*_: Any, **fields: Any) -> None:
            context = fields.get("tool_context") or fields["callback_context"]
            context.state[hook] = hook

        callback.__name__ = f"on_{hook}"
        return callback

    hooks = ("before_agent", "after_agent", "before_model", "after_model", "after_tool")
    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying(call("count"), "done"),
        tools=[count],
        **{f"{hook}_callback": mark(hook) for hook in hooks},
    )
    await run(agent, ours)
    expected = {hook: writer("callback", f"on_{hook}") for hook in hooks}
    tool = {"count": writer("tool", "count"), "user:counted": writer("tool", "count")}
    assert await writers() == expected | tool


async def test_of_several_callbacks_any_could_have_written(ours, session):
    def first(callback_context: CallbackContext) -> None:
        callback_context.state["k"] = 1

    def second(callback_context: CallbackContext) -> None:
        pass

    agent = LlmAgent(name="ann", model=ScriptedModel.saying("hi"), before_agent_callback=[first, second])
    await run(agent, ours)
    assert await writers() == {"k": writer("callback", "one of first, second")}


async def test_writes_between_a_tool_and_its_callback_are_ambiguous(ours, session):
    def check(tool, args, tool_context) -> None:
        tool_context.state["checked"] = True

    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying(call("count"), "done"),
        tools=[count],
        before_tool_callback=check,
    )
    await run(agent, ours)
    assert (await writers())["checked"] == writer("tool", "one of check, count")


async def test_a_callback_that_answers_for_the_model_is_named(ours, session):
    def answer(callback_context: CallbackContext, llm_request) -> Any:
        callback_context.state["cached"] = True
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="cached")]))

    await run(LlmAgent(name="ann", model=ScriptedModel.saying(), before_model_callback=answer), ours)
    assert await writers() == {"cached": writer("callback", "answer")}


async def test_a_callback_that_handles_a_tools_error_is_named(ours, session):
    def fail(tool_context: ToolContext) -> None:
        tool_context.state["tried"] = True
        raise ValueError("no")

    def recover(tool, args, tool_context, error) -> dict[str, str]:
        tool_context.state["recovered"] = True
        return {"error": str(error)}

    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying(call("fail"), "done"),
        tools=[fail],
        on_tool_error_callback=recover,
    )
    await run(agent, ours)
    assert await writers() == {"tried": writer("tool", "fail"), "recovered": writer("callback", "recover")}


async def test_a_callback_that_handles_a_models_error_is_named(ours, session):
    def recover(callback_context: CallbackContext, llm_request, error) -> Any:
        callback_context.state["recovered"] = str(error)
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text="sorry")]))

    model = ScriptedModel.saying(ValueError("down"))
    await run(LlmAgent(name="ann", model=model, on_model_error_callback=recover), ours)
    assert await writers() == {"recovered": writer("callback", "recover")}


async def test_methods_and_partials_are_called_by_their_names(ours, session):
    class Guard:
        def check(self, callback_context: CallbackContext) -> None:
            callback_context.state["checked"] = True

    def stamp(kind: str, callback_context: CallbackContext) -> None:
        callback_context.state["stamp"] = kind

    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying("hi"),
        before_agent_callback=Guard().check,
        after_agent_callback=functools.partial(stamp, "x"),
    )
    await run(agent, ours)
    assert await writers() == {
        "checked": writer("callback", "Guard.check"),
        "stamp": writer("callback", "stamp"),
    }


class Writing(BaseAgent):
    """An agent of one's own that makes its events itself."""

    async def _run_async_impl(self, ctx):
        actions = EventActions(state_delta={"by_hand": 1, "temp:draft": "x"})
        yield Event(author=self.name, invocation_id=ctx.invocation_id, actions=actions)


async def test_event_created_with_delta_is_explicit(ours, session):
    await run(Writing(name="own"), ours)
    assert await writers() == {"by_hand": writer("delta")}


async def test_the_delta_a_run_is_started_with_is_explicit(ours, session):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying("hi"))
    await run(agent, ours, state_delta={"locale": "de", "temp:hint": "h"})
    assert await writers() == {"locale": ("delta", "", True)}
    [ghost] = await units_of_work.read(lambda: list(TempWrite.objects.all()))
    assert (ghost.key, ghost.value, ghost.author) == ("hint", '"h"', "user")


@pytest.mark.parametrize("key", ["a\x00b", "user:\x00", "app:lone \ud800"])
async def test_writer_of_unstorable_key_is_under_the_nearest_text(ours, session, key):
    def write(tool_context: ToolContext) -> str:
        tool_context.state[key] = 1
        return "written"

    model = ScriptedModel.saying(call("write"), "done")
    await run(LlmAgent(name="ann", model=model, tools=[write]), ours)
    remaining = key.replace("\x00", "\N{REPLACEMENT CHARACTER}").replace(
        "\ud800", "\N{REPLACEMENT CHARACTER}"
    )
    assert (await writers())[remaining] == writer("tool", "write")


async def test_sub_agents_are_distinguished(ours, session):
    def mark(callback_context: CallbackContext) -> None:
        callback_context.state[f"seen_{callback_context.agent_name}"] = True

    def agent(name: str) -> LlmAgent:
        model = ScriptedModel.saying(name)
        return LlmAgent(name=name, model=model, output_key=f"out_{name}", before_agent_callback=mark)

    pair = ParallelAgent(name="pair", sub_agents=[agent("left"), agent("right")])
    await run(SequentialAgent(name="all", sub_agents=[agent("first"), pair]), ours)
    assert await writers() == {
        **{f"out_{name}": writer("output_key", name) for name in ("first", "left", "right")},
        **{f"seen_{name}": writer("callback", "mark") for name in ("first", "left", "right")},
    }


async def test_a_workflow_node_that_writes_state_writes_an_explicit_delta(ours, session):
    def prepare(ctx: Context) -> str:
        ctx.state["prepared"] = True
        return "ready"

    answer = LlmAgent(name="answer", model=ScriptedModel.saying("yes"), output_key="said", mode="single_turn")
    await run(Workflow(name="flow", edges=[(START, prepare, answer)]), ours)
    assert await writers() == {"prepared": writer("delta"), "said": writer("output_key", "answer")}


async def test_writes_of_an_agent_used_as_tool_are_the_tools(ours, session):
    inner = LlmAgent(
        name="inner", model=ScriptedModel.saying("deep"), output_key="found", description="Finds."
    )
    model = ScriptedModel.saying(call("inner", request="find"), "done")
    await run(LlmAgent(name="ann", model=model, tools=[AgentTool(inner)]), ours)
    assert await writers() == {"found": writer("tool", "inner")}


async def test_another_plug_in_that_writes_is_named(ours, session):
    class Tagging(BasePlugin):
        async def before_agent_callback(self, *, agent, callback_context):
            callback_context.state["tag"] = agent.name

    agent = LlmAgent(name="ann", model=ScriptedModel.saying("hi"))
    await run(agent, ours, Recorder(), Tagging(name="tagging"))
    assert await writers() == {"tag": writer("callback", "tagging")}


async def test_the_plug_ins_of_adk_that_only_watch_are_not_suspected(ours, session):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying(call("count"), "done"), tools=[count])
    await run(agent, ours, Recorder(), LoggingPlugin())
    assert await writers() == {"count": writer("tool", "count"), "user:counted": writer("tool", "count")}


async def test_temp_values_are_stored_as_ghosts_and_never_as_state(ours, session):
    def think(tool_context: ToolContext) -> str:
        tool_context.state["temp:plan"] = ["look", "answer"]
        tool_context.state["kept"] = 1
        return "ok"

    model = ScriptedModel.saying(call("think", "c1"), "the end")
    await run(LlmAgent(name="ann", model=model, tools=[think], output_key="temp:answer"), ours)
    ghosts = await units_of_work.read(lambda: list(TempWrite.objects.order_by("seq")))
    result = [(ghost.key, ghost.value, ghost.writer, ghost.writer_name) for ghost in ghosts]
    assert result == [
        ("plan", '["look","answer"]', "tool", "think"),
        ("answer", '"the end"', "output_key", "ann"),
    ]
    stored = await get(ours)
    assert stored.state == {"kept": 1}
    assert not any("temp:" in key for event in stored.events for key in event.actions.state_delta)


async def test_ghosts_can_be_turned_off(ours, session):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying("hi"), output_key="temp:answer")
    await run(agent, ours, Recorder(keep_temp=False), state_delta={"temp:hint": 1})
    assert await units_of_work.read(TempWrite.objects.count) == 0


async def test_without_recorder_writers_are_inferred_and_no_ghosts(ours, session):
    model = ScriptedModel.saying(call("count"), "the answer")
    agent = LlmAgent(name="ann", model=model, tools=[count], output_key="answer")
    await run(agent, ours, LoggingPlugin(), state_delta={"locale": "de", "temp:hint": 1})
    assert await units_of_work.read(TempWrite.objects.count) == 0
    assert await writers() == {
        "locale": ("delta", "", True),
        "count": ("tool", "count", True),
        "user:counted": ("tool", "count", True),
        "answer": ("output_key", "ann", True),
    }


async def test_streamed_chunks_reach_the_sink_and_are_not_stored(ours, session):
    chunks: list[tuple[str, str, str]] = []

    def sink(session, event):
        chunks.append((session.id, event.author, event.content.parts[0].text))

    model = ScriptedModel.saying("streamed")
    await run(
        LlmAgent(name="ann", model=model, output_key="out"), ours, Recorder(on_chunk=sink), streaming=True
    )
    assert chunks == [("s1", "ann", "str"), ("s1", "ann", "eam"), ("s1", "ann", "ed")]
    assert len((await get(ours)).events) == 2
    assert await writers() == {"out": writer("output_key", "ann")}


async def test_a_callback_that_writes_on_every_chunk_is_named(ours, session):
    def tally(callback_context: CallbackContext, llm_response) -> None:
        callback_context.state["chunks"] = callback_context.state.get("chunks", 0) + 1

    agent = LlmAgent(name="ann", model=ScriptedModel.saying("streamed"), after_model_callback=tally)
    await run(agent, ours, streaming=True)
    assert (await get(ours)).state == {"chunks": 4}
    assert await writers() == {"chunks": writer("callback", "tally")}


async def test_recorder_failure_breaks_no_run_and_is_logged_once(ours, session, caplog):
    def sink(session, event):
        raise RuntimeError("the sink is full")

    agent = LlmAgent(name="ann", model=ScriptedModel.saying("streamed"))
    with caplog.at_level(logging.ERROR):
        events = await run(agent, ours, Recorder(on_chunk=sink), streaming=True)
    assert events[-1].content.parts[0].text == "streamed"
    assert [record.name for record in caplog.records] == ["sessions_app.adk.recorder"]


@pytest.fixture(autouse=True)
def _nothing_noted_by_other_tests() -> None:
    provenance._of_invocation.clear()
    provenance._pending.clear()


async def test_nothing_is_remembered_of_a_run_that_has_ended(ours, session):
    recorder = Recorder()
    agent = LlmAgent(name="ann", model=ScriptedModel.saying(call("count"), "done"), tools=[count])
    await run(agent, ours, recorder)
    assert not recorder._invocations._by_id
    assert not provenance._of_invocation
    assert not provenance._pending


async def test_nothing_is_remembered_of_a_run_that_failed(ours, session):
    recorder = Recorder()
    agent = LlmAgent(name="ann", model=ScriptedModel.saying(ValueError("down")))
    with pytest.raises(ValueError, match="down"):
        await run(agent, ours, recorder)
    assert not recorder._invocations._by_id


async def test_notes_of_events_that_are_never_appended_are_dropped_oldest_first():
    for number in range(provenance.MAX_PENDING + 1):
        provenance.note_event(f"e{number}", provenance.EventNotes())
    assert provenance.take_notes("e0", "") is None
    assert provenance.take_notes("e1", "") is not None
    provenance._pending.clear()
