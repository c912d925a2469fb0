"""Sessions that wait for an answer are marked in lists until it is given."""

from __future__ import annotations

import pytest

from sessions_app.branches.rewind import rewind
from sessions_app.console.questions import find_question
from sessions_app.runs import lifecycle
from sessions_app.sessions import listing
from sessions_app.store.models import AgentSession, Run
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.timeline_reader import read_timeline
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def waiting(story: Story, invocation: str, call: str) -> Run:
    """Return a run that waits for the answer to a call it has made."""
    run = lifecycle.create_run(story.pk, {})
    lifecycle.claim(run.pk, None, "v1")
    story.invocation = invocation
    story.calls("ask_boss", call, waiting=True)
    lifecycle.finish(run.pk, Run.Status.WAITING, invocation_id=invocation)
    return run


def completed_run(story: Story, invocation: str) -> Run:
    """Return a run that ended well."""
    run = lifecycle.create_run(story.pk, {})
    lifecycle.claim(run.pk, None, "v1")
    lifecycle.finish(run.pk, Run.Status.DONE, invocation_id=invocation)
    return run


def status(run: Run) -> str:
    return Run.objects.get(pk=run.pk).status


def listed_status() -> str | None:
    """Return how the one session stands in lists."""
    return listing.with_run_status(AgentSession.objects.all()).get().run_status


def test_session_waits_until_all_questions_are_answered():
    story = Story()
    assert listed_status() is None
    first, second = waiting(story, "i1", "c1"), waiting(story, "i2", "c2")
    completed_run(story, "i3")
    assert (status(first), status(second), listed_status()) == ("waiting", "waiting", "waiting")

    story.answers("ask_boss", "c1", author="user")
    story.invocation = "i1"
    story.answers("ask_boss", "c1", author="user")
    completed_run(story, "i1")
    assert (status(first), status(second), listed_status()) == ("done", "waiting", "waiting")

    story.invocation = "i2"
    story.answers("ask_boss", "c2", author="user")
    completed_run(story, "i2")
    assert (status(second), listed_status()) == ("done", "done")


def test_active_run_is_shown_before_waiting_run():
    story = Story()
    waiting(story, "i1", "c1")
    lifecycle.create_run(story.pk, {})
    assert listed_status() == "queued"


def test_waiting_runs_of_other_sessions_are_left_alone():
    story, other = Story("s1"), Story("s2")
    run = waiting(story, "i1", "c1")
    story.answers("ask_boss", "c1", author="user")
    completed_run(other, "i1")
    assert status(run) == "waiting"


def test_rewound_questions_are_not_open():
    story = Story()
    before = waiting(story, "i1", "c1")
    taken_back = waiting(story, "i2", "c2")
    rewind(story.pk, invocation_id="i2")
    assert (status(before), status(taken_back), listed_status()) == ("waiting", "done", "waiting")
    session = story.session
    assert find_question(session, "c1") is not None
    assert find_question(session, "c2") is None
    items = [item for group in read_timeline(session, windows.newest(session)).groups for item in group.items]
    assert {item.event.seq: len(item.questions) for item in items if item.calls} == {1: 1, 2: 0}
