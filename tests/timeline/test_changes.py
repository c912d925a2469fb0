"""The state delta of each event."""

from __future__ import annotations

import pytest

from sessions_app.state.key_changes import BRIEF_LENGTH, KeyChange, read_key_changes, writer_text
from sessions_app.state.state_board import read_board
from sessions_app.store.events import build_record
from sessions_app.store.events.attribution import Writer
from sessions_app.store.models import ChangeCause
from sessions_app.store.sessions.writes import append_event, edit_state
from sessions_app.timeline import event_window as windows
from tests.timeline.story import Story


def of(story: Story, seq: int, **fields) -> dict[str, KeyChange]:
    session = story.session
    changes = read_key_changes(session, windows.newest(session).events, **fields)
    return {change.name: change for change in changes.get(seq, [])}


def test_every_key_shows_its_old_and_its_new_value_by_scope(db):
    story = Story(initial={"city": "Rome", "user:unit": "C", "app:calls": 1})
    seq = story.says("hi", delta={"city": "Paris", "user:unit": "F", "app:calls": 2, "seen": True})

    changes = of(story, seq)

    assert {name: (change.scope, change.old, change.new) for name, change in changes.items()} == {
        "city": ("session", '"Rome"', '"Paris"'),
        "user:unit": ("user", '"C"', '"F"'),
        "app:calls": ("app", "1", "2"),
        "seen": ("session", None, "true"),
    }


def test_old_value_of_shared_key_is_from_another_session(db):
    first, second = Story("s1"), Story("s2")
    first.says("hi", delta={"user:unit": "C"})
    seq = second.says("hi", delta={"user:unit": "F"})
    assert of(second, seq)["user:unit"].old == '"C"'


def test_a_key_that_held_null_is_not_a_new_key(story):
    story.says("a", delta={"x": None})
    seq = story.says("b", delta={"x": 1})
    assert of(story, seq)["x"].old == "null"


def test_a_removed_key_has_no_new_value_and_is_new_when_it_comes_back(story):
    story.says("a", delta={"x": 1})
    removal, _ = edit_state(story.key, {}, removed={"x"})
    back, _ = edit_state(story.key, {"x": 2})
    assert (of(story, removal.seq)["x"].old, of(story, removal.seq)["x"].new) == ("1", None)
    assert (of(story, back.seq)["x"].old, of(story, back.seq)["x"].new) == (None, "2")


def test_key_is_removed_by_its_original_name(story):
    story.says("a", delta={"a\x00b": 1})
    removal, _ = edit_state(story.key, {}, removed={"a\x00b"})
    change = of(story, removal.seq)["a\N{REPLACEMENT CHARACTER}b"]
    assert (change.old, change.new) == ("1", None)


def test_a_value_written_again_is_marked(story):
    story.says("a", delta={"x": 1})
    seq = story.says("b", delta={"x": 1})
    assert of(story, seq)["x"].is_repeated


def test_long_values_are_cut_in_rows_and_whole_on_request(story):
    seq = story.says("a", delta={"x": "y" * 10_000})
    assert len(of(story, seq)["x"].new) == BRIEF_LENGTH
    assert of(story, seq)["x"].new.endswith("…")
    assert len(of(story, seq, length=0)["x"].new) == 10_002


def test_recorded_temp_keys_are_beside_stored_ones(story):
    seq = story.says("a", delta={"x": 1, "temp:draft": "…"}, keep_temp=True)
    assert [(change.name, change.scope) for change in of(story, seq).values()] == [
        ("x", "session"),
        ("temp:draft", "temp"),
    ]


def test_the_recorder_names_the_writer(story):
    writers = {"x": Writer("tool", "get_weather", "c1", inferred=False)}
    seq = story.says("a", delta={"x": 1}, writers=writers)
    writer = of(story, seq)["x"].writer
    assert (writer_text(writer), writer.call_id, writer.inferred) == ("tool get_weather", "c1", False)


def test_without_the_recorder_the_tool_of_a_result_is_inferred(story):
    story.calls("get_weather", "c1", city="Paris")
    seq = story.answers("get_weather", "c1", delta={"city": "Paris"})
    writer = of(story, seq)["city"].writer
    assert (writer_text(writer), writer.call_id, writer.inferred) == ("tool get_weather", "c1", True)


@pytest.mark.parametrize("author", ["user", "system", "agent"])
def test_a_delta_without_a_recorder_names_its_author(story, author):
    seq = story.says("a", author=author, delta={"x": 1})
    change = of(story, seq)["x"]
    assert (change.who, change.is_inferred) == (f"delta by {author}", True)


def test_an_explicit_delta_that_the_recorder_saw_names_its_author(story):
    writers = {"x": Writer("delta", inferred=False)}
    seq = story.says("a", author="system", delta={"x": 1}, writers=writers)
    change = of(story, seq)["x"]
    assert (change.who, change.is_inferred) == ("delta by system", False)


def test_rewind_by_adk_is_recognized(story):
    event = {"id": "r", "author": "user", "timestamp": 1.0, "actions": {"rewindBeforeInvocationId": "i1"}}
    append_event(story.key, build_record(event, delta={"x": None}), cause=ChangeCause.REWIND)
    change = of(story, 1)["x"]
    assert (change.who, change.is_inferred) == ("rewind by user", False)
    [entry] = read_board(story.session).entries
    assert (entry.who, entry.is_inferred) == ("rewind by user", False)


def test_only_a_write_without_author_has_an_unknown_writer():
    assert writer_text(Writer()) == "unknown writer"


def test_an_edit_by_hand_is_no_guess(story):
    edit_state(story.key, {"x": 1})
    change = of(story, 1)["x"]
    assert (writer_text(change.writer), change.writer.inferred, change.cause) == ("user", False, "edit")


@pytest.mark.parametrize("events", [1, 40])
def test_the_changes_of_a_window_cost_one_query(story, django_assert_num_queries, events):
    for number in range(events):
        story.says("a", delta={"n": number, "user:n": number, "temp:n": number}, keep_temp=True)
    rows = windows.newest(story.session).events
    session = story.session
    with django_assert_num_queries(1):
        assert len(read_key_changes(session, rows)) == events
