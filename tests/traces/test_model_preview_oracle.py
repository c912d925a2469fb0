"""The preview of each model request equals the recorded request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.apps import App
from google.adk.apps.app import EventsCompactionConfig
from google.adk.apps.llm_event_summarizer import LlmEventSummarizer
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from devui.runtime.model_preview import PreviewRequest, preview_model
from sessions_app.adk import Recorder
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Event, ModelCall
from sessions_app.store.redaction import redact
from sessions_app.traces import model_calls
from sessions_app.traces.preview_point import find_preview_point
from tests.fake_models import ScriptedModel, call
from tests.sessions.build import APP, USER

Talk = Callable[..., Awaitable[Runner]]


def remember(city: str, tool_context: ToolContext) -> str:
    """Remember a city."""
    tool_context.state["city"] = city
    return "done"


@pytest.fixture
async def talk(ours) -> AsyncIterator[Talk]:
    """Let an agent answer messages under the recorder, and return its runner."""
    runners: list[Runner] = []

    async def talk(agent: Any, *messages: str, **app: Any) -> Runner:
        runner = Runner(
            app=App(name=APP, root_agent=agent, plugins=[Recorder()], **app),
            session_service=ours,
            auto_create_session=True,
        )
        runners.append(runner)
        for text in messages:
            await say(runner, text)
        return runner

    yield talk
    for runner in runners:
        await runner.close()


async def say(runner: Runner, text: str) -> None:
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for _ in runner.run_async(user_id=USER, session_id="s1", new_message=message):
        pass


async def sent_requests() -> dict[int, dict[str, Any]]:
    """Return what models were really sent, by the seq of the event that each call became."""

    def read() -> dict[int, dict[str, Any]]:
        by_id = dict(Event.objects.values_list("event_id", "seq"))
        rows = ModelCall.objects.exclude(event_id="").order_by("pk")
        return {by_id[row.event_id]: model_calls.request_json(row) for row in rows if row.event_id in by_id}

    return await units_of_work.read(read)


async def previewed_request(runner: Runner, seq: int) -> dict[str, Any]:
    """Return what the page says that the model saw of which the event came."""

    def question() -> dict[str, Any]:
        session = AgentSession.objects.get()
        return find_preview_point(session, Event.objects.get(session=session, seq=seq)).question(
            session, True
        )

    return await preview_model(runner, PreviewRequest(**await units_of_work.read(question)))


def instruction_of(request: dict[str, Any]) -> str:
    """Return the instructions as ADK joins them."""
    texts = [
        "".join(piece.get("value", piece.get("text", "")) for piece in instruction["pieces"])
        for instruction in request["instructions"]
    ]
    return "\n\n".join([*texts, request["identity"]])


async def assert_equal(runner: Runner, at_least: int) -> dict[int, dict[str, Any]]:
    """Hold the page to the recorder at every model call; return what was sent."""
    requests = await sent_requests()
    assert len(requests) >= at_least
    for seq, request in requests.items():
        preview = await previewed_request(runner, seq)
        assert preview["contents"] == redact(request["contents"]), f"event {seq}"
        assert preview["count"] == len(request["contents"])
        for text in instruction_of(preview).split("\n\n"):
            assert text in request["system_instruction"], f"event {seq}"
        declared = [tool["name"] for tool in preview["tools"]]
        assert list(model_calls.tool_names(request["tools"])) == declared
    return requests


def words(request: dict[str, Any]) -> list[str]:
    return [part.get("text", "") for content in request["contents"] for part in content["parts"]]


async def test_tools_and_state_over_several_turns(talk: Talk):
    model = ScriptedModel.saying(
        call("remember", city="Rome"), "done", call("remember", city="Oslo"), "again"
    )
    agent = LlmAgent(name="ann", model=model, tools=[remember], instruction="In {city?}. Be kind.")
    requests = await assert_equal(await talk(agent, "one", "two"), at_least=4)
    assert [request["system_instruction"].split(".")[0] for request in requests.values()] == [
        "In ",
        "In Rome",
        "In Rome",
        "In Oslo",
    ]


async def test_branches_that_run_side_by_side_do_not_see_each_other(talk: Talk):
    class Slow(ScriptedModel):
        """Answers after the others have begun: what they say lies between."""

        async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
            await asyncio.sleep(0)
            async for response in super().generate_content_async(llm_request, stream):
                yield response

    def branch(name: str) -> LlmAgent:
        model = Slow.saying(call("remember", city=name), f"{name} is done", f"{name} again")
        return LlmAgent(name=name, model=model, tools=[remember])

    agent = ParallelAgent(name="both", sub_agents=[branch("left"), branch("right")])
    requests = await assert_equal(await talk(agent, "one", "two"), at_least=6)
    authors = await units_of_work.read(lambda: dict(Event.objects.values_list("seq", "author")))
    for seq, request in requests.items():
        other = {"left": "right", "right": "left"}[authors[seq]]
        assert not any(other in text for text in words(request)), f"event {seq}"


async def test_agent_after_branches_sees_all_of_them(talk: Talk):
    def saying(name: str, *texts: Any) -> LlmAgent:
        return LlmAgent(name=name, model=ScriptedModel.saying(*texts))

    both = ParallelAgent(name="both", sub_agents=[saying("left", "l"), saying("right", "r")])
    line = SequentialAgent(name="line", sub_agents=[both, saying("last", "a"), saying("behind", "b")])
    hand_over = ScriptedModel.saying(call("transfer_to_agent", agent_name="line"))
    requests = await assert_equal(
        await talk(LlmAgent(name="boss", model=hand_over, sub_agents=[line]), "one"), at_least=5
    )
    text = " ".join(words(list(requests.values())[-1]))
    assert "[left] said" in text
    assert "[right] said" in text


async def test_sequential_and_looping_agents_see_the_same(talk: Talk):
    agent = SequentialAgent(
        name="line",
        sub_agents=[
            LlmAgent(name="first", model=ScriptedModel.saying("a", "d"), output_key="draft"),
            LoopAgent(
                name="loop",
                max_iterations=2,
                sub_agents=[
                    LlmAgent(
                        name="critic",
                        model=ScriptedModel.saying("b", "c", "e", "f"),
                        instruction="Of {draft}",
                    )
                ],
            ),
        ],
    )
    await assert_equal(await talk(agent, "one", "two"), at_least=6)


async def test_an_agent_that_is_handed_over_to(talk: Talk):
    below = LlmAgent(name="below", description="Knows.", model=ScriptedModel.saying("it is so", "still so"))
    above = LlmAgent(
        name="above",
        model=ScriptedModel.saying(call("transfer_to_agent", agent_name="below")),
        sub_agents=[below],
    )
    requests = await assert_equal(await talk(above, "one", "two"), at_least=3)
    assert any("[above]" in text for request in requests.values() for text in words(request))


async def test_compacted_events_are_seen_as_their_summary(talk: Talk):
    summarizer = LlmEventSummarizer(llm=ScriptedModel.saying("They greeted.", "They parted."))
    compaction = EventsCompactionConfig(summarizer=summarizer, compaction_interval=2, overlap_size=0)
    agent = LlmAgent(name="ann", model=ScriptedModel.saying("a", "b", "c", "d", "e"))
    runner = await talk(agent, "one", "two", "three", "four", "five", events_compaction_config=compaction)
    requests = await assert_equal(runner, at_least=5)
    assert await units_of_work.read(Event.objects.filter(summary__contains='"compaction"').exists)
    last = words(requests[max(requests)])
    assert "They greeted." in " ".join(last)
    assert "one" not in last
    assert last[-1] == "five"


async def test_rewind_in_the_middle_is_seen_alike(talk: Talk):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying("a", "b", "c"))
    runner = await talk(agent, "one", "two")
    second = await units_of_work.read(lambda: Event.objects.get(seq=3).invocation_id)
    await runner.rewind_async(user_id=USER, session_id="s1", rewind_before_invocation_id=second)
    await say(runner, "three")
    requests = await assert_equal(runner, at_least=3)
    assert words(requests[max(requests)]) == ["one", "a", "three"]


async def test_callback_additions_are_only_in_the_record(talk: Talk):
    """The callback is the agent's code and is not run again: the record beside it has what was really sent."""

    def add(callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        llm_request.contents.append(types.Content(role="user", parts=[types.Part(text="by a callback")]))

    agent = LlmAgent(name="ann", model=ScriptedModel.saying("a"), before_model_callback=add)
    runner = await talk(agent, "one")
    [(seq, request)] = (await sent_requests()).items()
    preview = await previewed_request(runner, seq)
    assert request["contents"][:-1] == preview["contents"]
    assert words(request) == ["one", "by a callback"]


async def test_callback_changes_to_earlier_events_are_seen(talk: Talk):
    def shout(callback_context: CallbackContext, llm_response: LlmResponse) -> LlmResponse:
        text = llm_response.content.parts[0].text.upper()
        return LlmResponse(content=types.Content(role="model", parts=[types.Part(text=text)]))

    def greet(callback_context: CallbackContext) -> types.Content | None:
        if callback_context.state.get("greeted"):
            return None
        callback_context.state["greeted"] = True
        return types.Content(role="model", parts=[types.Part(text="welcome")])

    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying("a", "b"),
        before_agent_callback=greet,
        after_model_callback=shout,
    )
    requests = await assert_equal(await talk(agent, "one", "two", "three"), at_least=2)
    assert words(requests[max(requests)]) == ["one", "welcome", "two", "A", "three"]


@pytest.mark.parametrize("include", ["none", "default"])
async def test_an_agent_that_sees_its_own_turn_only(talk: Talk, include: str):
    agent = LlmAgent(
        name="ann",
        model=ScriptedModel.saying(call("remember", city="Rome"), "a", "b"),
        tools=[remember],
        include_contents=include,
    )
    requests = await assert_equal(await talk(agent, "one", "two"), at_least=3)
    assert (words(requests[max(requests)]) == ["two"]) == (include == "none")
