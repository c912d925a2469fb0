"""Creating a session by hand."""

from __future__ import annotations

import json

import pytest
from django.test import Client

from sessions_app.sessions import app_settings
from sessions_app.store.models import AgentSession
from sessions_app.store.state.history import state_at
from tests.pages.client import Get
from tests.pages.html import Element, parse
from tests.timeline.story import Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents_dir")]

GIVEN = {"app": "weather", "user": "ann", "session_id": "s1", "state": ""}


def send(client: Client, **changed: str) -> Element:
    """Send the form and return the page that refuses it."""
    response = client.post("/sessions/new/", {**GIVEN, **changed})
    assert response.status_code == 422
    return parse(response.content)


def fault(page: Element) -> str:
    return page.one("ul", css="errorlist").text


def test_session_is_created_with_state_in_every_scope(client: Client):
    state = {"city": "Paris", "user:name": "Ada", "app:motd": "hi", "temp:x": 1}
    response = client.post("/sessions/new/", {**GIVEN, "state": json.dumps(state)})
    assert (response.status_code, response["Location"]) == (302, "/sessions/weather/ann/s1/")
    session = AgentSession.objects.get()
    assert state_at(session).merge_scopes() == {"city": "Paris", "user:name": "Ada", "app:motd": "hi"}


def test_missing_id_is_generated(client: Client):
    client.post("/sessions/new/", {**GIVEN, "session_id": ""})
    assert len(AgentSession.objects.get().session_id) == 36


def test_given_ids_are_used_unchanged(client: Client):
    response = client.post("/sessions/new/", {**GIVEN, "user": " a/b ", "session_id": "100%/é"})
    session = AgentSession.objects.get()
    assert (session.user_id, session.session_id) == (" a/b ", "100%/é")
    assert response["Location"] == "/sessions/weather/%20a%2Fb%20/100%25%2F%C3%A9/"


def test_existing_id_is_refused_and_input_kept(client: Client):
    Story("s1")
    page = send(client, state='{"k": 1}')
    assert "Session already exists: s1" in page.one("div", css="notice").text
    assert page.one("textarea").text == '{"k": 1}'
    assert page.one("input", name="session_id").attrs["value"] == "s1"


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ('{"a": 1,}', "Line 1, column 9"),
        ("[1, 2]", "The state is a JSON object"),
        ("null", "The state is a JSON object"),
        ("{\n'a': 1}", "Line 2, column 1"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_state_that_is_no_json_object_is_refused_with_its_place(client: Client, state: str, message: str):
    page = send(client, state=state)
    assert message in fault(page)
    assert page.one("textarea").attrs["aria-invalid"] == "true"
    assert not AgentSession.objects.exists()


@pytest.mark.parametrize(
    ("changed", "focused"),
    [
        ({"state": "{"}, ["id_state"]),
        ({"user": ""}, ["id_user"]),
        ({"app": "", "state": "{"}, ["id_app", "id_state"]),
    ],
)
def test_a_refused_form_has_the_focus_at_its_first_fault(client: Client, changed, focused):
    """Browsers focus the first element that asks for it."""
    page = send(client, **changed)
    main = page.one("main")
    controls = [*main.all("input"), *main.all("textarea")]
    assert [control.attrs["id"] for control in controls if "autofocus" in control.attrs] == focused


def test_a_new_form_has_the_focus_at_its_first_field(get: Get):
    main = get("/sessions/new/").one("main")
    assert [field.attrs["id"] for field in main.all("input") if "autofocus" in field.attrs] == ["id_app"]


@pytest.mark.parametrize("field", ["app", "user"])
def test_app_and_user_are_needed(client: Client, field: str):
    assert "required" in fault(send(client, **{field: ""}))


def test_too_long_id_is_refused(client: Client):
    assert "bytes" in send(client, session_id="é" * 300).one("div", css="notice").text


def test_an_id_with_a_nul_is_refused(client: Client):
    assert "Null characters" in fault(send(client, user="a\0b"))


def test_the_form_names_the_app_it_was_opened_from_and_offers_all(get: Get):
    page = get("/sessions/new/?app=writer")
    assert page.one("input", name="app").attrs["value"] == "writer"
    assert page.one("input", name="user").attrs["value"] == "user"
    assert [option.attrs["value"] for option in page.one("datalist").all("option")] == ["weather", "writer"]


def test_a_dialog_gets_only_the_form(get: Get):
    part = get("/sessions/new/", target="dialog-content")
    assert part.one("form").attrs["action"] == "/sessions/new/"
    assert not part.all("main")


def test_another_site_cannot_make_a_session(client: Client):
    response = client.post("/sessions/new/", GIVEN, headers={"Sec-Fetch-Site": "cross-site"})
    assert response.status_code == 403
    assert not AgentSession.objects.exists()


def test_new_session_merges_initial_state_file_and_form(client, agents_dir):
    (agents_dir / "weather" / "initial_state.json").write_text('{"city": "Rome", "unit": "C"}')
    form = parse(client.get("/sessions/new/?app=weather").content).one("div", id="session-facts")
    assert ("city" in form.text, "unit" in form.text) == (True, True)
    assert "checked" in form.one("input", name="seeded").attrs

    client.post("/sessions/new/", {**GIVEN, "seeded": "1", "state": '{"city": "Paris"}'})
    assert state_at(AgentSession.objects.get()).merge_scopes() == {"city": "Paris", "unit": "C"}


@pytest.mark.parametrize("text", ["[1]", "{", "\udcff"])
def test_a_file_that_holds_no_state_is_none(client, agents_dir, text):
    file = agents_dir / "weather" / "initial_state.json"
    file.write_text(text, encoding="utf-8", errors="surrogateescape")
    page = parse(client.get("/sessions/new/?app=weather").content)
    assert not page.all("input", name="seeded")
    assert "initial_state.json of this agent cannot be used: it" in page.one("div", id="session-facts").text
    client.post("/sessions/new/", {**GIVEN, "seeded": "1"})
    assert state_at(AgentSession.objects.get()).merge_scopes() == {}


def test_the_file_is_left_out_when_it_is_not_ticked(client, agents_dir):
    (agents_dir / "weather" / "initial_state.json").write_text('{"city": "Rome"}')
    client.post("/sessions/new/", GIVEN)
    assert state_at(AgentSession.objects.get()).merge_scopes() == {}


def test_active_session_of_a_user_is_shown_and_reused(client: Client):
    story = Story("s7")
    story.asks("Weather?")
    headers = {"HX-Request": "true", "HX-Target": "session-facts"}
    page = parse(client.get("/sessions/new/?app=weather&user=ann", headers=headers).content)
    assert page.one("a").attrs["href"] == "/sessions/weather/ann/s7/"

    response = client.post("/sessions/new/", {**GIVEN, "session_id": "", "how": "continue"})
    assert response["Location"] == "/sessions/weather/ann/s7/"
    assert AgentSession.objects.count() == 1


def test_without_active_session_a_new_one_is_created(client: Client):
    app_settings.set_session_ttl("weather", 1.0)
    Story("old")
    response = client.post("/sessions/new/", {**GIVEN, "session_id": "", "how": "continue"})
    assert response.status_code == 302
    assert AgentSession.objects.count() == 2
