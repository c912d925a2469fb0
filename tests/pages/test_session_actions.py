"""Actions on sessions of the list, by forms without scripts and by htmx."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.test import AsyncClient, Client

from sessions_app.runs import lifecycle as runs
from sessions_app.sessions import labels, saved_views
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, SavedView
from sessions_app.transfer.writers import import_location
from tests.pages.client import Get
from tests.pages.html import parse, table
from tests.timeline.story import Story

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("agents_dir")]
ACTIONS = "/sessions/actions/"
SCRIPT = {"HX-Request": "true"}


def tags(story: Story) -> list[str]:
    return [tag.name for tag in story.session.tags.order_by("name")]


def test_several_sessions_are_tagged_and_untagged_at_once(client: Client):
    first, second, other = Story("s1"), Story("s2"), Story("s3")
    ticked = {"session": [first.pk, second.pk], "tag": "Bug"}
    response = client.post(ACTIONS, {"action": "tag", "next": "/sessions/?app=weather", **ticked})
    assert (response.status_code, response["Location"]) == (302, "/sessions/?app=weather")
    assert (tags(first), tags(second), tags(other)) == (["bug"], ["bug"], [])
    client.post(ACTIONS, {"action": "untag", "session": [first.pk], "tag": "bug"})
    assert (tags(first), tags(second)) == ([], ["bug"])


def test_row_button_applies_to_its_row_only(client: Client):
    first, second = Story("s1"), Story("s2")
    client.post(ACTIONS, {"action": f"pin:{first.pk}", "session": [second.pk]})
    assert first.session.pinned_at
    assert second.session.pinned_at is None
    client.post(ACTIONS, {"action": f"unpin:{first.pk}"})
    assert first.session.pinned_at is None


def test_action_with_scripts_refreshes_the_list(client: Client):
    story = Story("s1")
    response = client.post(ACTIONS, {"action": f"pin:{story.pk}"}, headers=SCRIPT)
    assert response.status_code == 204
    assert "poll" in json.loads(response["HX-Trigger"])


def test_with_scripts_a_deletion_answers_its_undo(client: Client):
    story = Story("s1")
    response = client.post(ACTIONS, {"action": f"delete:{story.pk}"}, headers=SCRIPT)
    answer = parse(response.content)
    toast = answer.one("div", css="toast")
    assert "Deleted 1 session" in toast.text
    assert answer.one("div", id="deleted").attrs["hx-swap-oob"] == "true"
    back = client.post(toast.one("form").attrs["action"], headers=SCRIPT)
    assert "sessions-back" in json.loads(back["HX-Trigger"])
    assert not parse(back.content).one("div", id="deleted").all("form")
    assert story.session.realm == ""


def test_sessions_with_a_run_are_named_and_left_alone(client: Client):
    busy, idle = Story("busy"), Story("idle")
    run = runs.create_run(busy.pk, {})
    ticked = {"action": "delete", "session": [busy.pk, idle.pk]}
    toast = parse(client.post(ACTIONS, ticked, headers=SCRIPT).content).one("div", css="toast")
    assert "Deleted 1 session" in toast.text
    assert f"Skipped: busy: run {run.id} is queued" in toast.text
    refused = client.post(ACTIONS, {"action": "delete", "session": [busy.pk]})
    assert refused.status_code == 409
    assert run.id in parse(refused.content).one("h1").text


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"action": "tag", "tag": "bug"},
        {"action": "burn", "session": ["1"]},
        {"action": "pin:x"},
        {"action": "pin:-1"},
        {"action": "pin", "session": ["1", "x"]},
    ],
)
def test_an_act_that_means_no_session_is_refused(client: Client, body: dict[str, object]):
    response = client.post(ACTIONS, body)
    assert response.status_code == 400
    assert "Select sessions first" in parse(response.content).one("p", css="lead").text


def test_too_many_sessions_at_once_are_refused(client: Client):
    response = client.post(ACTIONS, {"action": "pin", "session": [str(n) for n in range(1, 502)]})
    assert response.status_code == 400
    assert "501 sessions are too many at once" in parse(response.content).one("h1").text


def test_undo_is_refused_if_id_was_reused(client: Client, get: Get):
    story = Story("s1")
    client.post(ACTIONS, {"action": f"delete:{story.pk}"})
    action = get("/sessions/").one("details", css="deleted").one("form").attrs["action"]
    Story("s1")
    response = client.post(action)
    assert response.status_code == 409
    page = parse(response.content)
    assert "another session has its id now" in page.one("h1").text
    assert "then undo again" in page.one("p", css="lead").text


def test_a_session_is_renamed_and_called_by_its_first_text_again(client: Client, get: Get):
    story = Story("s1")
    story.asks("Weather?")
    page = get(f"/sessions/id/{story.pk}/rename/")
    assert page.one("input", name="title").attrs["value"] == ""
    for title, name in (("A <b> day", "A <b> day"), ("", "Weather?")):
        client.post(f"/sessions/id/{story.pk}/rename/", {"title": title})
        assert get("/sessions/").one("a", css="row-link").text == name


def test_too_long_title_shows_error_at_its_field(client: Client):
    story = Story("s1")
    response = client.post(f"/sessions/id/{story.pk}/rename/", {"title": "x" * 201})
    assert response.status_code == 422
    assert parse(response.content).one("input", name="title").attrs["aria-invalid"] == "true"


def test_pinned_sessions_have_their_own_section(get: Get):
    old, new = Story("old"), Story("new")
    new.asks("Hello")
    labels.pin([old.pk])
    pinned, others = get("/sessions/").all("tbody")
    assert [row.attrs["id"] for row in pinned.all("tr")] == [f"session-row-{old.pk}"]
    assert [row.attrs["id"] for row in others.all("tr")] == [f"session-row-{new.pk}"]


def test_tags_and_pins_update_the_row_in_place(get: Get):
    story = Story("s1")
    for change in (lambda: labels.tag([story.pk], "bug"), lambda: labels.pin([story.pk])):
        address = get("/sessions/").one("div", id="watch").attrs["hx-get"]
        change()
        assert get(address).one("tr").attrs["hx-swap-oob"] == "true"


def test_tags_link_to_their_sessions_and_are_counted(get: Get):
    story = Story("s1")
    for name in ("a", "b c", "d", "e", "f", "g"):
        labels.tag([story.pk], name)
    line = get("/sessions/").one("td", css="session-cell")
    assert [tag.text for tag in line.all("a", css="tag")] == ["a", "b c", "d", "e"]
    assert line.all("a", css="tag")[1].attrs["href"] == "/sessions/?q=tag%3A%22b+c%22"
    assert "+2" in line.text


def test_view_is_saved_opened_renamed_replaced_and_deleted(client: Client, get: Get):
    Story("s1")
    page = get("/sessions/?user=ann&before=[9e9,999]")
    keep = page.one("nav", css="views").one("a").attrs["href"]
    form = get(keep)
    assert form.one("input", name="query").attrs["value"] == "user=ann"
    sent = {"name": "Ann", "query": "user=ann"}
    assert client.post("/sessions/views/", sent)["Location"] == "/sessions/?user=ann"
    chip = get("/sessions/?user=ann").one("nav", css="views").one("a", css="chip")
    assert (chip.text, chip.attrs["href"], chip.attrs["aria-current"]) == (
        "Ann",
        "/sessions/?user=ann",
        "page",
    )
    again = client.post("/sessions/views/", {**sent, "query": "user=ben"})
    assert again.status_code == 422
    assert "'Ann' already" in parse(again.content).one("div", css="notice").text
    assert parse(again.content).one("button", name="replace")
    client.post("/sessions/views/", {**sent, "query": "user=ben", "replace": "1"})
    view = SavedView.objects.get()
    assert view.query == "user=ben"
    client.post(f"/sessions/views/{view.pk}/", {"name": "Ben"})
    assert [view.name for view in saved_views.all_views()] == ["Ben"]
    client.post(f"/sessions/views/{view.pk}/", {"name": "Ben", "delete": "1"})
    assert saved_views.all_views() == []


def test_without_a_search_there_is_nothing_to_keep(get: Get):
    page = get("/sessions/views/")
    assert not page.all("input", name="query")
    assert "No search to save" in page.text


def test_a_view_leads_nowhere_else(client: Client):
    client.post("/sessions/views/", {"name": "Mine", "query": "next=https://elsewhere.example/&q=a"})
    assert SavedView.objects.get().query == "q=a"


@pytest.mark.parametrize(
    "name", ["<b>'bold'</b> & \"more\"", "?q=1#x%20/..", "한국 🌦️", "x" * 64, "{{ name }}"]
)
def test_view_with_odd_name_is_saved_opened_and_renamed(client: Client, get: Get, name: str):
    client.post("/sessions/views/", {"name": name, "query": "q=%22a+%26+b%22"})
    view = SavedView.objects.get()
    assert view.name == name
    (chip,) = get("/sessions/").one("nav", css="views").all("a", css="chip")
    assert (chip.text, chip.attrs["href"]) == (name, "/sessions/?q=%22a+%26+b%22")
    row = get("/sessions/views/").one("form", css="view-row")
    assert row.one("input", name="name").attrs["value"] == name
    client.post(f"/sessions/views/{view.pk}/", {"name": f" {name[::-1]} "})
    assert SavedView.objects.get().name == name[::-1]


@pytest.mark.django_db(transaction=True)
async def test_exported_sessions_can_be_imported_again(async_client: AsyncClient, tmp_path: Path):
    def create_sessions() -> list[int]:
        first, second = Story("a/b", {"n": 1, "user:tier": "gold"}), Story("s2")
        first.asks("Hello")
        labels.rename(first.pk, "A rainy day")
        Story("s3")
        return [first.pk, second.pk]

    pks = await units_of_work.write(create_sessions)
    response = await async_client.post(ACTIONS, {"action": "export", "session": pks})
    content = b"".join([chunk async for chunk in response])
    (tmp_path / "sessions.jsonl").write_bytes(content)

    def brought_back() -> tuple[str, int, dict[str, int]]:
        AgentSession.objects.all().delete()
        import_location(str(tmp_path / "sessions.jsonl"))
        session = AgentSession.objects.get(title="A rainy day")
        return session.title, session.last_seq, dict(session.state_rows.values_list("key", "value"))

    assert await units_of_work.write(brought_back) == ("A rainy day", 1, {"n": "1"})


def test_attempts_are_not_exported(client: Client):
    attempt = Story("s1", realm="eval/r/c/1")
    response = client.post(ACTIONS, {"action": "export", "session": [attempt.pk]})
    assert response.status_code == 404


def test_a_script_asks_first_whether_an_export_is_refused(client: Client):
    story, attempt = Story("s1"), Story("s2", realm="eval/r/c/1")
    ready = client.post(ACTIONS, {"action": "export", "session": [story.pk, attempt.pk]}, headers=SCRIPT)
    assert (ready.status_code, "export-ready" in json.loads(ready["HX-Trigger"])) == (204, True)
    refused = client.post(ACTIONS, {"action": "export", "session": [attempt.pk]}, headers=SCRIPT)
    assert refused.status_code == 404
    assert "HX-Trigger" not in refused
    assert "None of these sessions can be exported" in refused.content.decode()
    many = client.post(ACTIONS, {"action": "export", "session": range(1, 502)}, headers=SCRIPT)
    assert (many.status_code, "the maximum is 500" in many.content.decode()) == (400, True)


def test_a_row_shows_how_long_the_session_took(get: Get):
    Story("s1").asks("Hello")
    assert table(get("/sessions/"))[0]["Duration"] == "1.00 s"


def test_the_address_of_a_deleted_session_offers_to_bring_it_back(client: Client, get: Get):
    first, second = Story("s1"), Story("s2")
    client.post(ACTIONS, {"action": "delete", "session": [first.pk, second.pk]})
    for address in ("/sessions/weather/ann/s1/", f"/sessions/id/{first.pk}/"):
        offer = get(address, status=404).one("form", css="notice")
        assert "It was deleted with 1 more" in offer.text
    sent = {"next": offer.one("input", name="next").attrs["value"]}
    back = client.post(offer.attrs["action"], sent)
    assert back["Location"] == f"/sessions/id/{first.pk}/"
    assert get(back["Location"])
    assert not get("/sessions/id/999/", status=404).all("form", css="notice")
