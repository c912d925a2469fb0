"""Nested runs over DevUI's API, and their absence from ADK's own paths."""

from __future__ import annotations

from typing import Any

import pytest_asyncio

from sessions_app.store.database import units_of_work
from tests.timeline.nested_story import add, nest, nested_call, text
from tests.timeline.story import Story


def tell() -> Story:
    story = Story()
    story.asks("Weather?")
    story.calls("helper", "c1")
    run = nest(story, "r1", state={"city": "Rome"})
    add(run, nested_call("deep", "d1"))
    add(run, text("inside"), usageMetadata={"totalTokenCount": 7})
    nest(story, "r2", call_id="d1", parent="r1", started_at=11.0)
    return story


@pytest_asyncio.fixture
async def called(store: None) -> Story:
    """A session with two nested runs, one inside the other."""
    return await units_of_work.write(tell)


async def nested_runs(web, session: int) -> list[dict[str, Any]]:
    return (await web.get(f"/api/v1/sessions/{session}/nested-runs")).json()["items"]


async def test_nested_runs_are_listed_newest_first(web, called):
    deep, helper = await nested_runs(web, called.pk)
    assert [deep["ref"], helper["ref"]] == ["r2", "r1"]
    assert (helper["session"], helper["seq"], helper["outer_seq"]) == (called.pk, 2, 2)
    assert (deep["session"], deep["seq"], deep["outer_seq"]) == (helper["child"], 1, 2)
    assert helper["total_tokens"] == 7
    assert (await web.get(f"/api/v1/sessions/{called.pk}/nested-runs?event=1")).json()["items"] == []


async def test_nested_session_lists_the_runs_that_it_called(web, called):
    deep, helper = await nested_runs(web, called.pk)
    assert await nested_runs(web, helper["child"]) == [deep]
    assert await nested_runs(web, deep["child"]) == []


async def test_events_and_state_of_a_nested_run_are_those_of_its_session(web, called):
    [_, helper] = await nested_runs(web, called.pk)
    url = f"/api/v1/sessions/{helper['child']}/events"
    first = (await web.get(f"{url}?limit=1")).json()
    assert [item["seq"] for item in first["events"]] == [1]
    rest = (await web.get(f"{url}?after={first['cursor']}")).json()
    assert rest["events"][0]["event"]["content"] == {"parts": [{"text": "inside"}]}
    state = (await web.get(f"/api/v1/sessions/{helper['child']}/state")).json()
    assert "Rome" in str(state)


async def test_list_of_sessions_leaves_nested_sessions_out(web, called):
    body = (await web.get("/api/v1/sessions")).json()
    assert [session["id"] for session in body["sessions"]] == ["s1"]


async def test_adk_paths_never_return_nested_events(web, called):
    body = (await web.get("/apps/weather/users/ann/sessions/s1")).text
    assert "Weather?" in body
    assert "inside" not in body
