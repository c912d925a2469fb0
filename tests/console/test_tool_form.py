"""The form of a call of a tool, and what it sends."""

from __future__ import annotations

import pytest
from django.http import QueryDict

from sessions_app.forms.tools import ToolCallForm

SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "nights": {"type": "integer"},
        "guest": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "extra": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
    },
    "required": ["city"],
}


def fill(query: str, schema: dict = SCHEMA) -> ToolCallForm:
    return ToolCallForm(schema, QueryDict(f"seconds=30&{query}"))


def errors(query: str) -> list[str]:
    form = fill(query)
    assert not form.is_valid()
    return [str(error) for faults in form.errors.values() for error in faults]


def test_fields_of_the_schema_become_arguments():
    form = fill("args.city=Paris&args.nights=2&args.guest.name=Ada&args.extra=[1]&confirmation=confirmed")
    assert form.is_valid(), form.errors
    assert form.call_body("book", "handy") == {
        "tool": "book",
        "agent": "handy",
        "args": {"city": "Paris", "nights": 2, "guest": {"name": "Ada"}, "extra": [1]},
        "state": {},
        "confirmation": "confirmed",
        "time_limit_s": 30,
    }


def test_json_replaces_the_fields_and_may_hold_what_they_cannot():
    form = fill('args_json={"city": "", "other": null}')
    assert form.is_valid(), form.errors
    assert form.cleaned_data["args"] == {"city": "", "other": None}


def test_tool_without_arguments_has_no_fields():
    form = fill("", {"type": "object", "properties": {}})
    assert form.is_valid(), form.errors
    assert (form.arguments, form.cleaned_data["args"]) == ([], {})


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("", "city: A value is needed here."),
        ("args.city=Paris&args.nights=two", "nights: This is no whole number."),
        ("args.city=Paris&args.guest=[]", "guest: This is no JSON object."),
        ("args.city=Paris&args.town=x", "town: the tool has no such parameter. Reload the page."),
        ('args.city=Paris&args_json={"city": "Oslo"}', "Fill in either the fields or the JSON"),
        ("args_json=[1]", "The arguments are a JSON object"),
        ("args_json={", "Line 1, column 2"),
        ("args.city=Paris&state=[]", "The state is a JSON object"),
        ("args.city=Paris&from_session=x", "Enter a whole number."),
        ("args.city=Paris&confirmation=maybe", "Select a valid choice."),
    ],
)
def test_invalid_input_is_refused_with_its_rule(query, error):
    assert any(message.startswith(error) for message in errors(query)), errors(query)


@pytest.mark.parametrize("seconds", ["0", "301", "nan", "inf", "x", ""])
def test_time_limit_has_a_bound(seconds):
    assert not ToolCallForm(SCHEMA, QueryDict(f"args.city=Paris&seconds={seconds}")).is_valid()
