"""ADK's own tools and plug-ins, in real runs on DevUI's session, artifact and memory services."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.plugins.save_files_as_artifacts_plugin import SaveFilesAsArtifactsPlugin
from google.adk.runners import Runner
from google.adk.tools.load_artifacts_tool import load_artifacts_tool
from google.adk.tools.load_memory_tool import load_memory_tool
from google.adk.tools.preload_memory_tool import preload_memory_tool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sessions_app.adk import DjangoArtifactService, DjangoMemoryService, DjangoSessionService
from sessions_app.store.artifacts import artifact_versions
from sessions_app.store.database import units_of_work
from tests.fake_models import ScriptedModel, call

pytestmark = pytest.mark.usefixtures("store")

PNG = types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png", display_name="plan.png"))


class Office:
    """An agent on DevUI's services. `requests` holds the texts of what its model was asked, call by call."""

    def __init__(self, *turns: Any, plugins: list[BasePlugin] | None = None, **agent: Any) -> None:
        self.requests: list[str] = []
        model = ScriptedModel.saying(*turns)
        self.agent = LlmAgent(name="office", model=model, before_model_callback=self._note, **agent)
        self.runner = Runner(
            app=App(name="office", root_agent=self.agent, plugins=plugins or []),
            session_service=DjangoSessionService(),
            artifact_service=DjangoArtifactService(),
            memory_service=DjangoMemoryService(),
            auto_create_session=True,
        )

    async def say(self, text: str, *more: types.Part, session: str = "s1", **fields: Any) -> list[Event]:
        message = types.Content(role="user", parts=[types.Part(text=text), *more])
        run = self.runner.run_async(user_id="ann", session_id=session, new_message=message, **fields)
        return [event async for event in run]

    async def load(self, filename: str, session: str = "s1") -> types.Part | None:
        assert self.runner.artifact_service is not None
        return await self.runner.artifact_service.load_artifact(
            app_name="office", user_id="ann", session_id=session, filename=filename
        )

    def _note(self, callback_context: CallbackContext, llm_request: LlmRequest) -> None:
        parts = [part for content in llm_request.contents for part in content.parts or []]
        self.requests.append(repr([part.model_dump(exclude_none=True) for part in parts]))


async def remember(callback_context: CallbackContext) -> None:
    await callback_context.add_session_to_memory()


@pytest.mark.parametrize(
    ("message", "query"),
    [
        ("The budget is 40,000.", "budget"),
        ("予算は四万円です。", "予算"),
        ("预算是四万元。", "预算"),
        ("예산은 사만 원입니다.", "예산"),
    ],
)
async def test_load_memory_finds_text_of_an_earlier_session(message: str, query: str):
    office = Office(
        "Noted.",
        call("load_memory", query=query),
        "I remember.",
        tools=[load_memory_tool],
        after_agent_callback=remember,
    )
    await office.say(message, session="s1")
    events = await office.say("What did we say?", session="s2")
    responses = [response.response for event in events for response in event.get_function_responses()]
    assert message in repr(responses)
    assert message in office.requests[-1]


async def test_preload_memory_adds_relevant_memories_to_the_request():
    office = Office("Noted.", "40,000.", tools=[preload_memory_tool], after_agent_callback=remember)
    await office.say("予算は四万円です。", session="s1")
    await office.say("予算はいくらですか", session="s2")
    assert "PAST_CONVERSATIONS" not in office.requests[0]
    assert "PAST_CONVERSATIONS" in office.requests[1]
    assert "予算は四万円です。" in office.requests[1]


async def test_load_artifacts_shows_the_model_the_file_it_asks_for():
    office = Office(
        call("load_artifacts", artifact_names=["user:rules.txt"]), "I read it.", tools=[load_artifacts_tool]
    )
    await DjangoArtifactService().save_artifact(
        app_name="office", user_id="ann", filename="user:rules.txt", artifact=types.Part(text="No shoes.")
    )
    await office.say("What are the rules?")
    assert "No shoes." not in office.requests[0]
    assert "No shoes." in office.requests[1]


async def test_a_file_sent_with_a_message_becomes_an_artifact_by_the_plugin():
    office = Office("Nice.", plugins=[SaveFilesAsArtifactsPlugin()])
    await office.say("Look", PNG)
    assert await office.load("plan.png") == PNG
    artifact = await units_of_work.read(
        artifact_versions.find_version, artifact_versions.file_key("", "office", "ann", "s1", "plan.png")
    )
    assert artifact is not None
    assert artifact.from_session == "s1"
    session = await office.runner.session_service.get_session(
        app_name="office", user_id="ann", session_id="s1"
    )
    assert session is not None
    assert {"plan.png": 0} in [event.actions.artifact_delta for event in session.events]


async def test_an_instruction_reads_an_artifact():
    office = Office("Yes.", instruction="Rules: {artifact.user:rules.txt?} {artifact.minutes.md}")
    service = DjangoArtifactService()
    await service.save_artifact(
        app_name="office",
        user_id="ann",
        session_id="s1",
        filename="minutes.md",
        artifact=types.Part(text="M1"),
    )
    instructions = []
    office.agent.before_model_callback = lambda callback_context, llm_request: instructions.append(
        llm_request.config.system_instruction
    )
    await office.say("Hello")
    assert "M1" in str(instructions[0])


async def test_rewind_restores_a_file_and_hides_a_later_one():
    async def write(name: str, text: str, tool_context: ToolContext) -> str:
        """Write a file."""
        return str(await tool_context.save_artifact(name, types.Part(text=text)))

    office = Office(
        *[call("write", name="a", text="first"), "ok"],
        *[[call("write", name="a", text="second"), call("write", name="b", text="new")], "ok"],
        tools=[write],
    )
    await office.say("one")
    events = await office.say("two")
    assert (await office.load("a"), await office.load("b")) == (
        types.Part(text="second"),
        types.Part(text="new"),
    )
    await office.runner.rewind_async(
        user_id="ann", session_id="s1", rewind_before_invocation_id=events[0].invocation_id
    )
    assert (await office.load("a"), await office.load("b")) == (types.Part(text="first"), None)
