"""Calls whose ids are reused: across turns, in steps of one turn, in one event, in parallel branches."""

from __future__ import annotations

from typing import Any

from evals_app.execution.replay.recording import read_recording
from sessions_app.branches.rewind import rewind
from sessions_app.console.questions import INPUT, find_question, open_questions
from sessions_app.lookup import find_event
from sessions_app.problems.evidence_queries import read_batch
from sessions_app.store.events.attribution import Writer
from sessions_app.store.events.call_pairing import CallPairing, name_occurrences, pair_starts
from sessions_app.store.runs import session_runs
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.inspector import inspect_event
from sessions_app.timeline.items import TimelineItem
from sessions_app.timeline.nested_events import read_nested_events
from sessions_app.timeline.timeline_reader import read_timeline
from tests.pages.html import parse
from tests.timeline.nested_story import add, nest, nested_call
from tests.timeline.session_page import session_path
from tests.timeline.story import Story


def call(name: str, call_id: str = "x", **args: Any) -> dict[str, Any]:
    return {"functionCall": {"id": call_id, "name": name, "args": args}}


def result(name: str, call_id: str = "x", **response: Any) -> dict[str, Any]:
    return {"functionResponse": {"id": call_id, "name": name, "response": response}}


def items(story: Story) -> dict[int, TimelineItem]:
    session = story.session
    groups = read_timeline(session, windows.newest(session)).groups
    return {item.event.seq: item for group in groups for item in group.items}


def asked(story: Story) -> list[tuple[int, int]]:
    """Return seq and place of the questions on the page."""
    session = story.session
    questions = open_questions(session, windows.newest(session).events)
    return [(each.seq, each.place) for of_event in questions.values() for each in of_event]


def rows(story: Story) -> list[list[int]]:
    session = story.session
    return [
        row.seqs for group in read_timeline(session, windows.newest(session)).groups for row in group.rows
    ]


def test_response_belongs_to_the_newest_call_of_its_id():
    pairing = CallPairing[str]()
    pairing.add_event([({"id": "x", "name": "look"}, "first")])
    assert pairing.take({"id": "x", "name": "look"}) == "first"
    pairing.add_event([({"id": "x", "name": "look"}, "second")])
    assert pairing.unanswered() == ["second"]
    assert pairing.take({"id": "x", "name": "look"}) == "second"
    assert pairing.take({"id": "x"}) == "second"
    assert pairing.take({"id": "y", "name": "look"}) is None


def test_response_prefers_its_branch_then_its_name_then_order():
    pairing = CallPairing[str]()
    pairing.add_event([({"id": "x", "name": "a"}, "A1"), ({"id": "x", "name": "b"}, "B")], "one")
    pairing.add_event([({"id": "x", "name": "a"}, "A2"), ({"id": "x", "name": "a"}, "A3")], "two")
    assert [pairing.take({"id": "x", "name": name}, "one") for name in ("b", "a")] == ["B", "A1"]
    assert [pairing.take({"id": "x", "name": "a"}, "two") for _ in range(3)] == ["A2", "A3", "A2"]
    assert pairing.take({"id": "x", "name": "b"}, "three") == "A3"


def test_calls_without_ids_are_told_apart_by_their_names():
    pairing = CallPairing[str]()
    pairing.add_event([({"name": "a"}, "A"), ({"id": "", "name": "b"}, "B")])
    assert [pairing.take({"id": None, "name": name}) for name in ("b", "a", "c")] == ["B", "A", None]


def test_starts_of_one_id_belong_to_the_calls_of_an_event_in_order():
    calls = [({"id": "x", "name": "add"}, "first"), ({"id": "x", "name": "add"}, "second")]
    starts = [{"id": "x", "name": "add"}] * 2 + [{"id": "y", "name": "look"}]
    assert pair_starts(calls, starts) == ["first", "second", None]


def test_calls_of_one_id_have_names_of_their_own():
    assert name_occurrences(["x", "y", "x", "x"]) == ["x", "y", "x#2", "x#3"]
    assert name_occurrences(["x", "x", "x#2"]) == ["x", "x#2", "x#2#2"]


def test_question_asked_again_under_its_id_is_open_again(story):
    story.calls(INPUT, "x", waiting=True)
    story.answers(INPUT, "x", author="user", response={"result": "shorter"})
    story.calls(INPUT, "x", waiting=True)
    assert asked(story) == [(3, 0)]
    assert find_question(story.session, "x").seq == 3
    assert session_runs.open_call_ids(story.pk, "i1") == ["x"]
    story.answers(INPUT, "x", author="user", response={"result": "approve"})
    assert (asked(story), find_question(story.session, "x")) == ([], None)
    story.invocation = "i2"
    story.calls(INPUT, "x", waiting=True)
    assert asked(story) == [(5, 0)]
    assert [session_runs.open_call_ids(story.pk, name) for name in ("i1", "i2")] == [[], ["x"]]


def test_question_that_a_later_one_of_its_id_replaces_takes_no_answer(story):
    story.calls("job", "x", waiting=True)
    story.invocation = "i2"
    story.calls("job", "x", waiting=True)
    assert asked(story) == [(2, 0)]
    assert [session_runs.open_call_ids(story.pk, name) for name in ("i1", "i2")] == [[], ["x"]]


def test_other_tools_call_of_its_id_does_not_take_the_answer(story):
    story.calls("job", "x", waiting=True)
    story.calls("look", "x")
    story.answers("look", "x")
    assert asked(story) == [(1, 0)]
    story.answers("job", "x", author="user")
    assert asked(story) == []


def test_each_call_of_an_event_takes_one_answer(client, story):
    story.add(call("job", n=1), call("job", n=2), longRunningToolIds=["x"])
    assert asked(story) == [(1, 0), (1, 1)]
    story.answers("job", "x", author="user")
    assert asked(story) == [(1, 1)]
    assert find_question(story.session, "x").args == {"n": 2}
    page = parse(client.get(session_path(story)).content.decode())
    assert page.one("form", css="question").attrs["data-nth"] == "2"
    story.answers("job", "x", author="user")
    assert asked(story) == []


def test_inputs_of_two_questions_of_one_id_have_ids_of_their_own(client, story):
    schema = {"type": "object", "properties": {"days": {"type": "integer"}}}
    question = call(INPUT, response_schema=schema)
    story.add(question, question, longRunningToolIds=["x"])
    page = parse(client.get(session_path(story)).content.decode())
    forms = page.all("form", css="question")
    ids = [element.attrs["id"] for form in forms for element in form.all("input") if "id" in element.attrs]
    assert len(forms) == 2
    assert len(ids) == len(set(ids))


def test_interim_answer_leaves_the_question_open(client, story):
    story.calls("job", "x", waiting=True)
    story.answers("job", "x", author="user", response={"status": "in-progress"})
    assert asked(story) == [(1, 0)]
    assert session_runs.open_call_ids(story.pk, "i1") == ["x"]
    page = parse(client.get(session_path(story)).content.decode())
    assert not [element for element in page.all("article") if "data-by-user" in element.attrs]
    story.answers("job", "x", author="user", response={"status": "done"})
    assert asked(story) == []


def test_status_of_a_requested_input_is_no_interim_answer(story):
    story.calls(INPUT, "x", waiting=True)
    story.answers(INPUT, "x", author="user", response={"status": "pending"})
    assert asked(story) == []


def test_question_asked_again_and_rewound_leaves_the_first_one_open(story):
    story.calls("job", "x", waiting=True)
    story.invocation = "i2"
    story.asks("again")
    story.calls("job", "x", waiting=True)
    rewind(story.pk, invocation_id="i2")
    assert asked(story) == [(1, 0)]
    assert find_question(story.session, "x").seq == 1


def test_steps_of_one_turn_pair_with_their_own_results(story):
    for n in (1, 2):
        story.calls("look", "x", n=n)
        story.says("meanwhile")
        story.answers("look", "x")
    items_by_seq = items(story)
    assert [[each.seq for each in items_by_seq[seq].earlier_calls] for seq in (3, 6)] == [[1], [4]]
    assert (items_by_seq[3].elapsed, items_by_seq[6].elapsed) == (2.0, 2.0)
    partners = [
        inspect_event(story.session, find_event(story.session, seq=seq)).partners for seq in (1, 3, 4, 6)
    ]
    assert [[partner.seq for partner in each] for each in partners] == [[3], [1], [6], [4]]


def test_answer_leads_to_the_question_before_another_tools_call_of_its_id(story):
    story.calls("job", "x", waiting=True)
    story.calls("look", "x")
    story.answers("look", "x")
    story.answers("job", "x", author="user")
    assert [[each.seq for each in items(story)[seq].earlier_calls] for seq in (3, 4)] == [[], [1]]
    partners = [inspect_event(story.session, find_event(story.session, seq=seq)).partners for seq in (1, 2)]
    assert [[partner.seq for partner in each] for each in partners] == [[4], [3]]


def test_answers_behind_the_window_belong_to_the_newest_call(story):
    story.calls("look", "x")
    story.says("meanwhile")
    story.calls("look", "x")
    story.answers("look", "x")
    session = story.session
    [group] = read_timeline(session, windows.before(session, 3)).groups
    assert [item.answered_in for item in group.items] == [[], []]


def test_calls_of_one_event_pair_with_their_results_by_name_and_order(story):
    story.add(call("add", n=1), call("look"), call("add", n=2))
    story.says("meanwhile")
    story.add(result("look"), result("add", sum=1), result("add", sum=2))
    earlier_calls = items(story)[3].earlier_calls
    assert [(each.name, each.args) for each in earlier_calls] == [
        ("look", {}),
        ("add", {"n": "1"}),
        ("add", {"n": "2"}),
    ]
    inspection = inspect_event(story.session, find_event(story.session, seq=1))
    assert [partner.seq for _, partner in inspection.placed_parts] == [3, 3, 3]


def test_parallel_branches_keep_their_results(story):
    for branch in ("a", "b"):
        story.add(call("look", at=branch), branch=branch)
    for branch in ("a", "b"):
        story.add(result("look", saw=branch), branch=branch)
    assert rows(story) == [[1], [2], [3], [4]]
    timeline_items = items(story)
    assert [[each.seq for each in timeline_items[seq].earlier_calls] for seq in (3, 4)] == [[1], [2]]


def test_result_behind_a_call_of_another_branch_stands_alone(story):
    story.add(call("look"), branch="a")
    story.add(call("look"), branch="b")
    story.add(result("look"), branch="a")
    assert rows(story) == [[1], [2], [3]]
    assert [each.seq for each in items(story)[3].earlier_calls] == [1]


def test_nested_runs_of_one_event_stand_under_their_own_calls(client, story):
    story.add(call("add"), call("helper", n=1), call("helper", n=2))
    for ref in ("r1", "r2"):
        nest(story, ref, call_id="x")
    calls = items(story)[1].calls
    assert [[head.run.child.session_id for head in each["nested_runs"]] for each in calls] == [
        [],
        ["r1"],
        ["r2"],
    ]


def test_runs_inside_a_nested_run_stand_under_their_own_steps(story):
    story.calls("helper", "x")
    run = nest(story, "r1", call_id="x")
    for ref, started_at in (("in1", 11.5), ("in2", 13.5)):
        add(run, nested_call("deep", "x"))
        add(run, result("deep"))
        nest(story, ref, call_id="x", parent="r1", agent="deep", started_at=started_at)
    rows = read_nested_events(run).items
    runs = [
        [head.run.child.session_id for each in item.calls for head in each["nested_runs"]] for item in rows
    ]
    assert runs == [["in1"], [], ["in2"], []]


def test_runs_inside_a_long_nested_run_stand_on_the_page_of_their_call(story):
    story.calls("helper", "x")
    run = nest(story, "r1", call_id="x")
    for number in range(60):
        add(run, nested_call("deep", "x"))
        nest(story, f"in{number}", call_id="x", parent="r1", agent="deep", started_at=11.5 + number)
    pages = [read_nested_events(run, after=after).items for after in (0, 50)]
    runs = [
        head.run.child.session_id
        for page in pages
        for item in page
        for each in item.calls
        for head in each["nested_runs"]
    ]
    assert runs == [f"in{number}" for number in range(60)]
    assert all(len(item.calls[0]["nested_runs"]) == 1 for page in pages for item in page)


def test_recording_gives_each_call_its_own_arguments_and_writes(story):
    story.asks("go")
    story.add(call("add", n=1), call("remember", n=2), call("add", n=3))
    writers = {
        "a": Writer("tool", "add", "x", inferred=False),
        "b": Writer("tool", "remember", "x", inferred=False),
    }
    parts = (result("add", sum=1), result("remember"), result("add", sum=3))
    story.add(*parts, delta={"a": 1, "b": 2}, writers=writers)
    tools = read_recording(story.session).tools
    assert [(each.tool, each.args["n"]) for each in tools] == [("add", 1), ("remember", 2), ("add", 3)]
    assert [each.delta for each in tools] == [{"a": 1}, {"b": 2}, {"a": 1}]


def test_evidence_of_problems_has_each_result_with_its_own_call(story):
    story.add(call("load_memory", query="birthday"), call("load_memory", query="name"))
    story.add(result("load_memory", memories=[]), result("load_memory", memories=["Ann"]))
    story.calls("load_memory", "x", query="age")
    [evidence, _] = read_batch(story.session, 100).evidence
    assert [each.call.args["query"] for each in evidence.results] == ["birthday", "name"]
