"""Ids with any characters; links lead to their event."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

import httpx
import pytest

import devui.asgi
from sessions_app.paths import session_url
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession
from tests.timeline.story import Story

IDS = ["a/b", "%2F", "a?b#c", "東京 ☂", "..", ".", "' or 1=1 --", "a&b=c;d", "<x>", " a ", "a\nb", "id"]


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    yield
    units_of_work.close_pools()


@pytest.fixture
async def http(store: None):
    transport = httpx.ASGITransport(app=devui.asgi.application)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


def create_story(name: str) -> Story:
    story = Story(name, app=name, user=name)
    story.add({"text": f"in {name}"}, id=name)
    return story


async def test_a_session_of_any_ids_opens_under_its_address(http):
    for name in IDS:
        story = await units_of_work.write(create_story, name)
        response = await http.get(
            session_url(await units_of_work.read(AgentSession.objects.get, pk=story.pk))
        )
        assert response.status_code == 200, name
        assert 'data-seq="1"' in response.text, name


async def test_an_event_of_any_id_opens_under_its_address(http):
    for name in IDS:
        story = await units_of_work.write(create_story, name)
        response = await http.get(f"/sessions/id/{story.pk}/?event={quote(name, safe='')}")
        assert response.status_code == 200, name
        assert "State at event 1" in response.text, name
