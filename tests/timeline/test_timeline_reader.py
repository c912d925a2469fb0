"""Timeline items that are read for a window of events."""

from __future__ import annotations

from typing import Any

import pytest

from sessions_app.delivery.failure import Failure
from sessions_app.runs import lifecycle
from sessions_app.store.database.json_sql import IS_REWIND_OR_COMPACTION
from sessions_app.store.models import Event, Run
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.groups import InvocationGroup
from sessions_app.timeline.items import TimelineItem
from sessions_app.timeline.timeline_reader import read_timeline
from tests.store import store_url
from tests.timeline.story import START, Story


def timeline(story: Story) -> list[InvocationGroup]:
    session = story.session
    return read_timeline(session, windows.newest(session)).groups


def folded(story: Story) -> list[list[tuple[str, list[int]]]]:
    """Return groups of rows: the reason of each fold, empty for a plain row, and its seqs."""
    session = story.session
    groups = read_timeline(session, windows.newest(session), folds=True).groups
    return [[(row.reason if row.is_fold else "", row.seqs) for row in group.rows] for group in groups]


def layout(groups: list[InvocationGroup]) -> list[list[list[int]]]:
    """Return groups of rows of seqs."""
    return [[row.seqs for row in group.rows] for group in groups]


def items(story: Story) -> dict[int, TimelineItem]:
    return {item.event.seq: item for group in timeline(story) for item in group.items}


def test_call_and_result_are_one_row(story):
    story.asks("Weather?")
    story.calls("get_weather", "c1", city="Paris")
    story.answers("get_weather", "c1")
    story.says("Sunny.")
    assert layout(timeline(story)) == [[[1], [2, 3], [4]]]


def test_results_of_parallel_calls_stay_in_the_order_of_their_numbers(story):
    story.calls("a", "c1")
    story.calls("b", "c2")
    story.answers("a", "c1")
    story.answers("b", "c2")
    assert layout(timeline(story)) == [[[1], [2], [3], [4]]]
    assert {seq: [call.name for call in item.earlier_calls] for seq, item in items(story).items()} == {
        1: [],
        2: [],
        3: ["a"],
        4: ["b"],
    }


def test_one_event_may_answer_all_calls_of_another(story):
    story.add({"functionCall": {"id": "c1", "name": "a"}}, {"functionCall": {"id": "c2", "name": "b"}})
    story.add(
        {"functionResponse": {"id": "c1", "name": "a", "response": {}}},
        {"functionResponse": {"id": "c2", "name": "b", "response": {}}},
    )
    assert layout(timeline(story)) == [[[1, 2]]]


def test_result_of_calls_from_two_events_has_its_own_row(story):
    story.calls("a", "c1")
    story.calls("b", "c2")
    story.add(
        {"functionResponse": {"id": "c1", "name": "a", "response": {}}},
        {"functionResponse": {"id": "c2", "name": "b", "response": {}}},
    )
    assert layout(timeline(story)) == [[[1], [2], [3]]]


def test_result_without_visible_call_has_its_own_row(story):
    story.calls("a", "c1")
    story.answers("a", "c1")
    session = story.session
    groups = read_timeline(session, windows.newest(session, limit=1)).groups
    assert layout(groups) == [[[2]]]


def test_later_answer_of_a_person_stays_in_place(story):
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
    [group] = read_timeline(session, windows.newest(session, limit=1)).groups
    assert group.continued
    assert group.totals.events == 2


def test_result_shows_duration_of_its_tool(story):
    story.asks("go")
    story.calls("slow", "c1")
    story.says("meanwhile", author="other")
    story.answers("slow", "c1")
    assert {seq: item.elapsed for seq, item in items(story).items()} == {1: None, 2: 1.0, 3: 1.0, 4: 2.0}


def test_first_event_of_a_window_has_its_elapsed_time(story):
    story.asks("one")
    story.says("two")
    session = story.session
    [group] = read_timeline(session, windows.newest(session, limit=1)).groups
    assert group.rows[0].head.elapsed == 1.0


def test_error_is_never_a_final_answer(story):
    story.asks("hi")
    story.add(errorCode="RuntimeError")
    assert not items(story)[2].is_final


@pytest.mark.parametrize(
    ("code", "blocked"), [("SAFETY", True), ("MAX_TOKENS", True), ("RuntimeError", False)]
)
def test_answer_that_the_model_ended_is_blocked_and_no_failure(story, code, blocked):
    story.add(errorCode=code, finishReason=code)
    assert items(story)[1].is_blocked is blocked
    assert ("is-blocked" in items(story)[1].css) is blocked


def test_final_answers_are_marked_and_messages_of_the_user_are_not(story):
    story.asks("hi")
    story.calls("a", "c1")
    story.says("done")
    assert {seq: item.is_final for seq, item in items(story).items()} == {1: False, 2: False, 3: True}


def test_signals_are_described_with_their_target(story):
    story.add(actions={"transferToAgent": "booker", "escalate": True, "agentState": {"step": 2}})
    [item] = items(story).values()
    assert [(signal.label, signal.value) for signal in item.signals] == [
        ("transfer to", "booker"),
        ("escalate", ""),
        ("checkpoint", ""),
    ]


def test_rewound_events_are_marked_and_remain(story):
    story.asks("one")
    story.invocation = "i2"
    story.asks("two")
    story.says("wrong")
    story.invocation = "i3"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i2"})
    story.asks("three")
    assert {seq: item.rewound_by for seq, item in items(story).items()} == {1: 0, 2: 4, 3: 4, 4: 0, 5: 0}


def test_undone_rewind_does_not_count(story):
    story.asks("one")
    story.invocation = "i2"
    story.asks("two")
    story.invocation = "i3"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i1"})
    story.invocation = "i4"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i3"})
    assert {seq: item.rewound_by for seq, item in items(story).items()} == {1: 0, 2: 0, 3: 4, 4: 0}


def test_rewind_outside_the_window_marks_shown_events(story):
    story.asks("one")
    story.invocation = "i2"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i1"})
    session = story.session
    [group] = read_timeline(session, windows.before(session, 2)).groups
    assert group.rows[0].head.rewound_by == 2


@pytest.mark.skipif(
    "postgresql" in store_url(), reason="asks SQLite for its plan; PostgreSQL's has a test of its own"
)
def test_rewinds_and_compactions_are_found_by_index(story):
    for step in range(3):
        story.add(actions={"agentState": {"step": step}})
    story.add(author="user", actions={"rewindBeforeInvocationId": "i0"})
    events = Event.objects.filter(IS_REWIND_OR_COMPACTION, session=story.pk, seq__gte=1).order_by("-seq")
    assert [event.seq for event in events] == [4]
    assert "USING INDEX event_touching" in events.explain()
    assert "TEMP B-TREE" not in events.explain()


def test_words_like_those_of_a_compaction_are_none(story):
    story.add(actions={"agentState": {"compaction": '"rewindBeforeInvocationId"'}})
    story.says('"compaction"')
    assert [item.compacted_by or item.rewound_by for item in items(story).values()] == [0, 0]


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
    run = lifecycle.create_run(story.pk, {})
    lifecycle.finish(run.id, Run.Status.FAILED, Failure("", "boom", "Traceback …"), invocation_id="i1")
    story.says("fine")
    story.add(errorCode="RuntimeError", errorMessage="boom")
    items_by_seq = items(story)
    assert items_by_seq[1].run is None
    assert items_by_seq[2].run.traceback == "Traceback …"


def test_a_run_that_went_well_explains_no_error(story):
    run = lifecycle.create_run(story.pk, {})
    lifecycle.finish(run.id, Run.Status.DONE, invocation_id="i1")
    story.add(errorCode="MAX_TOKENS")
    assert items(story)[1].run is None


def test_events_without_content_are_recognized(story):
    story.add()
    story.add(delta={"x": 1})
    assert [item.is_empty for item in items(story).values()] == [True, False]


def later(story: Story, seconds: float) -> None:
    """Move the newest event away from the one before it."""
    Event.objects.filter(session=story.pk, seq=story.told).update(timestamp=START + story.told + seconds)


def test_silence_before_an_invocation_is_marked_on_it(story):
    story.says("one")
    story.invocation = "i2"
    story.says("two")
    later(story, 7200)
    first, second = timeline(story)
    assert (first.gap, round(second.gap)) == (0, 7201)
    assert second.rows[0].head.gap == 0


def test_silence_within_an_invocation_is_marked_on_its_event(story):
    story.says("one")
    story.says("two")
    later(story, 700)
    story.says("a clock went back")
    [group] = timeline(story)
    assert [round(row.head.gap) for row in group.rows] == [0, 701, 0]
    assert group.gap == 0


def test_window_after_a_pause_shows_it(story):
    story.says("one")
    story.invocation = "i2"
    story.says("two")
    later(story, 7200)
    session = story.session
    [group] = read_timeline(session, windows.after(session, 1)).groups
    assert round(group.gap) == 7201


def test_pieces_that_were_stored_fold_before_their_event(story):
    story.asks("go")
    story.says("Hel", partial=True)
    story.says("Hello", partial=True)
    story.says("Hello!")
    assert folded(story) == [[("", [1]), ("pieces", [2, 3]), ("", [4])]]


def test_pieces_without_event_are_separate(story):
    story.says("Hel", partial=True)
    story.says("Hello", partial=True)
    assert folded(story) == [[("", [1]), ("", [2])]]


def test_rewound_events_fold_and_the_rewind_does_not(story):
    story.asks("one")
    story.invocation = "i2"
    story.asks("two")
    story.calls("a", "c1")
    story.answers("a", "c1")
    story.add(author="user", actions={"rewindBeforeInvocationId": "i2"})
    assert folded(story) == [[("", [1])], [("rewound-5", [2, 3, 4]), ("", [5])]]
    assert {seq: item.rewound_by for seq, item in items(story).items()} == {1: 0, 2: 5, 3: 5, 4: 5, 5: 0}


def test_summarized_events_fold(story):
    story.asks("one")
    story.says("two")
    story.says("three")
    span = {
        "startTimestamp": START,
        "endTimestamp": START + 2,
        "compactedContent": {"parts": [{"text": "x"}]},
    }
    story.add(author="user", actions={"compaction": span})
    assert folded(story) == [[("summarized-4", [1, 2]), ("", [3]), ("", [4])]]


def test_checkpoints_and_state_changes_fold_and_one_alone_does_not(story):
    story.asks("go")
    story.add(delta={"a": 1})
    story.says("meanwhile")
    story.add(actions={"agentState": {"step": 1}})
    story.add(delta={"b": 1})
    story.add(actions={"endOfAgent": True})
    story.add(actions={"escalate": True})
    assert folded(story) == [[("", [1]), ("", [2]), ("", [3]), ("quiet", [4, 5, 6]), ("", [7])]]


def test_open_question_is_not_folded(story):
    story.asks("go")
    story.says("one")
    story.calls("request_leave", "c1", waiting=True)
    span = {
        "startTimestamp": START,
        "endTimestamp": START + 9,
        "compactedContent": {"parts": [{"text": "x"}]},
    }
    story.add(author="user", actions={"compaction": span})
    assert folded(story)[0][:2] == [("summarized-4", [1, 2]), ("", [3])]


def test_fold_counts_its_errors(story):
    story.asks("go")
    story.add(errorCode="RuntimeError")
    story.answers("a", "c1", response={"error": "no"})
    story.add(errorCode="SAFETY")
    span = {
        "startTimestamp": START,
        "endTimestamp": START + 9,
        "compactedContent": {"parts": [{"text": "x"}]},
    }
    story.add(author="user", actions={"compaction": span})
    session = story.session
    [group] = read_timeline(session, windows.newest(session), folds=True).groups
    assert (group.rows[0].seqs, group.rows[0].error_count) == ([1, 2, 3, 4], 2)


def titles(story: Story) -> list[str]:
    return [group.title for group in timeline(story)]


def test_turns_are_named_by_number_and_first_words(story):
    story.asks("Weather in\n  Paris?")
    story.says("Sunny")
    story.invocation = "i2"
    story.add(delta={"city": "Rome"}, author="user")
    story.invocation = "i3"
    story.asks("word " * 40)
    story.invocation = "i4"
    story.add({"inlineData": {"mimeType": "image/png", "data": "AAAA"}}, author="user")
    story.invocation = "i5"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i3"})
    story.invocation = "i6"
    story.says("I begin", author="greeter")
    first, second, third, *others = titles(story)
    assert (first, second) == ("Turn 1 · Weather in Paris?", "State change")
    assert third == f"Turn 2 · {'word ' * 19}word…"
    assert others == ["Turn 3 · files", "Rewind", "By greeter"]


def test_turn_that_began_before_the_window_has_its_title(story):
    story.asks("one")
    story.says("answer")
    story.invocation = "i2"
    story.asks("two")
    story.says("answer")
    session = story.session
    [group] = read_timeline(session, windows.newest(session, limit=1)).groups
    assert (group.title, group.continued) == ("Turn 2 · two", True)


def test_result_of_earlier_call_names_it(story):
    story.calls("look", "c1", where="Paris", **{f"n{number}": number for number in range(10)})
    story.says("meanwhile")
    story.answers("look", "c1")
    session = story.session
    [group] = read_timeline(session, windows.after(session, 1)).groups
    [call] = group.rows[1].head.earlier_calls
    assert (call.seq, call.name, call.args["where"]) == (1, "look", "Paris")
    assert len(call.args) == 8


def test_a_call_that_is_answered_after_the_window_names_the_event(story):
    story.calls("look", "c1")
    story.says("meanwhile")
    story.answers("look", "c1")
    session = story.session
    [group] = read_timeline(session, windows.before(session, 3)).groups
    assert [row.head.answered_in for row in group.rows] == [[3], []]


def test_only_answers_of_people_beside_their_call_name_it(story):
    story.calls("look", "c1")
    story.answers("look", "c1")
    story.calls("ask", "c2", waiting=True)
    story.invocation = "i2"
    story.answers("ask", "c2", author="user")
    items_by_seq = items(story)
    assert items_by_seq[2].earlier_calls == []
    assert [call.seq for call in items_by_seq[4].earlier_calls] == [3]


def test_a_compaction_names_the_events_it_sums_up(story):
    for name in ("one", "two", "three"):
        story.says(name)
    span = {
        "startTimestamp": START + 1,
        "endTimestamp": START + 2,
        "compactedContent": {"parts": [{"text": "1, 2"}]},
    }
    story.add(author="user", actions={"compaction": span})
    story.add(author="user", actions={"compaction": {"startTimestamp": 1.0, "endTimestamp": 2.0}})
    items_by_seq = items(story)
    assert items_by_seq[4].covers == (1, 2)
    assert items_by_seq[4].summary["compaction"]["text"] == "1, 2"
    assert items_by_seq[5].covers is None
    assert [items_by_seq[seq].compacted_by for seq in (1, 2, 3)] == [4, 4, 0]


def test_row_is_bounded_for_any_number_of_calls_and_writes(story):
    call = {"functionCall": {"id": "c", "name": "f", "args": {f"a{n}": n for n in range(30)}}}
    seq = story.add(*[call] * 30, delta={f"k{number}": number for number in range(60)})
    [item] = items(story).values()
    assert (len(item.calls), item.more_parts) == (8, 22)
    assert (len(item.calls[0]["args"]), item.calls[0]["more"]) == (8, 22)
    assert (len(item.shown_changes), item.more_changes) == (8, 52)
    assert seq == 1


CALLS = [{"functionCall": {"id": f"c{n}", "name": f"tool_{n:02}", "args": {"n": n}}} for n in range(60)]
RESULTS = [
    {
        "functionResponse": {
            "id": f"c{n}",
            "name": f"tool_{n:02}",
            "response": {"error": "no"} if n == 57 else {},
        }
    }
    for n in range(60)
]
CODES = [{"executableCode": {"language": "PYTHON", "code": f"print({n})"}} for n in range(60)]
IMAGES = [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}] * 60
TEXTS = [{"text": f"piece {n:02}. "} for n in range(60)]


@pytest.mark.parametrize(
    ("parts", "shown_count", "more"),
    [
        (CALLS, 8, 52),
        (RESULTS, 8, 52),
        (CODES, 50, 10),
        (IMAGES, 6, 54),
        (TEXTS, 0, 0),
        ([*TEXTS, *CODES], 50, 10),
        ([*TEXTS, {"toolCall": {"toolType": "SEARCH"}}], 1, 0),
        (CALLS * 20, 8, 1192),
    ],
)
def test_row_says_how_many_parts_it_hides(story, parts: list[dict[str, Any]], shown_count: int, more: int):
    story.add(*parts)
    [item] = items(story).values()
    assert sum(len(block.entries) for block in item.blocks) == shown_count
    assert item.more_parts == more


def test_parts_in_a_mixed_order_are_all_shown(story):
    """Text and code take turns, more often than an order lists."""
    story.add(*[part for pair in zip(TEXTS, CODES[:50], strict=False) for part in pair], TEXTS[-1])
    [item] = items(story).values()
    assert "".join(block.text for block in item.blocks) == "".join(
        part["text"] for part in [*TEXTS[:50], TEXTS[-1]]
    )
    assert sum(len(block.entries) for block in item.blocks) == 50


def test_row_says_how_many_artifacts_and_arguments_it_hides(story):
    call = {"functionCall": {"id": "c", "name": "f", "args": {f"a{n}": n for n in range(70)}}}
    story.add(call, actions={"artifactDelta": {f"file{n}.txt": 0 for n in range(60)}})
    [item] = items(story).values()
    assert (len(item.shown_artifacts), item.more_artifacts) == (12, 48)
    assert item.calls[0]["more"] == 62


def test_sixtieth_waiting_call_has_a_form(story):
    story.add(*CALLS, longRunningToolIds=["c59"])
    [item] = items(story).values()
    assert [question.name for question in item.questions] == ["tool_59"]


def test_an_empty_session_reads_as_no_groups(story, django_assert_num_queries):
    session = story.session
    window = windows.newest(session)
    with django_assert_num_queries(1):
        assert read_timeline(session, window).groups == []


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
    more = 1 if rounds > 1 else 0  # the event before the window
    with django_assert_num_queries(11 + more):
        read_timeline(session, window)


def test_request_for_input_shows_no_schema(story):
    schema = {"type": "object", "properties": {"days": {"type": "integer"}}}
    story.calls("adk_request_input", "c1", waiting=True, message="How long?", response_schema=schema)
    story.says("meanwhile")
    story.answers("adk_request_input", "c1", author="user", response={"days": 3})
    items_by_seq = items(story)
    assert items_by_seq[1].calls[0]["args"] == {"message": "How long?"}
    assert [call.args for call in items_by_seq[3].earlier_calls] == [{"message": "How long?"}]


def test_event_that_changes_no_state_is_not_called_a_state_change(story):
    story.invocation = "i2"
    story.add()
    story.invocation = "i3"
    story.add(actions={"agentState": {"at": 1}})
    story.invocation = "i4"
    story.add(delta={"n": 1})
    assert [group.title for group in timeline(story)] == ["By agent", "By agent", "State change"]
