"""What a timeline shows of its events."""

from __future__ import annotations

import pytest

from sessions_app.models import Run
from sessions_app.runs import rows
from sessions_app.timeline import window as windows
from sessions_app.timeline.items import Group, Item
from sessions_app.timeline.reading import read
from tests.timeline.story import START, Story


def timeline(story: Story) -> list[Group]:
    session = story.session
    return read(session, windows.newest(session)).groups


def layout(groups: list[Group]) -> list[list[list[int]]]:
    """Return groups of rows of seqs."""
    return [[[row.head.event.seq, *(a.event.seq for a in row.answers)] for row in g.rows] for g in groups]


def items(story: Story) -> dict[int, Item]:
    return {
        item.event.seq: item
        for group in timeline(story)
        for row in group.rows
        for item in [row.head, *row.answers]
    }


def test_a_call_and_its_result_are_one_row(story):
    story.asks("Weather?")
    story.calls("get_weather", "c1", city="Paris")
    story.answers("get_weather", "c1")
    story.says("Sunny.")
    assert layout(timeline(story)) == [[[1], [2, 3], [4]]]


def test_results_of_parallel_branches_find_their_own_calls(story):
    story.calls("a", "c1")
    story.calls("b", "c2")
    story.answers("a", "c1")
    story.answers("b", "c2")
    assert layout(timeline(story)) == [[[1, 3], [2, 4]]]


def test_one_event_may_answer_all_calls_of_another(story):
    story.add({"functionCall": {"id": "c1", "name": "a"}}, {"functionCall": {"id": "c2", "name": "b"}})
    story.add(
        {"functionResponse": {"id": "c1", "name": "a", "response": {}}},
        {"functionResponse": {"id": "c2", "name": "b", "response": {}}},
    )
    assert layout(timeline(story)) == [[[1, 2]]]


def test_a_result_of_calls_of_two_events_stands_alone(story):
    story.calls("a", "c1")
    story.calls("b", "c2")
    story.add(
        {"functionResponse": {"id": "c1", "name": "a", "response": {}}},
        {"functionResponse": {"id": "c2", "name": "b", "response": {}}},
    )
    assert layout(timeline(story)) == [[[1], [2], [3]]]


def test_a_result_whose_call_is_not_shown_stands_alone(story):
    story.calls("a", "c1")
    story.answers("a", "c1")
    session = story.session
    groups = read(session, windows.newest(session, limit=1)).groups
    assert layout(groups) == [[[2]]]


def test_what_a_person_answers_later_stays_where_it_happened(story):
    story.calls("request_leave", "c1", waiting=True)
    story.answers("request_leave", "c1", response={"status": "pending"})
    story.answers("request_leave", "c1", author="user", response={"status": "approved"})
    assert layout(timeline(story)) == [[[1, 2], [3]]]


def test_groups_follow_the_invocations(story):
    story.asks("one")
    story.invocation = "i2"
    story.asks("two")
    story.invocation = "i1"
    story.says("late")
    groups = timeline(story)
    assert [(group.invocation_id, group.continued) for group in groups] == [
        ("i1", False),
        ("i2", False),
        ("i1", True),
    ]


def test_an_invocation_cut_by_the_window_is_continued(story):
    story.asks("one")
    story.says("two")
    session = story.session
    [group] = read(session, windows.newest(session, limit=1)).groups
    assert group.continued
    assert group.totals.events == 2


def test_a_result_tells_how_long_its_tool_took_and_others_the_step_before(story):
    story.asks("go")
    story.calls("slow", "c1")
    story.says("meanwhile", author="other")
    story.answers("slow", "c1")
    assert {seq: item.elapsed for seq, item in items(story).items()} == {1: None, 2: 1.0, 3: 1.0, 4: 2.0}


def test_the_first_event_of_a_window_still_knows_its_elapsed_time(story):
    story.asks("one")
    story.says("two")
    session = story.session
    [group] = read(session, windows.newest(session, limit=1)).groups
    assert group.rows[0].head.elapsed == 1.0


def test_final_answers_are_marked_and_messages_of_the_user_are_not(story):
    story.asks("hi")
    story.calls("a", "c1")
    story.says("done")
    assert {seq: item.is_final for seq, item in items(story).items()} == {1: False, 2: False, 3: True}


def test_signals_are_said_in_words_with_what_they_aim_at(story):
    story.add(actions={"transferToAgent": "booker", "escalate": True, "agentState": {"step": 2}})
    [item] = items(story).values()
    assert [(signal.label, signal.value) for signal in item.signals] == [
        ("transfer to", "booker"),
        ("escalate", ""),
        ("checkpoint", ""),
    ]


def test_a_branch_keeps_its_lane_and_the_trunk_has_none(story):
    story.says("a", branch="root.left")
    story.says("b", branch="root.right")
    story.says("c", branch="root.left")
    story.says("d")
    lanes = [item.lane for item in items(story).values()]
    assert lanes[0] == lanes[2] > 0
    assert lanes[3] == 0


def test_rewound_events_are_marked_and_nothing_is_gone(story):
    story.asks("one")
    story.invocation = "i2"
    story.asks("two")
    story.says("wrong")
    story.invocation = "i3"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i2"})
    story.asks("three")
    assert {seq: item.rewound_by for seq, item in items(story).items()} == {1: 0, 2: 4, 3: 4, 4: 4, 5: 0}


def test_a_rewind_that_was_taken_back_itself_counts_no_more(story):
    story.asks("one")
    story.invocation = "i2"
    story.asks("two")
    story.invocation = "i3"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i1"})
    story.invocation = "i4"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i3"})
    assert {seq: item.rewound_by for seq, item in items(story).items()} == {1: 0, 2: 0, 3: 4, 4: 4}


def test_a_rewind_outside_the_window_still_marks_what_is_shown(story):
    story.asks("one")
    story.invocation = "i2"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i1"})
    session = story.session
    [group] = read(session, windows.before(session, 2)).groups
    assert group.rows[0].head.rewound_by == 2


def test_compacted_events_name_the_event_with_their_summary(story):
    story.asks("one")
    story.says("two")
    span = {
        "startTimestamp": START + 1,
        "endTimestamp": START + 2,
        "compactedContent": {"role": "model", "parts": [{"text": "x" * 5000}]},
    }
    story.add(author="user", actions={"compaction": span})
    story.says("three")
    assert {seq: item.compacted_by for seq, item in items(story).items()} == {1: 3, 2: 3, 3: 0, 4: 0}


def test_an_error_shows_the_run_that_broke(story):
    run = rows.create_run(story.pk, {})
    rows.finish(run.id, Run.Status.FAILED, error="boom", traceback="Traceback …", invocation_id="i1")
    story.says("fine")
    story.add(errorCode="RuntimeError", errorMessage="boom")
    shown = items(story)
    assert shown[1].run is None
    assert shown[2].run.traceback == "Traceback …"


def test_a_run_that_went_well_explains_no_error(story):
    run = rows.create_run(story.pk, {})
    rows.finish(run.id, Run.Status.DONE, invocation_id="i1")
    story.add(errorCode="MAX_TOKENS")
    assert items(story)[1].run is None


def test_events_without_anything_to_read_are_known(story):
    story.add()
    story.add(delta={"x": 1})
    assert [item.is_empty for item in items(story).values()] == [True, False]


def test_an_empty_session_reads_as_no_groups(story, django_assert_num_queries):
    session = story.session
    window = windows.newest(session)
    with django_assert_num_queries(1):
        assert read(session, window).groups == []


@pytest.mark.parametrize("rounds", [1, 20])
def test_the_number_of_queries_does_not_depend_on_the_length(story, django_assert_num_queries, rounds):
    for number in range(rounds):
        story.invocation = f"i{number}"
        story.asks("go")
        story.calls("a", f"c{number}", waiting=True)
        story.answers("a", f"c{number}", delta={"n": number, "temp:n": number}, keep_temp=True)
        story.add(errorCode="RuntimeError")
    session = story.session
    window = windows.newest(session)
    with django_assert_num_queries(8):
        read(session, window)
