"""Open questions of agents."""

from __future__ import annotations

import pytest
from django.http import QueryDict

from sessions_app.console.answers import read_answer
from sessions_app.console.credential_requests import InvalidAnswer
from sessions_app.console.questions import CONFIRMATION, Question, find_question, open_questions
from sessions_app.timeline import event_window as windows
from tests.timeline.story import Story


def questions_of(story: Story) -> list[Question]:
    session = story.session
    result = open_questions(session, windows.newest(session).events)
    return [question for questions in result.values() for question in questions]


def test_a_long_running_call_waits_until_the_user_answers(story):
    story.calls("request_leave", "c1", waiting=True, days=3)
    [question] = questions_of(story)
    assert (question.tool, question.args, question.is_confirmation) == ("request_leave", {"days": 3}, False)

    story.answers("request_leave", "c1", author="user")
    assert questions_of(story) == []


def test_interim_tool_result_does_not_close_the_call(story):
    story.calls("request_leave", "c1", waiting=True)
    story.answers("request_leave", "c1", response={"status": "pending"})
    assert len(questions_of(story)) == 1


def test_a_confirmation_names_the_call_it_is_about(story):
    story.calls(
        CONFIRMATION,
        "c2",
        waiting=True,
        originalFunctionCall={"id": "c1", "name": "pay", "args": {"amount": 120, "note": "x" * 5000}},
        toolConfirmation={"hint": "Pay?", "confirmed": False, "payload": {"limit": 100}},
    )
    [question] = questions_of(story)
    assert question.is_confirmation
    assert (question.tool, question.args["amount"], question.hint) == ("pay", 120, "Pay?")
    assert question.payload == {"limit": 100}


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (
            "Please approve or reject the tool call pay() by responding with a FunctionResponse with an expected"
            " ToolConfirmation payload.",
            "",
        ),
        ("Please approve or reject the bash command: ls", "Please approve or reject the bash command: ls"),
        ("Pay?", "Pay?"),
    ],
)
def test_adks_hint_for_programs_is_hidden(story, hint, expected):
    story.calls(CONFIRMATION, "c2", waiting=True, toolConfirmation={"hint": hint})
    [question] = questions_of(story)
    assert question.hint == expected


def test_arguments_and_payload_are_shown_as_json(story):
    story.calls(
        CONFIRMATION,
        "c2",
        waiting=True,
        originalFunctionCall={"name": "pay", "args": {"to": "Bob", "now": True, "what": {"of": None}}},
        toolConfirmation={"payload": {"limit": 1}},
    )
    [question] = questions_of(story)
    assert question.argument_texts == {"to": "Bob", "now": "true", "what": '{"of":null}'}
    assert question.payload_json == '{\n  "limit": 1\n}'


def test_an_ordinary_call_asks_nothing_and_costs_no_query(story, django_assert_num_queries):
    story.calls("get_weather", "c1")
    session = story.session
    events = windows.newest(session).events
    with django_assert_num_queries(0):
        assert open_questions(session, events) == {}


def test_the_answer_may_lie_outside_of_the_window(story):
    story.calls("request_leave", "c1", waiting=True)
    story.answers("request_leave", "c1", author="user")
    session = story.session
    assert open_questions(session, windows.before(session, 2).events) == {}


def test_only_open_calls_are_found_by_id(story):
    story.calls("request_leave", "c1", waiting=True)
    story.calls("request_leave", "c2", waiting=True)
    story.answers("request_leave", "c1", author="user")
    session = story.session
    assert find_question(session, "c1") is None
    assert find_question(session, "nobody") is None
    assert find_question(session, "c2").seq == 2


@pytest.mark.parametrize(
    ("name", "options", "choices"),
    [
        ("get_user_choice", ["tea", "<b>coffee</b>"], ["tea", "<b>coffee</b>"]),
        ("get_user_choice", [1, 2], []),
        ("get_user_choice", ["tea"] * 21, []),
        ("get_user_choice", "tea", []),
        ("ask_boss", ["tea"], []),
    ],
)
def test_options_of_a_choice_are_known(story, name, options, choices):
    story.calls(name, "c1", waiting=True, options=options)
    [question] = questions_of(story)
    assert question.choices == choices


def test_choice_is_answered_by_its_button(story, get):
    story.calls("get_user_choice", "c1", waiting=True, options=["tea", '{"a": 1}'])
    form = get(f"/sessions/id/{story.pk}/").one("form", css="question")
    buttons = [button for button in form.all("button") if button.attrs.get("name") == "choice"]
    assert [button.text for button in buttons] == ["tea", '{"a": 1}']
    [question] = questions_of(story)
    posted = QueryDict(f"choice={buttons[1].attrs['value']}&response=")
    assert read_answer(question, posted) == {"result": '{"a": 1}'}
    for unknown in ("2", "-1", "tea", "²", "9" * 5_000):
        with pytest.raises(InvalidAnswer, match="none of the choices"):
            read_answer(question, QueryDict(f"choice={unknown}"))
