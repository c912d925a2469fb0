"""“Ask about this session”: a message to the agent `helper`, if there is one."""

from __future__ import annotations

import json

import pytest
from django.test import AsyncClient

from sessions_app.runs import runtime_client
from sessions_app.sessions import overview
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, Run
from tests.console.fake_runtimes import RecordingRuntime
from tests.pages.conftest import AGENT
from tests.pages.html import parse
from tests.timeline.story import Story

LABEL = "Ask about this session"


class HelperRuntime(RecordingRuntime):
    """The runtime of the helper."""

    def apps(self) -> list[str]:
        return ["helper"]


@pytest.fixture
def helper(agents_dir):
    """The agents folder, in which `helper` is beside the other agents, and a runtime that only records."""
    (agents_dir / "helper").mkdir()
    (agents_dir / "helper/agent.py").write_text(AGENT)
    overview._cached_folder_names.cache_clear()
    runtime_client.register(HelperRuntime())
    yield agents_dir
    runtime_client.register(None)


async def read_page(app: str = "weather") -> tuple[AsyncClient, Story, str]:
    """Return a client, a session with an event, and its page."""
    story = await units_of_work.write(lambda: Story(app=app))
    await units_of_work.write(story.add, {"text": "Hello"})
    client = AsyncClient()
    page = (await client.get(f"/sessions/id/{story.pk}/", follow=True)).content.decode()
    return client, story, page


async def test_question_starts_a_session_of_the_helper(store, helper):
    client, story, page = await read_page()
    [form] = [form for form in parse(page).all("form") if LABEL in form.text]
    fields = {field.attrs["name"]: field.attrs["value"] for field in form.all("input")}
    assert fields["message"] == f"What went wrong in session {story.pk}?"
    response = await client.post(form.attrs["action"], fields)
    assert response.status_code == 302
    session = await AgentSession.objects.aget(app_name="helper")
    run = await Run.objects.aget(session=session)
    assert json.loads(run.request)["new_message"]["parts"] == [{"text": fields["message"]}]


async def test_without_a_helper_there_is_no_question(store, agents_dir):
    overview._cached_folder_names.cache_clear()
    assert LABEL not in (await read_page())[2]


async def test_session_of_the_helper_has_no_question(store, helper):
    assert LABEL not in (await read_page("helper"))[2]
