"""Editing a key of a session's state from its page."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from sessions_app.runs import lifecycle
from sessions_app.sessions import state_edits
from sessions_app.store.models import AgentSession, ChangeCause, Event, Run, Scope, StateChange
from sessions_app.store.sessions import writes
from sessions_app.store.state import history as history
from tests.pages.client import Get
from tests.pages.html import Element, parse
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db

VALUES = {"city": "Rome", "user:tags": ["a", {"b": 1}], "app:motd": "hi"}


@pytest.fixture
def story() -> Story:
    return Story(initial=VALUES)


def edit_url(story: Story, name: str | None = None) -> str:
    key = "" if name is None else f"?key={name}"
    return f"/sessions/id/{story.pk}/state/edit/{key}"


def fields(page: Element) -> dict[str, str]:
    """Return what a browser would send of the form as it stands, without a button."""
    form = page.one("form", id="key-edit")
    values = {field.attrs["name"]: field.attrs["value"] for field in form.all("input", type="hidden")}
    values |= {field.attrs["name"]: field.attrs["value"] for field in form.all("input", type="text")}
    values |= {
        f.attrs["name"]: f.attrs["value"] for f in form.all("input", type="radio") if "checked" in f.attrs
    }
    for select in form.all("select"):
        values[select.attrs["name"]] = next(
            o.attrs["value"] for o in select.all("option") if "selected" in o.attrs
        )
    area = form.one("textarea")
    return values | {"value": "".join(map(str, area.children)).removeprefix("\n")}


def save(client: Client, url: str, get: Get, **changes: Any) -> Any:
    return client.post(url, {**fields(get(url)), "step": "save", **changes})


def merged_state(story: Story) -> dict[str, Any]:
    return history.state_at(story.session).merge_scopes()


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        ("city", "text", "Rome"),
        ("user:tags", "json", '[\n  "a",\n  {\n    "b": 1\n  }\n]'),
        ("app:motd", "text", "hi"),
    ],
)
def test_a_form_holds_text_as_it_is_and_the_rest_as_json(get: Get, story: Story, name, kind, expected):
    values = fields(get(edit_url(story, name)))
    assert (values["kind"], values["value"]) == (kind, expected)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize(("kind", "typed", "new"), [("text", "12", "12"), ("json", '{"a": [1]}', {"a": [1]})])
def test_saving_appends_an_event_and_shows_it(client: Client, get: Get, story: Story, name, kind, typed, new):
    response = save(client, edit_url(story, name), get, kind=kind, value=typed)
    assert (response.status_code, response["Location"]) == (303, "/sessions/weather/ann/s1/?seq=1")
    assert merged_state(story) == {**VALUES, name: new}
    body = json.loads(story.event(1).data)
    assert (body["author"], body["actions"]["stateDelta"]) == ("user", {name: new})
    change = StateChange.objects.get(seq=1)
    assert (change.cause, change.writer, change.inferred) == (ChangeCause.EDIT, "user", False)


def test_a_form_sent_back_as_it_was_changes_no_value(client: Client, get: Get):
    story = Story(
        initial={"text": "a\nb\n  c ", "cr": "a\r\nb", "blank": "", "hidden": "a\u202eb", "n": None}
    )
    for name in ("text", "cr", "blank", "hidden", "n"):
        form = fields(get(edit_url(story, name)))
        form["value"] = form["value"].replace("\r\n", "\n").replace("\n", "\r\n")  # as browsers send lines
        assert client.post(edit_url(story, name), {**form, "step": "save"}).status_code == 303
    assert merged_state(story) == {
        "text": "a\nb\n  c ",
        "cr": "a\r\nb",
        "blank": "",
        "hidden": "a\u202eb",
        "n": None,
    }


@pytest.mark.parametrize(("scope", "name"), [("session", "k.x"), ("user", "user:k.x"), ("app", "app:k.x")])
def test_a_key_is_added_to_a_scope(client: Client, get: Get, story: Story, scope, name):
    response = save(client, edit_url(story), get, scope=scope, key="k.x", value="new")
    assert response.status_code == 303
    assert merged_state(story) == {**VALUES, name: "new"}


@pytest.mark.parametrize("scope", ["session", "user", "app"])
@pytest.mark.parametrize("typed", ["user:theme", "app:theme", "user:user:x"])
def test_a_prefix_that_is_typed_chooses_the_scope(client: Client, get: Get, story: Story, scope, typed):
    form = {**fields(get(edit_url(story))), "scope": scope, "key": typed, "value": "dark"}
    page = parse(client.post(edit_url(story), {**form, "step": "preview"}).content)
    [preview] = [part for part in page.all("section") if part.attrs.get("aria-label") == "What changes"]
    assert typed in preview.text
    assert "Every session of" in page.one("div", "notice-warn").text
    assert save(client, edit_url(story), get, scope=scope, key=typed, value="dark").status_code == 303
    assert merged_state(story) == {**VALUES, typed: "dark"}


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("temp:k", "temp: keys live in one invocation"),
        ("a\x00b", "Null characters"),
        ("", "The key needs a name"),
    ],
)
def test_key_of_wrong_scope_is_refused_and_input_kept(client: Client, get: Get, story: Story, key, message):
    response = save(client, edit_url(story), get, key=key, value="typed")
    assert response.status_code == 422
    page = parse(response.content)
    assert message in page.one("span", id="edit-key-error").text
    field = page.one("input", id="edit-key")
    assert field.attrs["aria-invalid"] == "true"
    assert "edit-key-error" in field.attrs["aria-describedby"].split()
    assert fields(page)["value"] == "typed"
    assert not Event.objects.exists()


@pytest.mark.parametrize("typed", ["{", "NaN", "[1, Infinity]", "", "'a'", "[" * 100_000, "9" * 5000])
def test_invalid_json_is_refused_with_position(client: Client, get: Get, story: Story, typed):
    response = save(client, edit_url(story, "city"), get, kind="json", value=typed)
    assert response.status_code == 422
    page = parse(response.content)
    assert page.one("span", id="edit-value-error").text
    assert page.one("textarea", id="edit-value").attrs["aria-invalid"] == "true"
    assert not Event.objects.exists()


@pytest.mark.parametrize(
    ("key", "value", "focused"),
    [("x", "{", "edit-value"), ("temp:x", "{}", "edit-key"), ("temp:x", "{", "edit-key")],
)
def test_a_form_with_a_fault_has_the_focus_at_its_first_fault(
    client: Client, get: Get, story: Story, key, value, focused
):
    page = parse(save(client, edit_url(story), get, key=key, kind="json", value=value).content)
    form = page.one("form", id="key-edit")
    controls = [*form.all("input"), *form.all("textarea")]
    assert [f.attrs["id"] for f in controls if "autofocus" in f.attrs] == [focused]


def test_a_form_with_a_fault_is_saved_once_it_is_mended(client: Client, get: Get, story: Story):
    page = parse(save(client, edit_url(story, "app:motd"), get, kind="json", value="{").content)
    response = client.post(edit_url(story, "app:motd"), {**fields(page), "value": "{}", "step": "save"})
    assert response.status_code == 303
    assert merged_state(story)["app:motd"] == {}


def test_unstorable_json_is_refused(client: Client, get: Get, story: Story):
    response = save(client, edit_url(story, "city"), get, kind="json", value="[" * 120 + "]" * 120)
    assert response.status_code == 400
    assert "is not JSON (deep)" in parse(response.content).one("div", "notice-danger").text
    assert not Event.objects.exists()


def test_a_preview_shows_old_and_new_and_writes_nothing(client: Client, get: Get, story: Story):
    form = {**fields(get(edit_url(story, "city"))), "value": "Paris", "step": "preview"}
    page = parse(client.post(edit_url(story, "city"), form).content)
    assert page.one("p", "value-change").text == '"Rome" → "Paris"'
    assert "appends event 1" in page.text
    assert not Event.objects.exists()
    piece = client.post(edit_url(story, "city"), form, headers={"HX-Request": "true", "HX-Target": "preview"})
    assert parse(piece.content).one("p", "value-change").text == '"Rome" → "Paris"'
    assert b"<form" not in piece.content
    broken = client.post(
        edit_url(story, "city"),
        {**form, "kind": "json", "value": "{"},
        headers={"HX-Request": "true", "HX-Target": "preview"},
    )
    assert (broken.status_code, b"Line 1, column 2" in broken.content) == (422, True)


def test_form_names_other_readers_of_the_key(get: Get, story: Story):
    for number in range(3):
        Story(f"other{number}")
    Story("theirs", user="bob")
    Story("elsewhere", app="writer")
    assert "Only this session reads it" in get(edit_url(story, "city")).text
    user = get(edit_url(story, "user:tags")).one("div", "notice-warn").text
    assert "Every session of ann in weather reads this key: 3 others" in user
    app = get(edit_url(story, "app:motd")).one("div", "notice-warn").text
    assert "Every session of weather reads this key: 4 others" in app
    assert "of 2 users" in app


def test_readers_are_counted_up_to_a_limit(story: Story, django_assert_num_queries):
    session, most = story.session, state_edits.COUNT_LIMIT + 1
    times = {"created_at": session.created_at, "updated_at": session.updated_at}
    AgentSession.objects.bulk_create(
        AgentSession(app_name="weather", user_id=f"user{number}", session_id="s", **times)
        for number in range(most + 1)
    )
    with django_assert_num_queries(2):
        reach = state_edits.count_readers(session, Scope.APP)
    assert (reach.sessions, reach.users) == (most, most)
    assert reach.is_cut
    assert reach.users_cut
    with django_assert_num_queries(1):
        assert state_edits.count_readers(session, Scope.USER) == state_edits.KeyReaders(0, 1)
    with django_assert_num_queries(0):
        assert state_edits.count_readers(session, Scope.SESSION) == state_edits.KeyReaders(0)


@pytest.mark.parametrize("name", VALUES)
def test_a_key_that_was_written_since_is_not_overwritten_unseen(client: Client, get: Get, story: Story, name):
    url = edit_url(story, name)
    form = fields(get(url))
    (story if name == "city" else Story("s2")).says("x", delta={name: "theirs"})
    seen_events = Event.objects.count()
    response = client.post(url, {**form, "kind": "text", "value": "mine", "step": "save"})
    assert response.status_code == 409
    page = parse(response.content)
    assert "was written since" in page.one("div", "notice-danger").text
    assert page.one("p", "value-change").text == '"theirs" → "mine"'
    assert Event.objects.count() == seen_events
    assert client.post(url, {**fields(page), "step": "save"}).status_code == 303
    assert merged_state(story)[name] == "mine"


def test_key_edit_during_active_run_is_refused_with_hint(client: Client, get: Get, story: Story):
    url = edit_url(story, "city")
    form = {**fields(get(url)), "value": "Paris", "step": "save"}
    run = lifecycle.create_run(story.pk, {})
    response = client.post(url, form)
    assert response.status_code == 409
    page = parse(response.content)
    assert run.pk in page.one("div", id="edit-busy").text
    assert page.one("form", id="edit-cancel-run").attrs["action"] == f"/runs/{run.pk}/cancel/"
    assert fields(page)["value"] == "Paris"
    assert not Event.objects.exists()
    lifecycle.finish(run.pk, Run.Status.DONE)
    assert client.post(url, {**fields(page), "step": "save"}).status_code == 303
    assert merged_state(story)["city"] == "Paris"


@pytest.mark.parametrize("name", VALUES)
def test_removal_is_described_and_appended(client: Client, get: Get, story: Story, name):
    url = f"/sessions/id/{story.pk}/state/remove/?key={name}"
    page = get(url)
    assert f"Remove {name}?" in page.one("h1").text
    text = page.one("div", "notice-info").text
    assert "cannot remove a key" in text
    assert "ADK's own session services would keep it with the value None" in text
    position = page.one("input", name="seen_position").attrs["value"]
    response = client.post(url, {"seen_position": position})
    assert (response.status_code, response["Location"]) == (303, "/sessions/weather/ann/s1/?seq=1")
    assert merged_state(story) == {key: value for key, value in VALUES.items() if key != name}
    assert json.loads(story.event(1).data)["actions"]["stateDelta"] == {name: None}
    assert get(url, status=404)


def test_a_key_that_changed_since_or_a_busy_session_is_not_removed(client: Client, get: Get, story: Story):
    url = f"/sessions/id/{story.pk}/state/remove/?key=city"
    position = get(url).one("input", name="seen_position").attrs["value"]
    story.says("x", delta={"city": "Oslo"})
    response = client.post(url, {"seen_position": position})
    assert response.status_code == 409
    page = parse(response.content)
    assert "Oslo" in page.text
    lifecycle.create_run(story.pk, {})
    busy = client.post(url, {"seen_position": page.one("input", name="seen_position").attrs["value"]})
    assert (busy.status_code, bool(parse(busy.content).one("div", id="edit-busy"))) == (409, True)
    assert merged_state(story)["city"] == "Oslo"


def test_credentials_are_hidden_and_announced_as_replaced(get: Get):
    story = Story(initial={"held": {"authType": "apiKey", "apiKey": "hush"}})
    page = get(edit_url(story, "held"))
    assert "hush" not in page.text
    assert "holds credentials, which are never shown" in page.text


def test_too_long_value_is_not_put_into_the_form(get: Get):
    story = Story(initial={"big": "x" * 300_000})
    page = get(edit_url(story, "big"))
    assert fields(page)["value"] == ""
    assert "has 300,002 characters and is not loaded" in page.text


@pytest.mark.parametrize("path", ["state/edit/", "state/edit/?key=n", "state/remove/?key=n"])
def test_eval_attempt_is_read_only(client: Client, path):
    story = Story(initial={"n": 1}, realm="eval/r/c/0")
    for method in ("get", "post"):
        assert getattr(client, method)(f"/sessions/id/{story.pk}/{path}").status_code == 400
    page = parse(client.get(f"/sessions/id/{story.pk}/").content)
    assert not [link for link in page.all("a") if "state/edit" in link.attrs.get("href", "")]


@pytest.mark.parametrize("path", ["state/edit/?key=temp:x", "state/remove/?key=temp:x"])
def test_temp_keys_are_refused(client: Client, story: Story, path):
    assert client.get(f"/sessions/id/{story.pk}/{path}").status_code == 400


def test_deleted_session_is_404(client: Client):
    for path in ("state/edit/", "state/remove/?key=n"):
        assert client.get(f"/sessions/id/999/{path}").status_code == 404


@pytest.mark.parametrize("name", ["a b&c=d#e?f", "日本語", "user:user:x", "k'\"<b>", "", "app:", "%2F"])
def test_any_key_can_be_edited_by_its_link_on_the_board(client: Client, get: Get, name):
    story = Story(initial={name: "old"})
    page = get(f"/sessions/id/{story.pk}/")
    [link] = [a for a in page.one("li", "entry").all("a") if "state/edit" in a.attrs["href"]]
    form = fields(get(link.attrs["href"]))
    assert form["value"] == "old"
    response = client.post(link.attrs["href"], {**form, "value": "new", "step": "save"})
    assert response.status_code == 303
    assert merged_state(story) == {name: "new"}


def test_a_shared_key_can_be_edited_from_the_page_of_shared_state(client: Client, get: Get, story: Story):
    page = get("/state/?app=weather&user=ann")
    links = [a.attrs["href"] for a in page.all("a") if "state/edit" in a.attrs.get("href", "")]
    assert links == [edit_url(story, "user%3Atags"), edit_url(story, "app%3Amotd")]
    response = save(client, links[1], get, value="hello")
    assert response["Location"] == "/sessions/weather/ann/s1/?seq=1"
    assert merged_state(story)["app:motd"] == "hello"
    writes.delete_session(story.key)
    state_page = get("/state/?app=weather&user=ann")
    assert not [a for a in state_page.all("a") if "state/edit" in a.attrs.get("href", "")]


def test_key_of_another_realm_is_under_the_sessions_key(client: Client, get: Get):
    story = Story(initial={"n": 1, "user:n": 1}, realm="fork/1")
    Story(initial={"user:n": "real"})
    response = save(client, edit_url(story, "user:n"), get, kind="json", value="2")
    assert response["Location"] == f"/sessions/id/{story.pk}/?seq=1"
    assert merged_state(story) == {"n": 1, "user:n": 2}
    assert writes.AgentSession.objects.count() == 2


def send_from_dialog(client: Client, url: str, page: str, **form: str) -> Any:
    """Send a form as htmx does from the dialog of a page."""
    headers = {
        "HX-Request": "true",
        "HX-Target": "dialog-content",
        "HX-Current-URL": f"http://testserver{page}",
    }
    return client.post(url, form, headers=headers)


@pytest.mark.parametrize("page", ["/sessions/weather/ann/s1/?seq=1", "/sessions/id/{pk}/"])
def test_saving_from_the_sessions_page_leaves_it_where_it_is(client: Client, get: Get, story: Story, page):
    url = edit_url(story, "city")
    form = {**fields(get(url)), "value": "Paris", "step": "save"}
    response = send_from_dialog(client, url, page.format(pk=story.pk), **form)
    assert (response.status_code, response.headers["HX-Trigger"]) == (204, "done")
    assert "HX-Redirect" not in response.headers
    assert merged_state(story)["city"] == "Paris"
    removal = f"/sessions/id/{story.pk}/state/remove/?key=city"
    position = get(removal).one("input", name="seen_position").attrs["value"]
    response = send_from_dialog(client, removal, page.format(pk=story.pk), seen_position=position)
    assert (response.status_code, response.headers["HX-Trigger"]) == (204, "done")
    assert "city" not in merged_state(story)


def test_saving_from_another_page_redirects_to_the_event(client: Client, get: Get, story: Story):
    url = edit_url(story, "app:motd")
    form = {**fields(get(url)), "value": "hello", "step": "save"}
    response = send_from_dialog(client, url, "/state/?app=weather", **form)
    assert response.headers["HX-Redirect"] == "/sessions/weather/ann/s1/?seq=1"


def test_error_of_dialog_is_shown_in_it(client: Client, get: Get, story: Story):
    url = edit_url(story, "city")
    form = fields(get(url))
    story.says("x", delta={"city": "Oslo"})
    page = f"/sessions/id/{story.pk}/"
    stale = send_from_dialog(client, url, page, **{**form, "value": "Paris", "step": "save"})
    assert stale.status_code == 422
    assert b"<html" not in stale.content
    dialog = parse(stale.content)
    assert "was written since" in dialog.one("div", "notice-danger").text
    assert fields(dialog)["value"] == "Paris"
    broken = send_from_dialog(client, url, page, **{**form, "kind": "json", "value": "{", "step": "save"})
    assert broken.status_code == 422
    assert "Line 1, column 2" in parse(broken.content).one("span", id="edit-value-error").text


def test_preview_shows_error_at_the_field(client: Client, get: Get, story: Story):
    form = {**fields(get(edit_url(story))), "key": "temp:x", "kind": "json", "value": "{", "step": "preview"}
    headers = {"HX-Request": "true", "HX-Target": "preview"}
    piece = parse(client.post(edit_url(story), form, headers=headers).content)
    for name, text in (("key", "temp: keys live"), ("value", "Line 1, column 2")):
        error = piece.one("span", id=f"edit-{name}-error")
        assert text in error.text
        assert error.attrs["hx-swap-oob"] == "true"
    mended = client.post(edit_url(story), {**form, "key": "x", "value": "{}"}, headers=headers)
    assert parse(mended.content).one("span", id="edit-key-error").text == ""


def test_state_edit_finds_its_session_once(story):
    table = AgentSession._meta.db_table
    with CaptureQueriesContext(connection) as queries:
        state_edits.put_key(story.pk, "city", "Oslo")
    statements = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    assert len([sql for sql in statements if f'FROM "{table}"' in sql or f"FROM {table}" in sql]) == 1
