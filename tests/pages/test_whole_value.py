"""Large and nested values without scripts: nested values expand in place, large ones have a page."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from sessions_app.store.models import StateChange
from tests.pages.client import Get
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db

LARGE = {"items": [{"id": number, "name": "some <b>name</b>"} for number in range(60)]}


@pytest.fixture
def session_story() -> Story:
    story = Story()
    story.says("a", delta={"user:large": LARGE, "nested": {"a": [1, {"b": 2}]}})
    return story


def newest(key: str) -> StateChange:
    return StateChange.objects.filter(key=key).latest("pk")


def test_a_nested_value_opens_on_the_board(get: Get, session_story):
    entry = get(f"/sessions/id/{session_story.pk}/").one("li", "entry", data_key="nested")
    assert entry.one("div", "entry-value").all("bdi", "json-key")[-1].text == "b"
    assert not entry.all("details", hx_get=f"/state/values/{newest('nested').pk}/")


def test_a_link_leads_from_the_board_to_the_whole_of_a_large_value(get: Get, session_story):
    entry = get(f"/sessions/id/{session_story.pk}/").one("li", "entry", data_key="user:large")
    link = entry.one("div", "entry-value").one("a")
    page = get(link.attrs["href"])
    assert page.one("h1").text == "user:large"
    assert len(page.one("div", "json").all("details")) == 62
    assert len(page.one("div", "json").all("bdi", "json-string")) == 60
    assert link.attrs["href"] == f"/state/values/{newest('large').pk}/whole/"


def test_whole_value_is_sent_as_json_on_request(client: Client, session_story):
    answer = client.get(f"/state/values/{newest('large').pk}/whole/?form=json")
    assert answer["Content-Type"] == "application/json"
    assert json.loads(answer.content) == LARGE


def test_a_removed_key_has_no_value_to_show(get: Get, session_story):
    from sessions_app.store.sessions import writes

    writes.edit_state(session_story.key, {}, removed=["nested"])
    assert "removed" in get(f"/state/values/{newest('nested').pk}/whole/").one("main").text


def test_missing_value_and_unknown_format_are_refused(get: Get, session_story):
    get("/state/values/999999/whole/", status=404)
    get(f"/state/values/{newest('large').pk}/whole/?form=xml", status=400)
