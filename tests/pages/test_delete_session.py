"""Deleting a session."""

from __future__ import annotations

import pytest
from django.test import Client

from sessions_app.runs import lifecycle as runs
from sessions_app.store.models import AgentSession
from tests.pages.client import Get
from tests.pages.html import parse
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def test_a_deleted_session_is_out_of_sight_and_can_come_back(client: Client, get: Get):
    story = Story(initial={"own": 1, "app:shared": 2})
    story.asks("Hello")
    response = client.post(f"/sessions/id/{story.pk}/delete/")
    assert (response.status_code, response["Location"]) == (302, "/sessions/")
    page = get("/sessions/")
    assert not page.all("tr", id=f"session-row-{story.pk}")
    assert "1 session deleted" in page.one("details", css="deleted").text
    client.post(page.one("details", css="deleted").one("form").attrs["action"])
    assert get("/sessions/").one("tr", id=f"session-row-{story.pk}")


def test_confirmation_shows_consequences_and_deletes_nothing(get: Get):
    story = Story("s1")
    story.asks("Hello <b>")
    page = get(f"/sessions/id/{story.pk}/delete/")
    texts = [fact.text for fact in page.one("dl", css="pairs").all("dd")]
    assert texts == ["Hello <b>", "s1", "weather", "ann", "1"]
    assert AgentSession.objects.exists()


def test_afterwards_the_list_is_shown_as_it_was(get: Get, client: Client):
    story = Story()
    address = "/sessions/?app=weather&q=a%26b"
    page = get(f"/sessions/id/{story.pk}/delete/?next=%2Fsessions%2F%3Fapp%3Dweather%26q%3Da%2526b")
    assert page.one("input", name="next").attrs["value"] == address
    response = client.post(f"/sessions/id/{story.pk}/delete/", {"next": address})
    assert response["Location"] == address


def test_list_offers_undo_once_and_keeps_the_app(get: Get, client: Client):
    story = Story()
    session_page = get(f"/sessions/id/{story.pk}/")
    question = get(session_page.one("a", **{"data-command": "Delete the session"}).attrs["href"])
    response = client.post(
        f"/sessions/id/{story.pk}/delete/", {"next": question.one("input", name="next").attrs["value"]}
    )
    assert response["Location"] == "/sessions/?app=weather"
    toast = get(response["Location"]).one("div", id="toasts").one("div", css="toast")
    assert "Deleted 1 session" in toast.text
    assert not get(response["Location"]).one("div", id="toasts").all("div", css="toast")
    client.post(toast.one("form").attrs["action"])
    assert get("/sessions/").one("tr", id=f"session-row-{story.pk}")


def test_unknown_deletion_in_the_cookie_is_ignored(get: Get, client: Client):
    client.cookies["devui_deleted"] = "<b>unknown"
    assert not get("/sessions/").one("div", id="toasts").all("div", css="toast")


@pytest.mark.parametrize(
    "address", ["https://elsewhere.example/", "//elsewhere.example/", "javascript:alert(1)"]
)
def test_deletion_redirects_only_to_own_pages(client: Client, get: Get, address: str):
    story = Story()
    page = get(f"/sessions/id/{story.pk}/delete/?next={address}")
    assert page.one("input", name="next").attrs["value"] == "/sessions/"
    assert client.post(f"/sessions/id/{story.pk}/delete/", {"next": address})["Location"] == "/sessions/"


def test_a_session_that_runs_is_not_deleted(client: Client):
    story = Story()
    run = runs.create_run(story.pk, {})
    response = client.post(f"/sessions/id/{story.pk}/delete/")
    assert response.status_code == 409
    page = parse(response.content)
    assert run.id in page.one("h1").text
    assert "Cancel the run first" in page.one("p", css="lead").text
    assert AgentSession.objects.exists()


@pytest.mark.parametrize("method", ["get", "post"])
def test_deleted_session_is_404(client: Client, method: str):
    response = getattr(client, method)("/sessions/id/999/delete/")
    assert response.status_code == 404
    assert "may have been deleted" in parse(response.content).one("p", css="lead").text
