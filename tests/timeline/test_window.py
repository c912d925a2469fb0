"""Windows of events: first and last rows around a cursor."""

from __future__ import annotations

import pytest

from sessions_app import lookup
from sessions_app.store.errors import EventMissing
from sessions_app.store.models import Event
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.event_window import EventWindow


@pytest.fixture
def ten(story):
    for number in range(1, 11):
        story.says(f"event {number}")
    return story.session


def seqs(window: EventWindow) -> list[int]:
    return [event.seq for event in window.events]


def test_a_session_opens_at_its_end(ten):
    window = windows.newest(ten, limit=4)
    assert seqs(window) == [7, 8, 9, 10]
    assert (window.has_older, window.has_newer, window.cursor) == (True, False, 10)


def test_older_events_end_just_before_the_cursor(ten):
    window = windows.before(ten, 7, limit=4)
    assert seqs(window) == [3, 4, 5, 6]
    assert (window.has_older, window.has_newer) == (True, True)
    assert not windows.before(ten, 3, limit=4).has_older


def test_newer_events_start_just_after_the_cursor(ten):
    window = windows.after(ten, 6, limit=4)
    assert seqs(window) == [7, 8, 9, 10]
    assert not window.has_newer


@pytest.mark.parametrize(
    ("seq", "expected"), [(1, [1, 2, 3, 4]), (5, [3, 4, 5, 6]), (9, [7, 8, 9, 10]), (10, [7, 8, 9, 10])]
)
def test_a_window_around_an_event_is_always_full(ten, seq, expected):
    assert seqs(windows.around(ten, seq, limit=4)) == expected


def test_window_in_the_past_continues_to_the_end(ten):
    assert windows.around(ten, 2, limit=4).cursor == 10


def test_an_empty_session_has_an_empty_window(story):
    window = windows.newest(story.session)
    assert (window.events, window.has_older, window.has_newer, window.cursor) == ([], False, False, 0)


def test_rows_of_a_window_leave_bodies_in_the_store(ten):
    for event in windows.newest(ten).events:
        assert {"data", "private"} <= event.get_deferred_fields()


def test_event_is_found_by_id_or_seq(ten):
    assert lookup.find_event(ten, event_id="e3").seq == 3
    assert lookup.find_event(ten, seq=4).event_id == "e4"
    for which in ({"event_id": "nobody"}, {"seq": 11}):
        with pytest.raises(EventMissing, match="has no event"):
            lookup.find_event(ten, **which)


def test_totals_count_the_whole_invocation_though_the_window_holds_a_part(story):
    story.says("one", usageMetadata={"totalTokenCount": 10})
    story.says("two", usageMetadata={"totalTokenCount": 5})
    story.says("three")
    window = windows.newest(story.session, limit=1)
    total = windows.sum_invocations(story.session, window.events)["i1"]
    assert (total.first_seq, total.last_seq, total.events, total.tokens) == (1, 3, 3, 15)
    assert total.seconds == pytest.approx(2.0)
    assert not total.cut


def test_totals_of_endless_invocation_are_bounded_and_say_so(story):
    for _ in range(6):
        story.says("more")
    [last] = windows.newest(story.session, limit=1).events
    total = windows.sum_invocations(story.session, [last], reach=2)["i1"]
    assert (total.events, total.cut) == (3, True)


def test_window_needs_one_query_for_any_length(ten, django_assert_num_queries):
    with django_assert_num_queries(1):
        windows.newest(ten)
    Event.objects.filter(session=ten)
    with django_assert_num_queries(1):
        windows.around(ten, 5)
