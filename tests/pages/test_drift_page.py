"""Drift page of a session, and a key's history as a page."""

from __future__ import annotations

import pytest

from sessions_app.store import scopes
from sessions_app.store.models import SessionState, StateChange
from sessions_app.store.sessions import writes
from sessions_app.store.state import drift
from tests.pages.client import Get
from tests.pages.html import Element
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def keys(page: Element) -> dict[str, str]:
    return {item.attrs["data-key"]: item.text for item in page.all("li") if "data-key" in item.attrs}


def test_page_without_drift_says_so(get: Get):
    story = Story()
    story.says("a", delta={"n": 1})
    assert "No drift" in get(f"/sessions/id/{story.pk}/state/drift/").text


def test_a_page_names_every_key_with_its_values_its_cause_and_its_writer(get: Get):
    story, other = Story("s1", {"seeded": 1}), Story("s2")
    story.says("a", delta={"user:n": 1, "gone": 1})
    other.says("x", delta={"user:n": [2]})
    writes.edit_state(story.key, {}, removed=["gone"])
    page = get(f"/sessions/id/{story.pk}/state/drift/")
    rows = keys(page)
    assert "No drift" in page.text
    assert (
        page.one("h2", id="explained-title").text
        == "3 keys set by something other than this session's events"
    )
    assert "removed by hand events null stored no value" in rows["gone"]
    assert "initial state events say nothing stored 1" in rows["seeded"]
    assert "written by another session events 1 stored [2]" in rows["user:n"]
    assert "event 1 of s2" in rows["user:n"]
    assert not page.all("div", "notice-danger")


def test_a_row_changed_by_something_else_is_an_alarm(get: Get):
    story = Story()
    story.says("a", delta={"n": 1})
    SessionState.objects.update(value="2")
    page = get(f"/sessions/id/{story.pk}/state/drift/")
    assert "1 key was changed by something other than DevUI" in page.one("div", "notice-danger").text
    assert page.one("h2", id="drift-title").text == "1 key has drifted"
    assert not [title for title in page.all("h2") if title.attrs.get("id") == "explained-title"]


def test_untracked_changes_are_listed_and_removed_key_has_no_value(get: Get):
    story = Story()
    story.says("a", delta={"n": 1})
    changes = [
        writes.UntrackedWrite("n", None, "1"),
        writes.UntrackedWrite("new", scopes.canonicalize({"a": 1}), None),
    ]
    writes.note_untracked(story.key, "i1", changes)
    page = get(f"/sessions/id/{story.pk}/state/drift/")
    assert "1 → no value" in keys(page)["n"]
    assert 'no value → {"a":1}' in keys(page)["new"]
    board = get(f"/sessions/id/{story.pk}/")
    marked = [entry for entry in board.all("li", "entry") if "data-untracked" in entry.attrs]
    assert [entry.attrs["data-key"] for entry in marked] == ["n", "new"]
    assert "untracked: lost after this invocation" in marked[0].text


def test_every_untracked_key_is_listed_or_counted(get: Get):
    story = Story()
    story.says("a")
    count = drift.MAX_UNTRACKED + 3
    writes.note_untracked(
        story.key, "i1", [writes.UntrackedWrite(f"k{number:03}", None, "1") for number in range(count)]
    )
    page = get(f"/sessions/id/{story.pk}/state/drift/")
    assert len(keys(page)) == drift.MAX_UNTRACKED
    assert "and 3 older keys" in page.text


def test_menu_of_points_in_time_links_to_drift(get: Get):
    story = Story()
    story.says("a")
    [link] = [a for a in get(f"/sessions/id/{story.pk}/").all("a") if "drift" in a.attrs.get("href", "")]
    assert link.attrs["href"] == f"/sessions/id/{story.pk}/state/drift/"


def test_drift_of_deleted_session_is_404(get: Get):
    get("/sessions/id/999/state/drift/", status=404)


def test_page_of_many_keys_counts_hidden_ones(get: Get):
    story = Story(initial={f"k{number:03}": number for number in range(130)})
    page = get(f"/sessions/id/{story.pk}/state/drift/")
    assert len(keys(page)) == 100
    assert "30 more keys" in page.text


def test_a_history_names_causes_versions_calls_and_removals(get: Get):
    story = Story(initial={"user:n": 0})
    writers = {"user:n": writes.Writer("tool", "count", "call-7", inferred=False)}
    story.says("a", delta={"user:n": 1}, writers=writers)
    writes.edit_state(story.key, {"user:n": 2})
    writes.edit_state(story.key, {}, removed=["user:n"])
    story.says("b", delta={"user:n": 3})
    pk = StateChange.objects.order_by("-pk").values_list("pk", flat=True)[0]
    texts = [
        item.text for item in get(f"/state/history/{pk}/").one("ol", "history").all("li") if item.all("p")
    ]
    assert ["version 5" in texts[0], "the key was new" in texts[0], "event 4 of s1" in texts[0]] == [True] * 3
    assert ["removed" in texts[1], "edited by hand" in texts[1]] == [True, True]
    assert "edited by hand" in texts[2]
    assert ["count" in texts[3], "call call-7" in texts[3]] == [True, True]
    assert ["initial state" in texts[4], "the key was new" in texts[4]] == [True, True]


def test_history_of_shared_key_can_be_limited_to_one_session(get: Get):
    story, other = Story("s1"), Story("s2")
    for number in range(25):
        (story if number % 2 else other).says("x", delta={"app:n": number})
    change = StateChange.objects.filter(session_id=story.pk).latest("pk")
    page = get(f"/state/history/{change.pk}/?here={story.pk}")
    assert len([item for item in page.one("ol", "history").all("li") if item.all("p")]) == 12
    whole = get(f"/state/history/{change.pk}/")
    assert len([item for item in whole.one("ol", "history").all("li") if item.all("p")]) == 20
    older = whole.one("p", "dialog-foot").one("a").attrs["href"]
    rest = get(f"/state/history/{change.pk}/{older}")
    assert len([item for item in rest.one("ol", "history").all("li") if item.all("p")]) == 5


def test_history_of_a_shared_key_names_the_session_it_was_opened_from(get: Get):
    story, other = Story("s1"), Story("s2")
    story.says("x", delta={"app:n": 1})
    other.says("x", delta={"app:n": 2})
    [entry] = [item for item in get(f"/sessions/id/{story.pk}/").all("li", "entry") if "app:n" in item.text]
    address = next(a.attrs["href"] for a in entry.all("a") if a.text == "history")
    page = get(address)
    [only] = [a for a in page.all("a") if a.text.startswith("only")]
    assert (only.text, only.attrs["href"]) == ("only s1", f"?here={story.pk}")
    filtered_page = get(address.split("?")[0] + only.attrs["href"])
    assert "only s1" in filtered_page.text
    assert ["event 1 of s1" in filtered_page.text, "event 1 of s2" in filtered_page.text] == [True, False]
    [every] = [a for a in filtered_page.all("a") if a.text == "All sessions"]
    assert every.attrs["href"] == f"?session={story.pk}"


def test_history_of_a_shared_key_ignores_a_session_that_does_not_read_it(get: Get):
    story, stranger = Story("s1"), Story("s9", user="bob", app="other")
    story.says("x", delta={"app:n": 1})
    pk = StateChange.objects.get(key="n").pk
    assert "only s1" in get(f"/state/history/{pk}/?session={stranger.pk}").text
    assert "only s1" in get(f"/state/history/{pk}/?session=999999").text


def test_history_of_an_app_key_names_the_users(get: Get):
    story, other = Story("s1"), Story("s2", user="bob")
    story.says("x", delta={"app:n": 1})
    other.says("x", delta={"app:n": 2})
    pk = StateChange.objects.filter(key="n").latest("pk").pk
    first, second = [item.text for item in get(f"/state/history/{pk}/").one("ol", "history").all("li")][:2]
    assert ["by bob" in first, "by ann" in second] == [True, True]


def test_a_history_reads_of_a_large_value_only_the_beginning(get: Get):
    story = Story()
    story.says("a", delta={"big": {"text": "y" * 100_000}})
    change = StateChange.objects.get(key="big")
    item = get(f"/state/history/{change.pk}/").one("ol", "history").all("li")[0]
    closed = item.one("details")
    assert (closed.attrs["hx-get"], len(closed.one("summary").text)) == (f"/state/values/{change.pk}/", 160)


@pytest.mark.parametrize("writes_made", [3, 60])
def test_a_history_costs_the_same_number_of_queries_at_any_length(
    client, django_assert_num_queries, writes_made
):
    story = Story()
    for number in range(writes_made):
        story.says("a", delta={"n": number})
    change = StateChange.objects.latest("pk")
    with django_assert_num_queries(3):
        client.get(
            f"/state/history/{change.pk}/", headers={"HX-Request": "true", "HX-Target": "dialog-content"}
        )
