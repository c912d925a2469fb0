"""The state at an event."""

from __future__ import annotations

import pytest

from sessions_app import state, writes
from sessions_app.timeline.board import Board, Entry, board
from sessions_app.timeline.changes import writer_text
from sessions_app.wire import Writer
from tests.timeline.story import Story


def names(shown: Board) -> list[str]:
    return [entry.name for entry in shown.entries]


def entry(shown: Board, name: str) -> Entry:
    return next(entry for entry in shown.entries if entry.name == name)


@pytest.fixture
def told(db) -> Story:
    story = Story(initial={"city": "Rome", "app:motd": "hi"})
    story.says("a", delta={"city": "Paris", "user:unit": "C"})
    story.says("b", delta={"count": 1, "temp:draft": "x"}, keep_temp=True)
    story.says("c", delta={"count": 2, "user:unit": "F"})
    return story


def test_the_state_at_an_event_is_that_of_every_scope_then(told):
    at = board(told.session, told.event(1))
    assert {entry.name: entry.value for entry in at.entries} == {
        "city": '"Paris"',
        "user:unit": '"C"',
        "app:motd": '"hi"',
    }


def test_the_keys_an_event_wrote_are_marked(told):
    at = board(told.session, told.event(1))
    assert [entry.name for entry in at.entries if entry.changed] == ["city", "user:unit"]


def test_what_changed_since_and_what_came_later_is_told(told):
    at = board(told.session, told.event(1))
    assert entry(at, "user:unit").since.value == '"F"'
    assert entry(at, "city").since is None
    assert [(late.name, late.since.value) for late in at.later] == [("count", "2")]


def test_a_key_removed_since_has_no_value_now(told):
    from sessions_app.models import Cause, StateChange

    row = StateChange.objects.get(key="city", seq=1)
    row.pk, row.position, row.seq, row.removed, row.value, row.cause = None, 4, 4, True, None, Cause.EDIT
    row.save()
    told.says("d")
    assert entry(board(told.session, told.event(1)), "city").since.value is None
    assert "city" not in names(board(told.session))


def test_the_state_now_has_nothing_later(told):
    now = board(told.session)
    assert now.seq is None
    assert entry(now, "count").value == "2"
    assert now.later == []
    assert all(entry.since is None for entry in now.entries)
    assert [entry.name for entry in now.entries if entry.changed] == ["count", "user:unit"]


def test_temp_keys_are_ghosts_of_their_own_invocation(told):
    assert names(board(told.session, told.event(1))) == ["city", "user:unit", "app:motd"]
    at = board(told.session, told.event(2))
    assert (entry(at, "temp:draft").value, entry(at, "temp:draft").changed) == ('"x"', True)
    assert not entry(board(told.session, told.event(3)), "temp:draft").changed
    told.invocation = "i2"
    told.says("next")
    assert "temp:draft" not in names(board(told.session, told.event(4)))


def test_every_key_names_its_last_writer(told):
    writers = {"user:unit": Writer("tool", "set_unit", "c9", inferred=False)}
    told.says("d", delta={"user:unit": "K"}, writers=writers)
    now = board(told.session)
    assert writer_text(entry(now, "user:unit").writer) == "tool set_unit"
    assert entry(now, "user:unit").event_id == "e4"
    assert entry(now, "city").writer.inferred
    assert writer_text(entry(now, "app:motd").writer) == "seed"


def test_a_key_written_by_another_session_says_so(told):
    other = Story("s2")
    other.says("x", delta={"app:motd": "yo"})
    motd = entry(board(told.session), "app:motd")
    assert (motd.elsewhere, motd.from_session, motd.session_pk, motd.event_id) == (True, "s2", other.pk, "e1")
    assert not motd.changed


def test_a_writer_that_was_deleted_keeps_its_name(told):
    other = Story("s2")
    other.says("x", delta={"app:motd": "yo"})
    writes.delete_session(other.key)
    motd = entry(board(told.session), "app:motd")
    assert (motd.from_session, motd.session_pk) == ("s2", None)


def test_long_values_are_cut_and_branches_are_known(told):
    told.says("x", delta={"big": "y" * 9000, "list": [1], "empty": {}, "text": "{not json"})
    now = board(told.session)
    assert (entry(now, "big").is_cut, entry(now, "big").branches) == (True, False)
    assert {name: entry(now, name).branches for name in ("list", "empty", "text")} == {
        "list": True,
        "empty": False,
        "text": False,
    }


def test_tabs_count_the_keys_of_each_scope(told):
    at = board(told.session, told.event(2))
    assert at.tabs() == [
        ("all", 5),
        ("merged", 4),
        ("session", 2),
        ("user", 1),
        ("app", 1),
        ("temp", 1),
    ]


@pytest.mark.parametrize("events", [1, 50])
def test_the_board_costs_the_same_number_of_queries_at_any_length(told, django_assert_num_queries, events):
    for number in range(events):
        told.says("x", delta={f"k{number}": number, f"user:k{number}": number})
    session, event = told.session, told.event(told.told)
    with django_assert_num_queries(12):
        board(session, event)


def untrack(story: Story, invocation: str, *names: str) -> None:
    keys = [writes.Untracked(name, state.canonical("own"), '"stored"') for name in names]
    writes.note_untracked(story.key, invocation, keys)


def test_keys_changed_without_an_event_stand_at_the_events_of_their_invocation(told):
    untrack(told, "i1", "count", "user:unit")
    at = board(told.session, told.event(1))
    assert [(key.name, key.value, key.stored) for key in at.untracked] == [
        ("count", '"own"', '"stored"'),
        ("user:unit", '"own"', '"stored"'),
    ]
    assert "count" not in names(at)
    told.invocation = "i2"
    told.says("next")
    assert board(told.session, told.event(4)).untracked == []


def test_the_state_now_shows_what_the_invocation_lost_that_ended_last(told):
    untrack(told, "i1", "count")
    assert [key.name for key in board(told.session).untracked] == ["count"]
    told.says("next")
    assert board(told.session).untracked == []


def test_the_mark_changes_when_a_key_is_noticed(told):
    before = board(told.session).mark
    untrack(told, "i1", "count")
    assert board(told.session).mark != before
