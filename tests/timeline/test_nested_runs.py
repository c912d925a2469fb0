"""Nested runs on the session page: under their calls, page by page, with the state that they saw."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.urls import reverse

from sessions_app.store.models import AgentSession, NestedRun
from sessions_app.timeline import event_window as windows
from sessions_app.timeline import nested_events
from sessions_app.timeline.nested_runs import nested_runs_of, runs_changed_after
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
    url = reverse("nested-events", kwargs={"pk": run.session_id, "run": run.pk})
    response = client.get(url, {"after": after} if after else {})
    assert response.status_code == 200
    return parse(f"<ol>{response.content.decode()}</ol>")


def test_nested_run_stands_under_its_call(client, called):
    run = nest(called, "r1", total_tokens=1_200)
    add(run, text("Paris?"), author="user")
    add(run, text("Sunny"))
    page = parse(client.get(session_path(called)).content.decode())
    [nested] = event(page, 2).all("details", data_nested="r1")
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


def test_state_of_a_nested_run_is_its_start_and_its_deltas(called):
    run = nest(called, "r1", state=json.dumps({"city": "Rome", "n": 1}), state_omitted=2)
    add(run, text("one"), actions={"stateDelta": {"city": "Paris"}})
    add(run, text("two"), actions={"stateDelta": {"city": "Oslo", "new": True}})
    page = nested_events.read_nested_events(called.session, NestedRun.objects.get(pk=run.pk))
    assert page.state == {"city": "Rome", "n": 1}
    changes = [[(change.name, change.old, change.new) for change in item.changes] for item in page.items]
    assert changes == [
        [("city", '"Rome"', '"Paris"')],
        [("city", '"Paris"', '"Oslo"'), ("new", None, "true")],
    ]


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
    page = nested_events.read_nested_events(called.session, run, after=size)
    assert page.items[0].changes[0].old == str(size - 1)


def test_events_that_are_not_stored_are_counted_at_the_end(client, called):
    run = nest(called, "r1")
    add(run, text("one"))
    NestedRun.objects.filter(pk=run.pk).update(event_count=2_001)
    assert "2,000 more events are not stored" in fragment(client, run).text


def test_run_inside_a_nested_run_stands_under_the_nested_call(client, called):
    outer = nest(called, "r1", total_tokens=10)
    add(outer, nested_call("deep", "d1"))
    inner = nest(called, "r2", call_id="d1", parent="r1", agent="deep", total_tokens=5)
    add(inner, text("from the bottom"))
    page = parse(client.get(session_path(called)).content.decode())
    [nested] = page.all("details", data_nested="r1")
    assert "1 event of nested agents" in nested.text
    assert "15 tok" in nested.text
    assert not page.all("details", data_nested="r2")
    assert fragment(client, outer).one("details", data_nested="r2")


def test_failed_and_running_nested_runs_say_so(client, called):
    failed = nest(called, "r1", error="ValueError: no city")
    nest(called, "r2", finished_at=None)
    page = parse(client.get(session_path(called)).content.decode())
    assert "Failed" in page.one("details", data_nested="r1").text
    assert "Running" in page.one("details", data_nested="r2").text
    assert "ValueError: no city" in fragment(client, failed).text


def test_window_reads_nested_runs_with_one_query(called, django_assert_num_queries):
    for number in range(3):
        nest(called, f"r{number}")
    session = called.session
    events = windows.newest(session).events
    with django_assert_num_queries(1):
        heads = nested_runs_of(session, events)
    assert [head.run.ref for head in heads[2][0]] == ["r0", "r1", "r2"]
    with django_assert_num_queries(0):
        assert nested_runs_of(session, events[:1]) == {}


def test_nested_events_cost_a_bounded_number_of_queries(called, django_assert_max_num_queries):
    run = nest(called, "r1")
    for number in range(60):
        add(run, nested_call("deep", f"d{number}"), actions={"stateDelta": {"n": number}})
        nest(called, f"x{number}", call_id=f"d{number}", parent="r1")
    session = called.session
    with django_assert_max_num_queries(5):
        nested_events.read_nested_events(session, run, after=3)


def test_nested_run_whose_call_is_stored_later_is_found_by_its_next_write(story):
    story.asks("Weather?")
    run = nest(story, "r1")
    assert run.seq is None
    story.calls("helper", "c1")
    assert nest(story, "r1").seq == 2


def test_changes_of_nested_runs_come_with_the_runs_around_them(called):
    outer = nest(called, "r1", changed_at=1.0)
    nest(called, "r2", call_id="d1", parent="r1", changed_at=5.0)
    nest(called, "r3", call_id="c1", changed_at=1.0)
    heads = runs_changed_after(outer.session_id, 2.0)
    assert [head.run.ref for head in heads] == ["r1", "r2"]
    assert runs_changed_after(outer.session_id, 5.0) == []


def test_json_of_a_nested_event_can_be_read(client, called):
    run = nest(called, "r1")
    add(run, text("hello"))
    ids = {"pk": run.session_id, "run": run.pk}
    body = client.get(reverse("nested-event-json", kwargs={**ids, "number": 1})).json()
    assert body["content"] == {"parts": [{"text": "hello"}]}
    assert client.get(reverse("nested-event-json", kwargs={**ids, "number": 2})).status_code == 404


def test_nested_run_of_another_session_is_not_found(client, called):
    run = nest(called, "r1")
    other = AgentSession.objects.create(app_name="a", user_id="u", session_id="x", created_at=0, updated_at=0)
    url = reverse("nested-events", kwargs={"pk": other.pk, "run": run.pk})
    assert client.get(url).status_code == 404


def test_rewound_call_keeps_its_nested_runs_inside_the_marked_event(client, called):
    nest(called, "r1")
    called.add(actions={"rewindBeforeInvocationId": "i1"})
    page = parse(client.get(session_path(called) + "?seq=2").content.decode())
    call = event(page, 2)
    assert "is-rewound" in call.classes
    assert call.one("details", data_nested="r1")


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
