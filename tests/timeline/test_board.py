"""The state board at an event."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.state.board_entries import BoardEntry
from sessions_app.state.key_changes import BRIEF_LENGTH, writer_text
from sessions_app.state.state_board import Board, ClientBoard, read_board, running_run
from sessions_app.store import scopes
from sessions_app.store.events.attribution import Writer
from sessions_app.store.models import Run
from sessions_app.store.sessions import writes
from sessions_app.store.state.history import WRITES_COUNTED
from tests.timeline.story import Story, many_keys


def names(board: Board) -> list[str]:
    return [entry.name for entry in board.entries]


def entry(board: Board, name: str) -> BoardEntry:
    return next(entry for entry in board.entries if entry.name == name)


@pytest.fixture
def session_story(db) -> Story:
    story = Story(initial={"city": "Rome", "app:motd": "hi"})
    story.says("a", delta={"city": "Paris", "user:unit": "C"})
    story.says("b", delta={"count": 1, "temp:draft": "x"}, keep_temp=True)
    story.says("c", delta={"count": 2, "user:unit": "F"})
    return story


def test_the_state_at_an_event_is_that_of_every_scope_then(session_story):
    at = read_board(session_story.session, session_story.event(1))
    assert {entry.name: entry.value for entry in at.entries} == {
        "city": '"Paris"',
        "user:unit": '"C"',
        "app:motd": '"hi"',
    }


def test_the_keys_an_event_wrote_are_marked(session_story):
    at = read_board(session_story.session, session_story.event(1))
    assert [entry.name for entry in at.entries if entry.changed] == ["city", "user:unit"]


def test_board_marks_earlier_and_later_changes(session_story):
    at = read_board(session_story.session, session_story.event(1))
    assert entry(at, "user:unit").since.value == '"F"'
    assert entry(at, "city").since is None
    assert [(late.name, late.since.value) for late in at.later] == [("count", "2")]


def test_a_key_removed_since_has_no_value_now(session_story):
    from sessions_app.store.models import ChangeCause, StateChange

    row = StateChange.objects.get(key="city", seq=1)
    row.pk, row.position, row.seq, row.removed, row.value, row.cause = (
        None,
        4,
        4,
        True,
        None,
        ChangeCause.EDIT,
    )
    row.save()
    session_story.says("d")
    assert entry(read_board(session_story.session, session_story.event(1)), "city").since.value is None
    assert "city" not in names(read_board(session_story.session))


def test_the_state_now_has_nothing_later(session_story):
    now = read_board(session_story.session)
    assert now.seq is None
    assert entry(now, "count").value == "2"
    assert now.later == []
    assert all(entry.since is None for entry in now.entries)
    assert [entry.name for entry in now.entries if entry.changed] == ["count", "user:unit"]


def test_a_key_written_again_as_it_was_has_not_changed_since(session_story):
    session_story.says("d", delta={"count": 1, "city": {"a": 1}})
    session_story.says("e", delta={"count": 1, "city": "Paris"})
    at = read_board(session_story.session, session_story.event(2))
    assert [entry(at, name).since for name in ("count", "city")] == [None, None]
    assert at.changed_since == 1  # `user:unit`


@pytest.mark.parametrize("later", [1.0, True, "1", [1]])
def test_values_of_other_types_are_other_values(session_story, later):
    session_story.says("d", delta={"count": 1})
    session_story.says("e", delta={"count": later})
    at = read_board(session_story.session, session_story.event(4))
    assert entry(at, "count").since.value == scopes.dumps(later)


def test_difference_in_hidden_or_secret_part_is_mentioned(session_story):
    session_story.says("d", delta={"long": "y" * 500, "auth": {"authType": "apiKey", "apiKey": "abc"}})
    session_story.says("e", delta={"long": "y" * 499 + "z", "auth": {"authType": "apiKey", "apiKey": "xyz"}})
    at = read_board(session_story.session, session_story.event(4))
    assert [entry(at, name).since.differs_below for name in ("long", "auth")] == [True, True]
    assert (entry(at, "long").is_cut, entry(at, "auth").is_cut) == (True, False)
    assert at.changed_since == 2


def running(session_story: Story, invocation: str) -> Run:
    return Run.objects.create(
        id="r1",
        session_id=session_story.pk,
        status=Run.Status.RUNNING,
        invocation_id=invocation,
        created_at=1.0,
        started_at=1.0,
    )


def board_now(story: Story) -> Board:
    """Return the current board, as the session page reads it."""
    return read_board(story.session, running=running_run(story.session))


def test_current_state_has_temp_keys_of_the_active_invocation(session_story):
    assert "temp:draft" not in names(board_now(session_story))
    before = board_now(session_story).mark
    run = running(session_story, "i1")
    now = board_now(session_story)
    assert entry(now, "temp:draft").value == '"x"'
    assert now.mark != before
    run.status = Run.Status.DONE
    run.save()
    assert "temp:draft" not in names(board_now(session_story))
    assert board_now(session_story).mark == before


def test_a_run_that_has_no_invocation_yet_shows_no_temp_keys(session_story):
    running(session_story, "")
    assert "temp:draft" not in names(board_now(session_story))


def test_temp_keys_are_ghosts_of_their_own_invocation(session_story):
    assert names(read_board(session_story.session, session_story.event(1))) == [
        "city",
        "user:unit",
        "app:motd",
    ]
    at = read_board(session_story.session, session_story.event(2))
    assert (entry(at, "temp:draft").value, entry(at, "temp:draft").changed) == ('"x"', True)
    assert not entry(read_board(session_story.session, session_story.event(3)), "temp:draft").changed
    session_story.invocation = "i2"
    session_story.says("next")
    assert "temp:draft" not in names(read_board(session_story.session, session_story.event(4)))


def test_every_key_names_its_last_writer(session_story):
    writers = {"user:unit": Writer("tool", "set_unit", "c9", inferred=False)}
    session_story.says("d", delta={"user:unit": "K"}, writers=writers)
    now = read_board(session_story.session)
    assert writer_text(entry(now, "user:unit").writer) == "tool set_unit"
    assert entry(now, "user:unit").event_id == "e4"
    assert entry(now, "city").writer.inferred
    assert writer_text(entry(now, "app:motd").writer) == "seed"


def test_key_written_by_another_session_says_so(session_story):
    other = Story("s2")
    other.says("x", delta={"app:motd": "yo"})
    motd = entry(read_board(session_story.session), "app:motd")
    assert (motd.elsewhere, motd.from_session, motd.session_pk, motd.event_id) == (True, "s2", other.pk, "e1")
    assert not motd.changed


def test_deleted_writer_keeps_its_name(session_story):
    other = Story("s2")
    other.says("x", delta={"app:motd": "yo"})
    writes.delete_session(other.key)
    motd = entry(read_board(session_story.session), "app:motd")
    assert (motd.from_session, motd.session_pk) == ("s2", None)


def test_long_values_are_cut_and_branches_are_named(session_story):
    session_story.says("x", delta={"big": "y" * 9000, "list": [1], "empty": {}, "text": "{not json"})
    now = read_board(session_story.session)
    assert (entry(now, "big").is_cut, entry(now, "big").branches) == (True, False)
    assert {name: entry(now, name).branches for name in ("list", "empty", "text")} == {
        "list": True,
        "empty": False,
        "text": False,
    }


def test_tabs_count_the_keys_of_each_scope(session_story):
    at = read_board(session_story.session, session_story.event(2))
    assert at.tabs() == [
        ("all", 5),
        ("merged", 4),
        ("session", 2),
        ("user", 1),
        ("app", 1),
        ("temp", 1),
    ]


@pytest.mark.parametrize("events", [1, 50])
def test_the_board_costs_the_same_number_of_queries_at_any_length(
    session_story, django_assert_num_queries, events
):
    for number in range(events):
        session_story.says("x", delta={f"k{number}": number, f"user:k{number}": number})
    session, event = session_story.session, session_story.event(session_story.told)
    with django_assert_num_queries(4):
        read_board(session, event)


def untrack(story: Story, invocation: str, *names: str) -> None:
    keys = [writes.UntrackedWrite(name, scopes.canonicalize("own"), '"stored"') for name in names]
    writes.note_untracked(story.key, invocation, keys)


def test_untracked_keys_are_at_the_events_of_their_invocation(session_story):
    untrack(session_story, "i1", "count", "user:unit")
    at = read_board(session_story.session, session_story.event(1))
    assert [(key.name, key.value, key.stored) for key in at.untracked] == [
        ("count", '"own"', '"stored"'),
        ("user:unit", '"own"', '"stored"'),
    ]
    assert "count" not in names(at)
    session_story.invocation = "i2"
    session_story.says("next")
    assert read_board(session_story.session, session_story.event(4)).untracked == []


def test_current_state_shows_losses_of_the_last_invocation(session_story):
    untrack(session_story, "i1", "count")
    assert [key.name for key in read_board(session_story.session).untracked] == ["count"]
    session_story.says("next")
    assert read_board(session_story.session).untracked == []


def test_the_mark_changes_when_a_key_is_noticed(session_story):
    before = read_board(session_story.session).mark
    untrack(session_story, "i1", "count")
    assert read_board(session_story.session).mark != before


def test_key_shows_time_and_number_of_writes_so_far(session_story):
    session_story.says("d", delta={"user:unit": "C"})
    at = read_board(session_story.session, session_story.event(3))
    assert [(entry(at, name).writes, entry(at, name).timestamp) for name in ("user:unit", "count")] == [
        (2, session_story.event(3).timestamp),
        (2, session_story.event(3).timestamp),
    ]
    assert entry(read_board(session_story.session), "user:unit").writes == 3
    assert entry(read_board(session_story.session), "app:motd").writes == 1


def test_writes_are_counted_up_to_a_limit(session_story):
    for number in range(WRITES_COUNTED):
        session_story.says("x", delta={"count": number})
    assert entry(read_board(session_story.session), "count").is_counted_out
    assert not entry(read_board(session_story.session), "city").is_counted_out


def test_of_a_large_value_only_the_beginning_is_read(session_story):
    session_story.says("x", delta={"big": "y" * 100_000})
    with CaptureQueriesContext(connection) as queries:
        big_entry = entry(read_board(session_story.session), "big")
    assert len(big_entry.value) == BRIEF_LENGTH
    assert big_entry.opens
    assert not [
        query for query in queries if re.search(r'(?<!\()"sessions_app_statechange"\."value"', query["sql"])
    ]


# --- What is different from the board that a reader has ---


def whole(board: Board) -> list[list[BoardEntry]]:
    return [column.entries for column in board.columns]


def merge_boards(had: Board, news: Board) -> list[list[BoardEntry]]:
    """Put a board together as a page does: what came by name alone is taken from the one before."""
    values_by_key = {entry.id: entry for column in had.columns for entry in column.entries}
    return [
        [values_by_key[entry.id] if entry.same else entry for entry in column.entries]
        for column in news.columns
    ]


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_board_at_any_event_is_derivable_from_any_other(session_story, limit):
    session_story.invocation = "i2"
    session_story.says("d", delta={"a": 1, "user:unit": "F", "temp:t": 1}, keep_temp=True)
    writes.edit_state(session_story.key, {"b": [1]}, removed=["city"])
    Story("s2").says("x", delta={"app:motd": "yo", "user:new": 1})
    session_story.told += 1
    session_story.says("e", delta={"city": "Oslo"})
    session = session_story.session
    events = [session_story.event(seq) for seq in range(1, session.last_seq + 1)]
    boards = {event.seq: read_board(session, event, limit=limit, watched=["count"]) for event in events}
    for base in events:
        board = ClientBoard(base, boards[base.seq].mark)
        for event in events:
            news = read_board(session, event, limit=limit, watched=["count"], client_board=board)
            assert merge_boards(boards[base.seq], news) == whole(boards[event.seq]), (
                base.seq,
                event.seq,
            )
            assert news.tabs() == boards[event.seq].tabs()
            assert news.hidden == boards[event.seq].hidden


def test_step_sends_changed_keys_and_names_the_rest(session_story):
    board = ClientBoard(session_story.event(2), read_board(session_story.session).mark)
    news = read_board(session_story.session, session_story.event(3), client_board=board)
    assert {entry.id for entry in news.entries if entry.same} == {"city", "app:motd"}
    assert {entry.name for entry in news.entries if not entry.same} == {"count", "user:unit", "temp:draft"}


def test_reader_with_outdated_board_gets_all_of_it(session_story):
    board = ClientBoard(session_story.event(2), read_board(session_story.session).mark)
    Story("s2").says("x", delta={"app:motd": "yo"})
    news = read_board(session_story.session, session_story.event(3), client_board=board)
    assert not [entry for entry in news.entries if entry.same]


@pytest.mark.usefixtures("low_key_limit")
@pytest.mark.parametrize("others", [{}, many_keys()], ids=["few keys", "very many keys"])
def test_hidden_keys_are_counted_at_any_number(session_story, others):
    delta = {f"k{number}": number for number in range(9)} | {"user:unit": "C"}
    session_story.says("d", delta=delta | others)
    writes.edit_state(session_story.key, {"k3": 3}, removed=["k1"])
    session_story.told += 1
    session_story.says("e", delta={"k7": "here", "user:new": 1})
    for event in [None, *map(session_story.event, range(1, session_story.told + 1))]:
        everything, some = (
            read_board(session_story.session, event),
            read_board(session_story.session, event, limit=2),
        )
        assert some.tabs() == everything.tabs()
        assert some.changed_since == everything.changed_since
        assert [len(c.entries) + c.hidden for c in some.columns] == [
            len(c.entries) for c in everything.columns
        ]


@pytest.mark.usefixtures("low_key_limit")
@pytest.mark.parametrize("others", [{}, many_keys()], ids=["few keys", "very many keys"])
def test_keys_are_found_by_part_of_their_name(session_story, others):
    delta = {"unit_price": 1, "a%b": 1, "a_b": 1, "temp:unit": 1}
    session_story.says("d", delta=delta | others, keep_temp=True)
    board = read_board(session_story.session, session_story.event(4), like="UNIT")
    assert names(board) == ["unit_price", "user:unit", "temp:unit"]
    assert board.tabs()[0] == ("all", 3)
    assert names(read_board(session_story.session, like="user:")) == ["user:unit"]
    assert names(read_board(session_story.session, like="%")) == ["a%b"]
    assert names(read_board(session_story.session, like="a_b")) == ["a_b"]
    assert names(read_board(session_story.session, like="nothing")) == []


def test_watched_key_is_separate_if_it_does_not_match_the_search(session_story):
    board = read_board(session_story.session, like="unit", watched=["count", "temp:x", "user:unit"], limit=1)
    assert [(entry.name, entry.is_aside) for entry in board.entries] == [
        ("count", True),
        ("user:unit", False),
    ]
    assert (board.tabs()[0], board.hidden) == (("all", 1), 0)


def test_beyond_the_limit_keys_are_shown_that_changed_or_are_watched(session_story):
    session_story.says("d", delta={f"k{number}": number for number in range(9)})
    session_story.says("e", delta={"k7": "here"})
    now = read_board(session_story.session, limit=3, watched=["k5"])
    assert [entry.key for entry in now.columns[0].entries] == ["city", "count", "k0", "k5", "k7"]
    assert (now.columns[0].hidden, now.columns[0].count) == (6, 11)
