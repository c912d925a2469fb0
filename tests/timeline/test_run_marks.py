"""Status of runs in the timeline: beside the events of their invocations, or alone."""

from __future__ import annotations

import json
import os

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.agent_processes import processes
from sessions_app.console.pause_points import PausePoints
from sessions_app.delivery.failure import NO_FAILURE, Failure
from sessions_app.runs import lifecycle, pauses
from sessions_app.store.models import Run
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.groups import InvocationGroup
from sessions_app.timeline.run_marks import changed_marks, read_session_runs
from sessions_app.timeline.timeline_reader import Timeline, read_timeline
from tests.timeline.session_page import session_path
from tests.timeline.story import Story

Status = Run.Status


def begin(story: Story, text: str = "go") -> Run:
    """Begin a run as a process does, and let its user speak."""
    run = lifecycle.create_run(story.pk, {"new_message": {"role": "user", "parts": [{"text": text}]}})
    if not Run.objects.filter(runtime__isnull=False).exists():
        processes.register("r1", "weather", os.getpid(), "v1")
    assert lifecycle.claim(run.pk, "r1", "v1")
    return run


def create_run(story: Story, text: str, status: str, failure: Failure = NO_FAILURE) -> Run:
    """Tell of a run of two events, in an invocation of its own, and how it ended."""
    run = begin(story, text)
    story.invocation = f"i-{text}"
    story.asks(text)
    story.says(f"{text}, yes")
    lifecycle.record_invocation(run.pk, story.invocation)
    lifecycle.finish(run.pk, status, failure)
    return run


def timeline(story: Story) -> Timeline:
    session = story.session
    return read_timeline(session, windows.newest(session))


def states(groups: list[InvocationGroup]) -> dict[str, list[str]]:
    return {group.invocation_id: [mark.run.status for mark in group.runs] for group in groups}


def test_unsuccessful_runs_are_marked_even_before_newer_successes(story):
    create_run(story, "a", Status.CRASHED, Failure("RuntimeCrashed", "Signal 9."))
    create_run(story, "b", Status.CANCELLED)
    create_run(story, "c", Status.FAILED, Failure("ValueError", "no", "line 7"))
    create_run(story, "d", Status.DONE)
    assert states(timeline(story).groups) == {
        "i-a": ["crashed"],
        "i-b": ["cancelled"],
        "i-c": ["failed"],
        "i-d": [],
    }


def test_mark_shows_status_time_error_and_traceback(story, get):
    run = create_run(story, "a", Status.FAILED, Failure("ValueError", "no <b>", "line 7"))
    Run.objects.filter(pk=run.pk).update(started_at=10.0, finished_at=13.25)
    create_run(story, "b", Status.DONE)
    head = get(session_path(story)).one("li", "invocation", data_invocation="i-a")
    mark = head.one("div", "run-state")
    assert "Failed" in mark.text
    assert "after 3.25 s" in mark.text
    assert "ValueError no <b>" in mark.one("summary").text
    assert mark.one("pre").text == "line 7"


def test_a_traceback_that_an_event_shows_is_not_shown_twice(story, get):
    run = begin(story)
    story.add(errorCode="ValueError", errorMessage="no")
    lifecycle.finish(run.pk, Status.FAILED, Failure("ValueError", "no", "line 7"), invocation_id="i1")
    page = get(session_path(story)).one("ol", id="events")
    assert [pre.text for pre in page.all("pre")] == ["line 7"]
    assert page.text.count("ValueError") == 1
    assert "Failed" in page.one("div", "run-state").text


def test_active_run_is_marked(story):
    run = begin(story)
    story.asks("go")
    lifecycle.record_invocation(run.pk, "i1")
    assert states(timeline(story).groups) == {"i1": ["running"]}


def test_a_run_waits_as_long_as_its_question_is_open(story):
    run = begin(story)
    story.calls("pay", "c1", waiting=True)
    lifecycle.finish(run.pk, Status.WAITING, invocation_id="i1")
    assert states(timeline(story).groups) == {"i1": ["waiting"]}

    story.invocation = "i2"
    story.answers("pay", "c1", author="user")
    assert states(timeline(story).groups) == {"i1": [], "i2": []}


def test_resumed_invocation_lists_each_of_its_runs(story):
    first = begin(story)
    story.asks("go")
    lifecycle.finish(first.pk, Status.CRASHED, invocation_id="i1")
    second = begin(story)
    story.says("there")
    lifecycle.finish(second.pk, Status.DONE, invocation_id="i1")
    assert states(timeline(story).groups) == {"i1": ["crashed", "done"]}


def test_each_attempt_of_an_invocation_shows_its_own_error(story):
    for text in ("one", "two"):
        run = begin(story)
        story.add(errorCode="ValueError", errorMessage=text)
        lifecycle.finish(run.pk, Status.FAILED, Failure("ValueError", text, text), invocation_id="i1")
    lifecycle.finish(begin(story).pk, Status.DONE, invocation_id="i1")
    [group] = timeline(story).groups
    assert [item.run.traceback for item in group.items] == ["one", "two"]
    assert [mark.run.status for mark in group.runs] == ["failed", "failed", "done"]


def test_a_resumed_run_that_is_done_is_news_of_its_invocation(story):
    first = begin(story)
    story.asks("go")
    lifecycle.finish(first.pk, Status.FAILED, Failure("ValueError", ""), invocation_id="i1")
    _, versions = changed_marks(read_session_runs(story.pk), {})
    second = begin(story)
    lifecycle.record_invocation(second.pk, "i1")
    lifecycle.finish(second.pk, Status.DONE)
    [mark], _ = changed_marks(read_session_runs(story.pk), versions)
    assert (mark.run.pk, mark.is_visible) == (second.pk, True)
    create_run(story, "b", Status.DONE)
    marks, _ = changed_marks(read_session_runs(story.pk), {})
    assert [mark.is_visible for mark in marks] == [True, True, False]


def test_waiting_for_a_person_is_no_time_of_the_invocation(story, get):
    call = {"functionCall": {"id": "c1", "name": "pay", "args": {}}}
    story.add(call, longRunningToolIds=["c1"], timestamp=100.0)
    story.add(timestamp=102.5)
    story.answers("pay", "c1", author="user", timestamp=862.5)
    story.says("paid", timestamp=864.0)
    total = timeline(story).groups[0].totals
    assert (total.seconds, total.paused_seconds) == (4.0, 760.0)
    head = get(session_path(story)).one("h2", "invocation-head").text
    assert "4.00 s" in head
    assert "waited 12 min 40 s" in head


def test_the_time_until_somebody_resumes_is_no_time_of_the_invocation(story):
    for began, ended in ((100.0, 103.0), (700.0, 701.0)):
        run = begin(story)
        story.says("so far", timestamp=began + 0.5)
        story.says("and on", timestamp=ended)
        lifecycle.finish(run.pk, Status.FAILED, invocation_id="i1")
        Run.objects.filter(pk=run.pk).update(started_at=began, finished_at=ended)
    total = timeline(story).groups[0].totals
    assert (total.seconds, total.paused_seconds) == (3.5, 597.0)


def test_event_after_a_resume_excludes_the_pause(story):
    for began, ended in ((100.0, 103.0), (700.0, 701.0)):
        run = begin(story)
        story.says("so far", timestamp=began + 0.5)
        story.says("and on", timestamp=ended)
        lifecycle.finish(run.pk, Status.FAILED, invocation_id="i1")
        Run.objects.filter(pk=run.pk).update(started_at=began, finished_at=ended)
    assert [item.elapsed for item in timeline(story).groups[0].items] == [None, 2.5, 0.5, 0.5]


def test_pause_within_a_run_is_shown_and_is_no_time_of_work(story, get):
    run = begin(story)
    story.says("so far", timestamp=100.5)
    story.says("and on", timestamp=161.0)
    times = json.dumps([[100.6, 160.6]])
    Run.objects.filter(pk=run.pk).update(
        invocation_id="i1", started_at=100.0, paused_s=60.0, paused_times=times
    )
    group = timeline(story).groups[0]
    assert (group.totals.seconds, group.totals.paused_seconds) == (0.5, 60.0)
    assert "waited 1 min" in get(session_path(story)).one("h2", "invocation-head").text


def test_paused_run_is_paused_at_its_turn_at_first_and_live(story, get):
    request = {"new_message": None, "pause_at": PausePoints(tool_calls=True).as_json()}
    run = begin(story)
    story.says("so far")
    Run.objects.filter(pk=run.pk).update(invocation_id="i1", request=json.dumps(request))
    _, versions = changed_marks(read_session_runs(story.pk), {})
    pk = pauses.add_pause(run.pk, "tool", "desk", "book", {}, 100.0, 60.0)
    assert get(session_path(story)).one("div", "run-state").text.strip() == "Paused"
    [mark], versions = changed_marks(read_session_runs(story.pk), versions)
    assert mark.is_paused
    pauses.delete_pause(run.pk, pk)
    [mark], _ = changed_marks(read_session_runs(story.pk), versions)
    assert not mark.is_paused


def test_result_of_confirmed_call_excludes_the_wait_for_the_person(story):
    story.add({"functionCall": {"id": "c1", "name": "pay", "args": {}}}, timestamp=100.0)
    story.add({"functionCall": {"id": "c2", "name": "adk_request_confirmation", "args": {}}}, timestamp=100.5)
    story.answers("adk_request_confirmation", "c2", author="user", timestamp=160.5)
    story.answers("pay", "c1", timestamp=161.0)
    elapsed = {item.event.seq: item.elapsed for item in timeline(story).groups[0].items}
    assert elapsed == {1: None, 2: 0.5, 3: 60.0, 4: 1.0}


def test_run_of_dead_process_finds_its_events(story):
    story.says("before")
    run = begin(story)
    story.invocation = "i2"
    story.asks("go")
    lifecycle.crash_runs("r1", "Signal 9.")
    assert Run.objects.get(pk=run.pk).invocation_id == "i2"
    assert states(timeline(story).groups) == {"i1": [], "i2": ["crashed"]}


def test_every_part_of_a_long_invocation_is_marked(story, get):
    run = begin(story)
    for number in range(3 * windows.WINDOW_SIZE):
        story.says(f"event {number}")
    lifecycle.finish(run.pk, Status.CRASHED, Failure("", "Signal 9."), invocation_id="i1")
    for query in ("", f"?before={2 * windows.WINDOW_SIZE}", f"?after={windows.WINDOW_SIZE}"):
        assert "Signal 9." in get(session_path(story, query), target="window").one("div", "run-states").text


def alone(story: Story, text: str, status: str = Status.CRASHED) -> Run:
    """Tell of a run that left no event."""
    run = begin(story, text)
    lifecycle.finish(run.pk, status, Failure("RuntimeCrashed", f"{text} is lost"))
    return run


def order(page) -> list[str]:
    """Return the seqs of the events and the texts of the runs without any, as they stand."""
    elements = [element for element in page if {"data-seq", "data-run-alone"} & element.attrs.keys()]
    return [element.attrs.get("data-seq") or element.one("bdi", "truncate").text for element in elements]


def test_run_without_events_is_placed_by_time(story, get):
    alone(story, "before all")
    create_run(story, "a", Status.DONE)
    alone(story, "between")
    alone(story, "between, too", Status.CANCELLED)
    create_run(story, "b", Status.DONE)
    alone(story, "after all")
    page = get(session_path(story))
    assert order(page) == ["before all", "1", "2", "between", "between, too", "3", "4", "after all"]
    assert "between is lost" in page.text


def test_a_run_without_events_is_shown_in_a_session_without_any(story, get):
    alone(story, "lost")
    page = get(session_path(story))
    assert order(page) == ["lost"]
    assert "No events yet" not in page.text


def test_run_that_never_started_says_so(story, get):
    story.says("one")
    run = lifecycle.create_run(story.pk, {"new_message": {"parts": [{"text": "hello"}]}})
    lifecycle.end_queued(run.pk, Status.CANCELLED)
    page = get(session_path(story)).one("ol", id="events")
    assert order(page) == ["1", "hello"]
    assert "before it began" in page.text


@pytest.mark.parametrize("status", [Status.DONE, Status.WAITING])
def test_successful_run_without_events_is_not_marked(story, status):
    alone(story, "fine", status)
    assert timeline(story).ahead == []


def test_each_page_shows_the_runs_among_its_events_and_no_other(story, get):
    size = windows.WINDOW_SIZE
    alone(story, "at 0")
    for number in range(2 * size + 20):
        story.says(f"event {number}")
        if number + 1 in {20, size + 20, size + 21, 2 * size + 20}:
            alone(story, f"at {number + 1}")
    newest = order(get(session_path(story)))
    older = order(get(session_path(story, f"?before={size + 21}"), target="window"))
    oldest = order(get(session_path(story, "?before=21"), target="window"))
    runs = [[text for text in part if text.startswith("at")] for part in (oldest, older, newest)]
    assert runs == [["at 0", "at 20"], [f"at {size + 20}"], [f"at {size + 21}", f"at {2 * size + 20}"]]


def test_marks_need_one_query_for_any_number_of_runs(story):
    def queries() -> list[str]:
        session = story.session
        window = windows.newest(session)
        with CaptureQueriesContext(connection) as queries:
            read_timeline(session, window)
        return [query["sql"] for query in queries]

    create_run(story, "first", Status.CRASHED, Failure("", "lost"))
    few = queries()
    for number in range(15):
        create_run(story, f"{number}", Status.CRASHED, Failure("", "lost"))
        alone(story, f"alone {number}")
    many = queries()
    assert len(many) == len(few)
    assert sum('FROM "sessions_app_run"' in query for query in many) == 1
