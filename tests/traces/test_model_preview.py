"""Preview of the model request at an event, computed by ADK's own code."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from django.test import AsyncClient
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.events.event import Event as AdkEvent
from google.adk.runners import Runner
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from devui.runtime import _adk
from devui.runtime.model_preview import PreviewRequest, preview_model
from sessions_app.runs import runtime_client as runs_client
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.models import AgentSession, Event
from sessions_app.traces.preview_point import find_preview_point
from tests.fake_models import ScriptedModel, call
from tests.pages.html import parse
from tests.sessions.build import APP, USER


def remember(city: str, tool_context: ToolContext) -> str:
    """Remember a city."""
    tool_context.state["city"] = city
    return "done"


async def see(runner: Runner, seq: int, *, calls_code: bool = False, **changed: Any) -> dict[str, Any]:
    """Ask what the model sees at an event, as the page asks."""

    def question() -> dict[str, Any]:
        session = AgentSession.objects.get()
        return find_preview_point(session, Event.objects.get(session=session, seq=seq)).question(
            session, calls_code
        )

    return await preview_model(runner, PreviewRequest(**{**await units_of_work.read(question), **changed}))


@pytest.fixture
async def talk(ours) -> AsyncIterator[Any]:
    """Let an agent answer some messages, and return its runner."""
    runners: list[Runner] = []

    async def talk(agent: LlmAgent, *messages: str) -> Runner:
        runner = Runner(
            app=App(name=APP, root_agent=agent),
            session_service=ours,
            artifact_service=InMemoryArtifactService(),
            auto_create_session=True,
        )
        runners.append(runner)
        for text in messages:
            await say(runner, text)
        return runner

    yield talk
    for runner in runners:
        await runner.close()


def texts(preview: dict[str, Any]) -> list[str]:
    return [part.get("text") or "(call)" for content in preview["contents"] for part in content["parts"]]


def filled_keys(preview: dict[str, Any]) -> list[tuple[str, str, bool]]:
    pieces = preview["instructions"][0]["pieces"]
    return [(piece["key"], piece["value"], piece["missing"]) for piece in pieces if "key" in piece]


async def say(runner: Runner, text: str) -> None:
    """Let the agent answer a message."""
    message = types.Content(role="user", parts=[types.Part(text=text)])
    async for _ in runner.run_async(user_id=USER, session_id="s1", new_message=message):
        pass


async def fail(runner: Runner, author: str) -> None:
    """Append what a run that failed leaves: an error in the name of the agent that spoke last."""
    service = runner.session_service
    session = await service.get_session(app_name=APP, user_id=USER, session_id="s1")
    invocation_id = session.events[-1].invocation_id
    await service.append_event(
        session,
        AdkEvent(author=author, invocation_id=invocation_id, error_code="KeyError", error_message="no"),
    )


async def test_instruction_is_filled_with_state_at_the_event(talk):
    model = ScriptedModel.saying(call("remember", city="Rome"), "done", "again")
    agent = LlmAgent(
        name="ann", model=model, tools=[remember], instruction="In {city?}, {user:tier?} {json: 1}"
    )
    runner = await talk(agent, "one", "two")
    assert filled_keys(await see(runner, 2)) == [("city", "", True), ("user:tier", "", True)]
    assert filled_keys(await see(runner, 4)) == [("city", "Rome", False), ("user:tier", "", True)]


async def test_a_key_that_is_missing_is_marked_and_stops_nothing(talk):
    runner = await talk(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), "one")
    runner.agent.instruction = "Say {nothing} of {artifact.plan.txt}"
    preview = await see(runner, 2)
    assert filled_keys(preview) == [("nothing", "", True), ("artifact.plan.txt", "", True)]
    assert texts(preview) == ["one"]


async def keep(text: str, tool_context: ToolContext) -> str:
    """Keep a text."""
    await tool_context.save_artifact("plan.txt", types.Part(text=text))
    return "kept"


async def test_an_artifact_is_read_as_it_was_at_the_event(talk):
    turns = [call("keep", text="first"), "done", call("keep", text="second"), "done"]
    agent = LlmAgent(name="ann", model=ScriptedModel.saying(*turns), tools=[keep])
    runner = await talk(agent, "one", "two")
    runner.agent.instruction = "By {artifact.plan.txt?}"
    values = [filled_keys(await see(runner, seq))[0][1:] for seq in (2, 4, 6, 8)]
    assert values == [("", True), ("first", False), ("first", False), ("second", False)]


async def test_an_artifact_is_read_into_the_instruction(talk):
    runner = await talk(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), "one")
    await runner.artifact_service.save_artifact(
        app_name=APP, user_id=USER, session_id="s1", filename="plan.txt", artifact=types.Part(text="go on")
    )
    runner.agent.instruction = "By {artifact.plan.txt}"
    assert filled_keys(await see(runner, 2)) == [("artifact.plan.txt", "go on", False)]


async def test_model_preview_is_before_own_event_and_after_others(talk):
    model = ScriptedModel.saying(call("remember", city="Rome"), "done")
    runner = await talk(LlmAgent(name="ann", model=model, tools=[remember]), "one")
    assert texts(await see(runner, 1)) == ["one"]
    assert texts(await see(runner, 2)) == ["one"]
    assert texts(await see(runner, 3)) == ["one", "(call)", "(call)"]
    assert texts(await see(runner, 4)) == ["one", "(call)", "(call)"]


async def test_preview_after_transfer_shows_the_other_agent(talk):
    other = LlmAgent(name="bob", model=ScriptedModel.saying("hi"), instruction="Say {nothing}")
    hand_over = ScriptedModel.saying(call("transfer_to_agent", agent_name="bob"))
    runner = await talk(LlmAgent(name="ann", model=hand_over, sub_agents=[other]))
    with pytest.raises(KeyError):
        await say(runner, "one")
    assert (await see(runner, 2))["agent"] == "ann"
    after = await see(runner, 3)
    assert (after["agent"], filled_keys(after)) == ("bob", [("nothing", "", True)])
    await fail(runner, "ann")
    at_the_error = await see(runner, 4)
    assert (at_the_error["agent"], filled_keys(at_the_error)) == ("bob", [("nothing", "", True)])


async def test_rewound_events_are_not_in_the_preview(talk, ours):
    runner = await talk(LlmAgent(name="ann", model=ScriptedModel.saying("a", "b", "c")), "one", "two")
    second = await units_of_work.read(lambda: Event.objects.get(seq=3).invocation_id)
    await runner.rewind_async(user_id=USER, session_id="s1", rewind_before_invocation_id=second)
    message = types.Content(role="user", parts=[types.Part(text="three")])
    async for _ in runner.run_async(user_id=USER, session_id="s1", new_message=message):
        pass
    last = await units_of_work.read(lambda: AgentSession.objects.get().last_seq)
    assert texts(await see(runner, last)) == ["one", "a", "three"]


async def test_provider_is_called_only_on_request(talk):
    requests: list[str] = []

    def provide(context: Any) -> str:
        requests.append(context.agent_name)
        return f"The city is {context.state.get('city')}"

    agent = LlmAgent(name="ann", model=ScriptedModel.saying("hi"), instruction=provide)
    runner = await talk(agent, "one")
    requests.clear()
    instruction = (await see(runner, 2))["instructions"][0]
    assert (instruction["provider"], instruction["is_called"], instruction["pieces"], requests) == (
        "provide",
        False,
        [],
        [],
    )
    instruction = (await see(runner, 2, calls_code=True))["instructions"][0]
    assert (instruction["pieces"], requests) == ([{"text": "The city is None"}], ["ann"])


async def test_failing_provider_is_reported_with_the_rest(talk):
    runner = await talk(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), "one")

    def provide(context: Any) -> str:
        raise RuntimeError("no template")

    runner.agent.instruction = provide
    preview = await see(runner, 2, calls_code=True)
    assert preview["instructions"][0]["error"] == "RuntimeError: no template"
    assert texts(preview) == ["one"]


async def test_tools_are_declared_like_to_the_model(talk):
    class Set(BaseToolset):
        async def get_tools(self, readonly_context: Any = None) -> list[Any]:
            return [FunctionTool(remember)]

    runner = await talk(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), "one")
    runner.agent.tools = [remember, Set()]
    first, second = (await see(runner, 2))["tools"]
    assert (first["name"], first["description"]) == ("remember", "Remember a city.")
    assert second == {"name": "Set", "toolset": True, "is_called": False}
    assert [tool["name"] for tool in (await see(runner, 2, calls_code=True))["tools"]] == [
        "remember",
        "remember",
    ]


async def test_missing_objects_are_refused(talk):
    runner = await talk(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), "one")
    with pytest.raises(NotFound, match="no event 'gone'"):
        await see(runner, 2, event_id="gone")
    with pytest.raises(NotFound, match="No session 'gone'"):
        await see(runner, 2, session_id="gone")
    with pytest.raises(BadInput, match="bob calls no model"):
        await see(runner, 2, agent="bob")


def test_adks_pattern_finds_the_keys_of_an_instruction():
    keys = [match.group() for match in _adk.TEMPLATE_KEY.finditer("a {b} {c?} {artifact.d}")]
    assert keys == ["{b}", "{c?}", "{artifact.d}"]


@pytest.fixture
def page_of(monkeypatch) -> Any:
    """Return what the page shows at an event of a runner's session."""

    async def page_of(runner: Runner, seq: int) -> Any:
        class Client:
            async def call(self, method: str, path: str, body: dict[str, Any]) -> Any:
                assert (method, path) == ("POST", "/devui/seen")
                return await preview_model(runner, PreviewRequest(**body))

        class Provider:
            async def client(self, app_name: str) -> Client:
                return Client()

        monkeypatch.setattr(runs_client, "_provider", Provider())
        pk = await units_of_work.read(lambda: AgentSession.objects.get().pk)
        response = await AsyncClient().get(f"/sessions/id/{pk}/events/{seq}/seen/")
        return parse(response.content.decode()).one("div", "model-seen")

    return page_of


async def test_page_shows_preview_and_missing_parts(talk, page_of):
    runner = await talk(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), "one")
    runner.agent.instruction = "Say {nothing} of <b>"
    page = await page_of(runner, 2)
    assert page.one("mark", "is-missing").text == "{nothing}"
    assert "1 key is missing" in page.one("p", "seen-missing").text
    source, preview = page.all("pre", "seen-text")
    assert (source.text, preview.text) == ("Say {nothing} of <b>", "Say {nothing} of <b>")
    fix = page.one("li", "seen-fix")
    assert "{nothing} is missing. Write {nothing?} to leave it empty instead." in fix.text
    assert fix.one("a").attrs["href"].endswith("/state/edit/?key=nothing")


async def test_preview_is_beside_its_source(talk, page_of):
    model = ScriptedModel.saying(call("remember", city="Rome"), "done")
    runner = await talk(LlmAgent(name="ann", model=model, tools=[remember]), "one")
    runner.agent.instruction = "In {city}, for {whom?}"
    page = await page_of(runner, 4)
    assert [text.text for text in page.all("pre", "seen-text")] == [
        "In {city}, for {whom?}",
        "In Rome, for {whom?}",
    ]
    assert "{whom?} is missing and left empty. Set whom" in page.one("li", css="seen-optional").text
    runner.agent.instruction = "Be brief"
    [alone] = (await page_of(runner, 4)).all("pre", "seen-text")
    assert alone.text == "Be brief"


async def test_double_braces_are_marked_as_no_escape(talk, page_of):
    runner = await talk(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), "one")
    runner.agent.instruction = 'Use {{braces}} and {absent} in {"json": {{"a": 1}}}'
    page = await page_of(runner, 2)
    assert [mark.text for mark in page.all("mark", "is-missing")] == ["{{braces}}", "{absent}"]
    assert "1 key is missing" in page.one("p", "seen-missing").text
    doubled = page.one("li", "seen-doubled").text
    assert "{{braces}} ends the run, because the state has no braces" in doubled
    assert "InstructionProvider" in doubled
    assert "absent" not in doubled
    runner.agent.instruction = "Use {{braces}}"
    alone = await page_of(runner, 2)
    assert not alone.all("p", "seen-missing")
    assert "{key?}" not in alone.text


async def test_double_braces_of_a_set_key_show_value_and_warning(talk, page_of):
    model = ScriptedModel.saying(call("remember", city="Rome"), "done")
    runner = await talk(LlmAgent(name="ann", model=model, tools=[remember]), "one")
    runner.agent.instruction = "In {{city}}"
    page = await page_of(runner, 4)
    assert [mark.text for mark in page.all("mark", "seen-key")] == ["Rome"]
    assert "{{city}} is filled in like {city}" in page.one("li", "seen-doubled").text


async def test_provider_text_keeps_its_braces(talk):
    agent = LlmAgent(name="ann", model=ScriptedModel.saying("hi"), instruction=lambda _: "Use {{braces}}")
    preview = await see(await talk(agent, "one"), 2, calls_code=True)
    assert preview["instructions"][0]["pieces"] == [{"text": "Use {{braces}}"}]


async def test_page_explains_instruction_beside_static_one(talk, page_of):
    runner = await talk(LlmAgent(name="ann", model=ScriptedModel.saying("hi"), instruction="Say hi"), "one")
    assert "Sent as one more content of the user" not in (await page_of(runner, 2)).text
    runner.agent.static_instruction = "Be kind"
    page = await page_of(runner, 2)
    assert "Be kind" in page.text
    assert page.text.count("Sent as one more content of the user") == 1


async def test_page_without_runtime_says_so(talk):
    await talk(LlmAgent(name="ann", model=ScriptedModel.saying("hi")), "one")
    pk = await units_of_work.read(lambda: AgentSession.objects.get().pk)
    response = await AsyncClient().get(f"/sessions/id/{pk}/events/2/seen/")
    assert "This process runs no agents." in response.content.decode()
