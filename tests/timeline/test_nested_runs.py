"""Nested runs on the session page: under their calls, page by page, with the state that they saw."""

from __future__ import annotations

from typing import Any

import pytest
from django.urls import reverse

from evals_app.runs.replayed_sessions import order_replay
from sessions_app.lookup import find_event
from sessions_app.paths import session_url
from sessions_app.search.execution.event_queries import EventQuery
from sessions_app.search.query.parsing import parse as parse_query
from sessions_app.sessions import deletion
from sessions_app.store import realms
from sessions_app.store.errors import BadInput
from sessions_app.store.models import NestedRun
from sessions_app.store.state.history import state_at
from sessions_app.timeline import event_window as windows
from sessions_app.timeline import nested_events
from sessions_app.timeline.nested_runs import nested_usage, read_nested_runs, runs_changed_after
from tests.pages.html import parse
from tests.timeline.nested_story import add, nest, nested_call, text
from tests.timeline.session_page import event, session_path
from tests.timeline.story import Story


@pytest.fixture
def called(story: Story) -> Story:
    """A session whose second event calls an agent."""
    story.asks("Weather?")
    story.calls("helper", "c1", request="Paris")
    return story


def fragment(client, run: NestedRun, after: int = 0):
    url = reverse("nested-events", kwargs={"pk": run.child_id})
    response = client.get(url, {"after": after} if after else {})
    assert response.status_code == 200
    return parse(f"<ol>{response.content.decode()}</ol>")


def test_nested_run_stands_under_its_call(client, called):
    run = nest(called, "r1")
    add(run, text("Paris?"), author="user")
    add(run, text("Sunny"), usageMetadata={"totalTokenCount": 1_200})
    page = parse(client.get(session_path(called)).content.decode())
    [nested] = event(page, 2).all("details", data_nested=str(run.child_id))
    assert "2 events of agent helper" in nested.text
    assert "1.20k tok" in nested.text
    assert "2.50 s" in nested.text


def test_nested_events_are_loaded_when_the_run_is_opened(client, called):
    run = nest(called, "r1")
    add(run, text("Paris?"), author="user")
    add(run, text("It is sunny"), actions={"stateDelta": {"city": "Paris"}})
    tree = fragment(client, run)
    articles = tree.all("article")
    assert ["Paris?" in articles[0].text, "It is sunny" in articles[1].text] == [True, True]
    assert all("data-seq" not in article.attrs for article in articles)
    assert "city" in articles[1].text
    assert "Paris" in articles[1].text


def test_state_of_a_nested_run_is_its_start_and_its_deltas(client, called):
    run = nest(called, "r1", state={"city": "Rome", "user:n": 1}, state_omitted=2)
    add(run, text("one"), actions={"stateDelta": {"city": "Paris"}})
    add(run, text("two"), actions={"stateDelta": {"city": "Oslo", "new": True}})
    page = nested_events.read_nested_events(run)
    changes = [[(change.name, change.old, change.new) for change in item.changes] for item in page.items]
    assert changes == [
        [("city", '"Rome"', '"Paris"')],
        [("city", '"Paris"', '"Oslo"'), ("new", None, "true")],
    ]
    assert "2 keys of the state at its start not stored" in fragment(client, run).text
    assert state_at(run.child, find_event(run.child, seq=1)).merge_scopes() == {"city": "Paris", "user:n": 1}


def test_events_of_a_nested_run_link_to_the_page_of_its_session(client, called):
    run = nest(called, "r1")
    added = add(run, text("It is sunny"))
    link = fragment(client, run).one("a", css="event-seq").attrs["href"]
    assert link == f"{session_url(run.child)}?event={added.event_id}"
    page = parse(client.get(link).content.decode())
    assert "It is sunny" in event(page, 1).text
    callers = [a for a in page.all("a") if a.attrs.get("href") == f"{session_url(called.session)}?seq=2"]
    assert ["Weather?" in caller.text for caller in callers] == [True, True]
    assert "ran this session. It is read-only." in page.text


def test_long_nested_run_is_shown_page_by_page(client, called):
    size = nested_events.PAGE_SIZE
    run = nest(called, "r1")
    for number in range(size + 3):
        add(run, text(f"text {number}"), actions={"stateDelta": {"n": number}})
    first = fragment(client, run)
    assert len(first.all("article")) == size
    assert "3 more events" in first.text
    second = fragment(client, run, after=size)
    assert [article.text.count(f"text {size}") for article in second.all("article")] == [1, 0, 0]
    assert "State at its start" not in second.text
    page = nested_events.read_nested_events(run, after=size)
    assert page.items[0].changes[0].old == str(size - 1)


def test_page_after_the_newest_event_of_a_running_nested_run_waits_for_the_next(client, called):
    run = nest(called, "r1", finished_at=None)
    add(run, text("one"))
    tree = fragment(client, run, after=1)
    assert not tree.all("button")
    assert tree.one("li", css="nested-next").attrs["hx-get"].endswith("?after=1")


def test_events_that_are_not_stored_are_counted_at_the_end(client, called):
    run = nest(called, "r1")
    add(run, text("one"))
    NestedRun.objects.filter(pk=run.pk).update(event_count=2_001)
    assert "2,000 more events are not stored" in fragment(client, run).text


def test_run_inside_a_nested_run_stands_under_the_nested_call(client, called):
    outer = nest(called, "r1")
    add(outer, nested_call("deep", "d1"), usageMetadata={"totalTokenCount": 10})
    inner = nest(called, "r2", call_id="d1", parent="r1", agent="deep")
    add(inner, text("from the bottom"), usageMetadata={"totalTokenCount": 5})
    page = parse(client.get(session_path(called)).content.decode())
    [nested] = page.all("details", data_nested=str(outer.child_id))
    assert "1 event of nested agents" in nested.text
    assert "15 tok" in nested.text
    assert not page.all("details", data_nested=str(inner.child_id))
    assert fragment(client, outer).one("details", data_nested=str(inner.child_id))
    page_of_outer = parse(client.get(session_url(outer.child)).content.decode())
    assert page_of_outer.one("details", data_nested=str(inner.child_id))


def test_failed_and_running_nested_runs_say_so(client, called):
    failed = nest(called, "r1", error="ValueError: no city")
    running = nest(called, "r2", finished_at=None)
    page = parse(client.get(session_path(called)).content.decode())
    assert "Failed" in page.one("details", data_nested=str(failed.child_id)).text
    assert "Running" in page.one("details", data_nested=str(running.child_id)).text
    assert "ValueError: no city" in fragment(client, failed).text


def test_window_reads_nested_runs_with_one_query(called, django_assert_num_queries):
    for number in range(3):
        nest(called, f"r{number}")
    session = called.session
    events = windows.newest(session).events
    with django_assert_num_queries(1):
        heads = read_nested_runs(session, events)
    assert [head.run.child.session_id for head in heads[2][0]] == ["r0", "r1", "r2"]
    with django_assert_num_queries(0):
        assert read_nested_runs(session, events[:1]) == {}


def test_queries_for_nested_events_do_not_grow_with_their_number(called, django_assert_max_num_queries):
    run = nest(called, "r1")
    for number in range(60):
        add(run, nested_call("deep", f"d{number}"), actions={"stateDelta": {"n": number}})
        nest(called, f"x{number}", call_id=f"d{number}", parent="r1")
    with django_assert_max_num_queries(15):
        nested_events.read_nested_events(run, after=3)


def test_nested_run_whose_call_is_stored_later_is_found_by_its_next_write(story):
    story.asks("Weather?")
    run = nest(story, "r1")
    assert run.caller_seq is None
    story.calls("helper", "c1")
    assert nest(story, "r1").caller_seq == 2


def test_changes_of_nested_runs_come_with_the_runs_around_them(called):
    outer = nest(called, "r1", changed_at=1.0)
    add(outer, nested_call("deep", "d1"))
    nest(called, "r2", call_id="d1", parent="r1", changed_at=5.0)
    nest(called, "r3", call_id="c1", changed_at=1.0)
    heads = runs_changed_after(called.session, 2.0)
    assert [head.run.child.session_id for head in heads] == ["r1", "r2"]
    heads = runs_changed_after(outer.child, 2.0)
    assert [head.run.child.session_id for head in heads] == ["r2"]
    assert runs_changed_after(called.session, 5.0) == []


def test_session_that_is_not_nested_has_no_nested_events(client, called):
    url = reverse("nested-events", kwargs={"pk": called.pk})
    assert client.get(url).status_code == 404


def test_page_of_a_nested_session_says_how_its_run_ended_and_what_is_not_stored(client, called):
    run = nest(called, "r1", error="ValueError: no city", state_omitted=3)
    add(run, text("one"))
    NestedRun.objects.filter(pk=run.pk).update(event_count=42)
    page = parse(client.get(session_url(run.child)).content.decode())
    assert "41 more events are not stored" in page.text
    assert "3 keys of the state at its start not stored" in page.text
    assert "ValueError: no city" in page.text


def test_nested_session_offers_no_replay_no_eval_case_and_no_deletion(client, called):
    run = nest(called, "r1")
    add(run, text("one"), author="user")
    page = parse(client.get(session_url(run.child)).content.decode())
    texts = [link.text for link in page.all("a")]
    assert not {"Replay…", "Make an eval case…", "Delete…"} & set(texts)
    assert "Fork…" in texts
    assert client.get(reverse("session-delete", kwargs={"pk": run.child_id})).status_code == 400
    with pytest.raises(BadInput, match="root agent"):
        order_replay(run.child, [], "recorded", "recorded")
    fork_form = client.get(reverse("session-fork", kwargs={"pk": run.child_id})).content.decode()
    assert "not of <bdi>helper</bdi>" in fork_form


def test_artifacts_of_a_nested_session_are_those_of_the_outer_session(client, called):
    run = nest(called, "r1")
    page = parse(client.get(session_url(run.child)).content.decode())
    [artifacts] = [link for link in page.all("a") if link.text == "artifacts"]
    assert artifacts.attrs["href"] == "/artifacts/?app=weather&user=ann&session=s1"
    answer = client.get(reverse("artifact-of-session", kwargs={"pk": run.child_id}), {"name": "note.txt"})
    assert "session=s1" in answer.headers["Location"]


def test_nested_session_of_a_deleted_session_is_in_no_list(client, called):
    run = nest(called, "r1")
    assert session_url(run.child) in client.get("/sessions/", {"realm": "nested/"}).content.decode()
    deletion.delete([called.pk])
    assert session_url(run.child) not in client.get("/sessions/", {"realm": "nested/"}).content.decode()
    listed = client.get("/api/v1/sessions", {"realm": f"nested/{called.pk}/r1"})
    assert listed.json()["sessions"] == []


def test_nested_session_counts_and_finds_the_runs_that_it_called(client, called):
    outer = nest(called, "r1")
    add(outer, nested_call("deep", "d1"), usageMetadata={"totalTokenCount": 10})
    inner = nest(called, "r2", call_id="d1", parent="r1", agent="deep")
    add(inner, nested_call("look", "l1"), usageMetadata={"totalTokenCount": 5})
    assert (nested_usage(called.session).tokens, nested_usage(outer.child).tokens) == (15, 5)
    matching_events = EventQuery(outer.child, parse_query("tool:look")).matching_events(1, 10)
    assert [event.seq for event in matching_events] == [1]


def test_nested_session_can_neither_be_changed_nor_deleted_alone(called):
    run = nest(called, "r1")
    with pytest.raises(BadInput, match="belongs to a call of another session"):
        realms.refuse_read_only(run.child)
    with pytest.raises(BadInput, match="belongs to a call of session 's1'"):
        deletion.delete([run.child_id])


def test_nested_session_is_hidden_while_the_session_around_it_is_deleted(client, called):
    run = nest(called, "r1")
    deleted = deletion.delete([called.pk])
    assert client.get(session_url(run.child)).status_code == 404
    assert client.get(reverse("nested-events", kwargs={"pk": run.child_id})).status_code == 404
    deletion.undo(deleted.batch.id)
    assert client.get(session_url(run.child)).status_code == 200


def test_rewound_call_keeps_its_nested_runs_inside_the_marked_event(client, called):
    run = nest(called, "r1")
    called.add(actions={"rewindBeforeInvocationId": "i1"})
    page = parse(client.get(session_path(called) + "?seq=2").content.decode())
    call = event(page, 2)
    assert "is-rewound" in call.classes
    assert call.one("details", data_nested=str(run.child_id))


def from_server(state: str) -> dict[str, Any]:
    """Return the metadata of an event that an A2A server sent in a task of this status."""
    return {"customMetadata": {"a2a:task_id": "t1", "a2a:response": {"status": {"state": state}}}}


def test_nested_run_on_another_server_shows_the_status_of_its_task(client, called):
    run = nest(called, "r1")
    add(run, **from_server("TASK_STATE_SUBMITTED"))
    add(run, text("it is Oslo"), **from_server("TASK_STATE_WORKING"))
    add(run, **from_server("input-required"))
    page = fragment(client, run)
    assert [badge.text for badge in page.all("span", class_="badge")] == [
        "remote task: submitted",
        "remote task: input-required",
    ]
    assert "runs on another server (A2A)" in page.text


def test_nested_run_of_this_process_is_not_called_remote(client, called):
    run = nest(called, "r1")
    add(run, text("here"), customMetadata={"a2a:response": "no answer of a server"})
    assert "another server" not in fragment(client, run).text
