"""Judgements of people on events, on both databases."""

from __future__ import annotations

import pytest

from sessions_app.branches.fork import NewFork, fork
from sessions_app.sessions import deletion, judgements, purge
from sessions_app.store.errors import BadInput, EventMissing, NotFound, SessionMissing
from sessions_app.store.models import Event, EventJudgement
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.timeline_reader import read_timeline
from tests.timeline.story import Story

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture
def answered_story() -> Story:
    """A session of a question and its answer, event 2."""
    story = Story()
    story.asks("Weather in Paris?")
    story.says("It is sunny.")
    return story


def judged(story: Story, seq: int = 2) -> tuple[str, str, str] | None:
    row = judgements.find_judgement(story.pk, seq)
    return (row.verdict, row.note, row.person) if row else None


def read_shown_judgements(story: Story) -> dict[int, tuple[str, str, str]]:
    """Return the judgements that the timeline shows."""
    timeline = read_timeline(story.session, windows.newest(story.session))
    items = [item for group in timeline.groups for item in group.items if item.judgement]
    return {
        item.event.seq: (item.judgement.verdict, item.judgement.note, item.judgement.person)
        for item in items
        if item.judgement
    }


def test_latest_judgement_of_an_event_counts(answered_story: Story):
    revision, body = answered_story.session.revision, Event.objects.get(seq=2).data
    judgements.judge(answered_story.pk, 2, "good", person="ann")
    judgements.judge(answered_story.pk, 2, "bad", " It rains.\r\nSince noon. ", person="bob")
    assert judged(answered_story) == ("bad", "It rains.\nSince noon.", "bob")
    assert read_shown_judgements(answered_story) == {2: ("bad", "It rains.\nSince noon.", "bob")}
    assert EventJudgement.objects.count() == 1
    assert (answered_story.session.revision, Event.objects.get(seq=2).data) == (revision, body)


def test_equal_judgement_without_a_note_keeps_note_and_person(answered_story: Story):
    judgements.judge(answered_story.pk, 2, "bad", "It rains.", person="ann")
    judgements.judge(answered_story.pk, 2, "bad", person="bob")
    assert judged(answered_story) == ("bad", "It rains.", "ann")
    judgements.judge(answered_story.pk, 2, "good", person="bob")
    assert judged(answered_story) == ("good", "", "bob")


def test_withdrawn_judgement_disappears_from_open_pages(answered_story: Story):
    before = judgements.judge(answered_story.pk, 2, "bad", "It rains.").judged_at
    judgements.withdraw(answered_story.pk, 2)
    assert judged(answered_story) is None
    assert read_shown_judgements(answered_story) == {}
    (change,) = judgements.list_changed_judgements(answered_story.pk, before)
    assert (change.is_withdrawn, change.note) == (True, "")
    with pytest.raises(NotFound, match="Event 2 is not judged"):
        judgements.withdraw(answered_story.pk, 2)
    judgements.judge(answered_story.pk, 2, "good")
    assert judged(answered_story) == ("good", "", "")


@pytest.mark.parametrize(("verdict", "note"), [("odd", ""), ("withdrawn", ""), ("bad", "x" * 2_001)])
def test_unknown_judgement_and_too_long_note_are_refused(answered_story: Story, verdict: str, note: str):
    with pytest.raises(BadInput):
        judgements.judge(answered_story.pk, 2, verdict, note)
    assert judged(answered_story) is None


def test_only_events_of_existing_sessions_can_be_judged(answered_story: Story):
    with pytest.raises(EventMissing, match="has no event 3"):
        judgements.judge(answered_story.pk, 3, "good")
    judgements.judge(answered_story.pk, 2, "good")
    deletion.delete([answered_story.pk])
    with pytest.raises(SessionMissing):
        judgements.judge(answered_story.pk, 2, "bad")
    with pytest.raises(SessionMissing):
        judgements.withdraw(answered_story.pk, 2)


def test_deleted_session_comes_back_with_its_judgements(answered_story: Story):
    judgements.judge(answered_story.pk, 2, "bad", "It rains.")
    done = deletion.delete([answered_story.pk])
    assert done.batch
    deletion.undo(done.batch.id)
    assert judged(answered_story) == ("bad", "It rains.", "")
    done = deletion.delete([answered_story.pk])
    assert done.batch
    purge.remove_deleted(done.batch.deleted_at + 1)
    assert not EventJudgement.objects.exists()


def test_fork_starts_without_judgements(answered_story: Story):
    judgements.judge(answered_story.pk, 2, "bad", "It rains.")
    copy = fork(answered_story.pk, NewFork(seq=2))
    assert judgements.find_judgement(copy.pk, 2) is None
    assert judged(answered_story) == ("bad", "It rains.", "")


def test_judged_change_of_state_is_not_folded(answered_story: Story):
    for number in range(3):
        answered_story.add(delta={"n": number})
    judgements.judge(answered_story.pk, 4, "bad")
    timeline = read_timeline(answered_story.session, windows.newest(answered_story.session), folds=True)
    seqs = [row.seqs for group in timeline.groups for row in group.rows]
    assert [4] in [list(each) for each in seqs]
