"""Nested runs over DevUI's API, and their absence from ADK's own paths."""

from __future__ import annotations

import pytest_asyncio

from sessions_app.store.database import units_of_work
from tests.timeline.nested_story import add, nest, nested_call, text
from tests.timeline.story import Story


def tell() -> Story:
    story = Story()
    story.asks("Weather?")
    story.calls("helper", "c1")
    run = nest(story, "r1", total_tokens=7, state='{"city": "Rome"}')
    add(run, nested_call("deep", "d1"))
    add(run, text("inside"))
    nest(story, "r2", call_id="d1", parent="r1", started_at=11.0)
    return story


@pytest_asyncio.fixture
async def called(store: None) -> Story:
    """A session with two nested runs, one inside the other."""
    return await units_of_work.write(tell)


async def test_nested_runs_are_listed_newest_first(web, called):
    body = (await web.get(f"/api/v1/sessions/{called.pk}/nested-runs")).json()
    ids = [(run["ref"], run["parent_ref"], run["seq"]) for run in body["items"]]
    assert ids == [("r2", "r1", 2), ("r1", "", 2)]
    assert body["items"][1]["state"] == {"city": "Rome"}
    assert body["items"][1]["total_tokens"] == 7
    assert (await web.get(f"/api/v1/sessions/{called.pk}/nested-runs?event=1")).json()["items"] == []


async def test_events_of_a_nested_run_are_listed_in_order(web, called):
    runs = (await web.get(f"/api/v1/sessions/{called.pk}/nested-runs")).json()["items"]
    url = f"/api/v1/sessions/{called.pk}/nested-runs/{runs[1]['id']}/events"
    first = (await web.get(f"{url}?limit=1")).json()
    assert [item["number"] for item in first["items"]] == [1]
    rest = (await web.get(f"{url}?after={first['cursor']}")).json()
    assert rest["items"][0]["event"]["content"] == {"parts": [{"text": "inside"}]}
    assert (await web.get(f"/api/v1/sessions/{called.pk}/nested-runs/999/events")).status_code == 404


async def test_adk_paths_never_return_nested_events(web, called):
    body = (await web.get("/apps/weather/users/ann/sessions/s1")).text
    assert "Weather?" in body
    assert "inside" not in body
