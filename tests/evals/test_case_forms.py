"""Form of a case: it changes only fields that it shows, and can change all of these."""

from __future__ import annotations

import copy

import pytest

from evals_app.cases.case_forms import AppliedForm, case_form_data
from evals_app.cases.form_fields import parse_nested, rearrange_rows
from evals_app.cases.message_text import with_text
from evals_app.files import parse
from evals_app.files.editing import case_json
from evals_app.files.scenario_plan import ConversationPlan
from tests.evals.builders import FULL, case, text, turn
from tests.evals.case_form_data import apply_form, form_data


def cases():
    import json

    return [case_json(case) for case in parse(json.dumps(FULL), "a.evalset.json", "a").cases]


EVENTS = {
    "invocation_events": [
        {
            "author": "z",
            "content": {"parts": [{"function_call": {"id": "1", "name": "f", "args": {"a": 1}}}]},
        },
        {
            "author": "z",
            "content": {"parts": [{"function_response": {"id": "1", "name": "f", "response": {}}}]},
        },
        {
            "author": "y",
            "content": {"role": "model", "parts": [{"text": "wait", "thought": True}, {"text": "soon"}]},
        },
        {
            "author": "z",
            "content": {"parts": [{"function_call": {"id": "2", "name": "g"}}]},
            "usage_metadata": {},
        },
    ]
}


@pytest.mark.parametrize("place", range(4))
def test_unchanged_form_makes_the_same_case(place):
    eval_case = cases()[place]
    new_case = apply_form(eval_case)
    assert (new_case.case, new_case.errors) == (eval_case, {})


@pytest.mark.parametrize(
    "eval_case",
    [
        case(" spaces \r\n", turn("a\r\nb\rc", "\n\nlead"), ours={"x": [1]}),
        case("nul\0", turn("\0 \ud800", tools=[{"name": " f ", "args": {"q": "\r\n"}}])),
        case("e", {**turn("x"), "intermediate_data": EVENTS, "duration": 1.5}),
        case("s", turn("x"), final_session_state={}, devui_turn_states=[None], rubrics=[]),
        {
            "eval_id": "p",
            "conversation_scenario": {"starting_prompt": "\n", "conversation_plan": "Goal: a\n\r\nb"},
        },
        case(
            "many",
            {"user_content": {"parts": [{"text": "a"}, {"inline_data": {"data": "aGk="}}, {"text": "b"}]}},
        ),
    ],
)
def test_values_that_browsers_cannot_send_are_kept(eval_case):
    new_case = apply_form(copy.deepcopy(eval_case))
    assert new_case.case == eval_case


def test_each_field_can_be_changed_without_changing_others():
    eval_case = case(
        "a",
        {**turn("hi", "yo", [{"id": "7", "name": "f", "args": {"x": 1}}]), "invocation_id": "i", "ours": 1},
        session_input={"app_name": "a", "user_id": "u", "state": {"k": 1}, "extra": 2},
        rubrics=[{"rubric_id": "r", "rubric_content": {"text_property": "p", "more": 1}, "type": "T"}],
        team="ours",
    )
    new_case = apply_form(
        eval_case,
        case_id="b",
        turns__0__user="hello",
        turns__0__answer="",
        turns__0__calls__0__name="g",
        turns__0__calls__0__args='{"y": [1, {"z": null}]}',
        turns__0__responses__0__author="sub",
        turns__0__responses__0__text="wait",
        turns__0__state='{"user:n": 2}',
        turns__0__rubrics__0__id="t",
        turns__0__rubrics__0__property="short",
        rubrics__0__type="",
        state='{"k": 2}',
        session_id="s1",
        final_state='{"done": true}',
    )
    assert new_case.errors == {}
    assert new_case.case == {
        "eval_id": "b",
        "conversation": [
            {
                "user_content": text("hello"),
                "intermediate_data": {
                    "tool_uses": [{"id": "7", "name": "g", "args": {"y": [1, {"z": None}]}}],
                    "intermediate_responses": [["sub", [{"text": "wait"}]]],
                },
                "invocation_id": "i",
                "ours": 1,
                "rubrics": [{"rubric_id": "t", "rubric_content": {"text_property": "short"}}],
            }
        ],
        "session_input": {"app_name": "a", "user_id": "u", "state": {"k": 2}, "extra": 2, "session_id": "s1"},
        "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "p", "more": 1}}],
        "team": "ours",
        "final_session_state": {"done": True},
        "devui_turn_states": [{"user:n": 2}],
    }


def test_moved_turns_keep_fields_not_in_the_form():
    eval_case = case(
        "a",
        {**turn("1"), "duration": 1.0},
        {**turn("2"), "duration": 2.0},
        devui_turn_states=[{"n": 1}, None],
    )
    data = rearrange_rows(rearrange_rows(form_data(eval_case), "up:turns.1"), "add:turns")
    data["turns"][2]["user"] = "3"
    new_case = AppliedForm(data, eval_case, "counter").case
    assert [turn_json.get("duration") for turn_json in new_case["conversation"]] == [2.0, 1.0, None]
    assert new_case["devui_turn_states"] == [None, {"n": 1}, None]
    dropped = AppliedForm(rearrange_rows(data, "drop:turns.0"), eval_case, "counter").case
    assert [turn_json["user_content"]["parts"][0]["text"] for turn_json in dropped["conversation"]] == [
        "1",
        "3",
    ]


@pytest.mark.parametrize(
    "action",
    ["drop:turns.9", "up:turns.0", "down:turns.0", "drop:", "up:nothing.1", "x:y", "add:turns.7.calls"],
)
def test_invalid_row_changes_nothing(action):
    data = form_data(case("a", turn("1")))
    assert rearrange_rows(data, action) == data


def test_calls_of_recorded_events_are_edited_in_place():
    eval_case = case("a", {**turn("x"), "intermediate_data": EVENTS})
    data = form_data(eval_case, turns__0__calls__0__args='{"a": 2}', turns__0__responses__0__text="later")
    data = rearrange_rows(rearrange_rows(data, "drop:turns.0.calls.1"), "add:turns.0.calls")
    data["turns"][0]["calls"][1]["name"] = "h"
    events = AppliedForm(data, eval_case, "counter").case["conversation"][0]["intermediate_data"][
        "invocation_events"
    ]
    assert [part for event in events for part in event["content"]["parts"]] == [
        {"function_call": {"id": "1", "name": "f", "args": {"a": 2}}},
        {"function_response": {"id": "1", "name": "f", "response": {}}},
        {"text": "wait", "thought": True},
        {"text": "later"},
        {"function_call": {"name": "h", "args": {}}},
    ]
    without = rearrange_rows(form_data(eval_case), "drop:turns.0.calls.0")
    events = AppliedForm(without, eval_case, "counter").case["conversation"][0]["intermediate_data"][
        "invocation_events"
    ]
    assert [event["author"] for event in events] == ["y", "z"]


def test_fixed_case_converts_to_simulated_with_goal_and_style():
    new_case = apply_form(
        case("a", turn("x")),
        kind="scenario",
        starting_prompt="Hi",
        goal="a refund\r\nin full",
        style="terse",
        plan="Ask twice.",
        persona="NOVICE",
    )
    assert new_case.case == {
        "eval_id": "a",
        "conversation_scenario": {
            "starting_prompt": "Hi",
            "conversation_plan": "Goal: a refund in full\nCommunication style: terse\n\nAsk twice.",
            "user_persona": "NOVICE",
        },
    }
    details = case_form_data(new_case.case)
    assert (details["goal"], details["style"], details["plan"]) == ("a refund in full", "terse", "Ask twice.")


@pytest.mark.parametrize(
    "plan",
    ["", "Goal: x", "Goal: \n", "Goal: x\nno gap", "a\nGoal: x", "Communication style: s\nGoal: g\n\n"],
)
def test_any_plan_is_read_and_written_back_as_it_is(plan):
    assert str(ConversationPlan.parse(plan)) == plan


@pytest.mark.parametrize(
    ("changed", "field", "message"),
    [
        ({"case_id": " "}, "case_id", "needs an id"),
        ({"turns__0__user": ""}, "turns.0.user", "What does the user say"),
        ({"turns__0__calls__0__args": "{"}, "turns.0.calls.0.name", "Which tool"),
        ({"turns__0__calls__0__args": '{\n"a": oops}'}, "turns.0.calls.0.args", "line 2, column 6"),
        ({"state": "[1]"}, "state", "An object is needed"),
        ({"final_state": '{"a": NaN}'}, "final_state", "NaN is no number"),
        ({"turns__0__state": "[" * 100_000}, "turns.0.state", "No JSON"),
        ({"rubrics__0__id": "r"}, "rubrics.0.property", "good answer"),
        ({"turns__0__responses__0__text": "x"}, "turns.0.responses.0.author", "Which agent"),
        ({"kind": "scenario"}, "starting_prompt", "simulated user"),
        ({"kind": "scenario", "persona": "own"}, "persona_json", "Describe the persona"),
    ],
)
def test_invalid_input_shows_error_at_its_field(changed, field, message):
    assert message in apply_form(case("a", turn("x")), **changed).errors[field]


def test_hostile_names_of_fields_are_no_harm():
    assert parse_nested(
        [("a." * 50, "x"), ("turns.x", "1"), ("turns.x.y", "2"), (".", "3"), ("turns.99999999999", "4")]
    )
    listed = parse_nested([("t.1000000.a", "b"), ("t.5.a", "a")])
    assert [row["a"] for row in listed["t"]] == ["a", "b"]


def test_message_with_several_parts_keeps_non_text_parts():
    message = {"parts": [{"text": "a"}, {"inline_data": {"data": "aGk="}}, {"text": "b"}], "role": "user"}
    assert with_text(message, "c", "user") == {
        "parts": [{"text": "c"}, {"inline_data": {"data": "aGk="}}],
        "role": "user",
    }
    assert with_text(message, "", "user") == {"parts": [{"inline_data": {"data": "aGk="}}], "role": "user"}
    assert with_text(None, "c", "model") == {"role": "model", "parts": [{"text": "c"}]}
    assert with_text({"parts": [{"text": "a"}]}, "", "model") is None
