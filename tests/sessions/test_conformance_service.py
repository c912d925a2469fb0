"""Conformance of the session service as a whole, and of its events."""

from __future__ import annotations

import inspect
import json

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService
from google.genai import types

from sessions_app.adk import DjangoSessionService
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Event as EventRow
from tests.fake_models import ScriptedModel
from tests.sessions.build import APP, OWNER, USER, append, create, event, get
from tests.sessions.full_event import INTERNAL_MARK


async def test_a_users_state_can_be_read_before_there_is_a_session(service):
    """Statement 76."""
    assert await service.get_user_state(app_name=APP, user_id=USER) == {}


async def test_user_state_is_readable_after_last_session_is_deleted(service):
    """Statements 44 and 76."""
    await create(service, state={"user:name": "Ann"})
    await service.delete_session(**OWNER, session_id="s1")
    assert await service.get_user_state(app_name=APP, user_id=USER) == {"name": "Ann"}


def test_nothing_that_adk_declares_is_left_unsupported():
    """Statement 77: only `flush`, which does nothing, is ADK's own."""
    declared = {name for name, _ in inspect.getmembers(BaseSessionService, inspect.iscoroutinefunction)}
    missing = {name for name in declared if name not in vars(DjangoSessionService)}
    assert {name for name in missing if not name.startswith("_")} == {"flush"}


async def test_flushing_does_nothing_and_can_be_awaited(service):
    """Statement 78."""
    session = await create(service)
    await append(session, service, {"n": 1})
    assert await service.flush() is None
    assert (await get(service)).state == {"n": 1}


async def test_a_runner_can_be_closed(ours):
    """Statement 78: it flushes."""
    agent = LlmAgent(name="agent", model=ScriptedModel.saying("hello"))
    await Runner(app=App(name=APP, root_agent=agent), session_service=ours).close()
    assert (await create(ours)).events == []


@pytest.mark.parametrize(
    "name", ["create_session", "get_session", "list_sessions", "delete_session", "get_user_state"]
)
async def test_arguments_are_keyword_only(service, name):
    """Statement 79."""
    with pytest.raises(TypeError, match="positional argument"):
        await getattr(service, name)(APP, USER)


async def test_an_append_takes_its_arguments_by_place_and_by_name(service):
    """Statement 79."""
    session = await create(service)
    await service.append_event(session, event("a"))
    await service.append_event(session=session, event=event("b"))
    assert len((await get(service)).events) == 2


async def test_a_create_refuses_options_that_it_does_not_declare(service):
    """Statement 80: ADK's server looks at the signature before it hands on a request's `options`."""
    assert "options" not in inspect.signature(service.create_session).parameters
    with pytest.raises(TypeError, match="options"):
        await create(service, options={"ttl": 5})


async def test_long_running_tool_ids_come_back_as_a_set_and_are_stored_sorted(ours):
    """Statement 82."""
    await ours.append_event(await create(ours), event(long_running_tool_ids={"c", "a", "b"}))
    [stored_event] = (await get(ours)).events
    assert stored_event.long_running_tool_ids == {"a", "b", "c"}
    assert json.loads((await units_of_work.read(EventRow.objects.get)).data)["longRunningToolIds"] == [
        "a",
        "b",
        "c",
    ]


async def test_the_columns_of_an_event_win_over_its_body(ours):
    """Statement 83."""
    await ours.append_event(await create(ours), event("hello", id="told", invocation_id="told too"))
    await units_of_work.write(EventRow.objects.update, event_id="e1", invocation_id="i1")
    [stored_event] = (await get(ours)).events
    assert (stored_event.id, stored_event.invocation_id) == ("e1", "i1")


async def test_adks_internal_marks_are_stored_but_hidden(ours):
    """Statement 84."""
    marked = event("hello", custom_metadata={INTERNAL_MARK: True, "mine": 1})
    await ours.append_event(await create(ours), marked)
    [stored_event] = (await get(ours)).events
    assert stored_event.custom_metadata == {INTERNAL_MARK: True, "mine": 1}
    assert json.loads((await units_of_work.read(EventRow.objects.get)).data)["customMetadata"] == {"mine": 1}


async def test_rewind_appends_one_event_and_keeps_the_history(service):
    """Statement 85."""
    session = await create(service)
    for turn in (1, 2):
        await append(session, service, {"turn": turn}, invocation_id=f"i{turn}")
    actions = EventActions(rewind_before_invocation_id="i2", state_delta={"turn": 1})
    await service.append_event(session, Event(author="user", invocation_id="i3", actions=actions))
    stored_session = await get(service)
    assert [happened.invocation_id for happened in stored_session.events] == ["i1", "i2", "i3"]
    assert stored_session.events[-1].actions.rewind_before_invocation_id == "i2"
    assert stored_session.state == {"turn": 1}


async def test_a_runner_needs_reads_creates_and_appends_only(store):
    """Statement 86: and it never appends a partial event."""

    class Noting(DjangoSessionService):
        def __getattribute__(self, name: str) -> object:
            if name in vars(BaseSessionService):
                used.add(name)
            return super().__getattribute__(name)

        async def append_event(self, session, event):
            assert not event.partial
            return await super().append_event(session, event)

    used: set[str] = set()
    agent = LlmAgent(name="agent", model=ScriptedModel.saying("hello"))
    runner = Runner(app=App(name=APP, root_agent=agent), session_service=Noting(), auto_create_session=True)
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    async for _ in runner.run_async(user_id=USER, session_id="s1", new_message=message):
        pass
    await runner.close()
    assert {name for name in used if not name.startswith("_")} == {
        "get_session",
        "create_session",
        "append_event",
        "flush",
    }
