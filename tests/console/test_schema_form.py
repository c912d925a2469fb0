"""Forms for JSON schemas, and the values that they send."""

from __future__ import annotations

import pytest
from django.http import QueryDict

from sessions_app.presentation import schema_form
from sessions_app.presentation.schema_form import FormField

LEAVE = {
    "type": "object",
    "required": ["days"],
    "properties": {
        "days": {"type": "integer", "description": "How many?"},
        "paid": {"anyOf": [{"type": "boolean"}, {"type": "null"}], "default": None},
        "kind": {"$ref": "#/$defs/Kind", "default": "holiday"},
        "hours": {"type": "number"},
        "who": {"type": "array", "items": {"enum": ["me", "team"]}},
        "more": {
            "type": "object",
            "required": ["a"],
            "properties": {
                "a": {"type": "integer"},
                "b": {"anyOf": [{"$ref": "#/$defs/Deep"}, {"type": "null"}]},
            },
        },
        "notes": {"type": "array", "items": {"type": "string"}},
        "rates": {"type": "array", "items": {"type": "number"}},
        "free": {"type": "object", "additionalProperties": {"type": "string"}},
        "tier": {"anyOf": [{"enum": ["slow"], "type": "string"}, {"type": "string"}]},
    },
    "$defs": {
        "Kind": {"type": "string", "enum": ["holiday", "sick"]},
        "Deep": {"type": "object", "properties": {"c": {"type": "boolean"}}},
    },
}


def read_form(query: str) -> tuple[object, dict[str, str]]:
    """Return what a form of `LEAVE` says, and what is wrong with it."""
    fields = schema_form.fill_fields(schema_form.build_fields(LEAVE, "a."), QueryDict(query))
    value, problems = schema_form.read_value(fields)
    return value, {
        field.input_name.removeprefix("a."): field.error for field in schema_form.invalid_fields(problems)
    }


def test_every_property_is_a_field_with_the_control_that_fits():
    fields = {field.name: field for field in schema_form.build_fields(LEAVE, "a.")}
    assert {name: field.kind for name, field in fields.items()} == {
        "days": "integer",
        "paid": "boolean",
        "kind": "choice",
        "hours": "number",
        "who": "choices",
        "more": "group",
        "notes": "list",
        "rates": "list",
        "free": "json",
        "tier": "text",
    }
    assert fields["days"].is_required
    assert (fields["kind"].default, fields["kind"].choices[1]) == ('"holiday"', ("sick", "sick"))
    assert [field.input_name for field in fields["more"].fields] == ["a.more.a", "a.more.b"]
    assert [field.input_name for field in fields["more"].fields[1].fields] == ["a.more.b.c"]
    assert fields["rates"].item == "number"
    assert fields["tier"].choices == (("slow", "slow"),)


def test_filled_fields_are_typed_and_empty_ones_unset():
    assert read_form("a.days=3&a.paid=false&a.hours=1.5&a.who=me&a.who=team&a.more=%7B%22a%22%3A1%7D") == (
        {"days": 3, "paid": False, "hours": 1.5, "who": ["me", "team"], "more": {"a": 1}},
        {},
    )


def test_an_object_is_filled_in_by_its_fields_or_as_json():
    assert read_form("a.days=1&a.more.a=2&a.more.b.c=true") == (
        {"days": 1, "more": {"a": 2, "b": {"c": True}}},
        {},
    )
    assert read_form("a.days=1&a.more=%7B%22z%22%3A1%7D") == ({"days": 1, "more": {"z": 1}}, {})
    assert read_form("a.days=1") == ({"days": 1}, {}), (
        "a group in which nothing stands is unset, what it needs too"
    )


def test_a_list_is_a_value_a_line():
    assert read_form("a.days=1&a.notes=one%0D%0A%0D%0A two &a.rates=1%0A2.5") == (
        {"days": 1, "notes": ["one", "two"], "rates": [1, 2.5]},
        {},
    )


@pytest.mark.parametrize(
    ("query", "field", "words"),
    [
        ("", "days", "needed"),
        ("a.days=x", "days", "whole number"),
        ("a.days=1.5", "days", "whole number"),
        ("a.days=1&a.hours=NaN", "hours", "no number"),
        ("a.days=1&a.hours=1e999", "hours", "no number"),
        ("a.days=1&a.hours=true", "hours", "no number"),
        ("a.days=1&a.kind=late", "kind", "cannot be chosen"),
        ("a.days=1&a.who=you", "who", "cannot be chosen"),
        ("a.days=1&a.paid=maybe", "paid", "cannot be chosen"),
        ("a.days=1&a.more={", "more", "Line 1, column 2"),
        ("a.days=1&a.more=[]", "more", "no JSON object"),
        ("a.days=1&a.more=%7B%7D&a.more.a=1", "more", "leave one of them empty"),
        ("a.days=1&a.more.a=x", "more.a", "whole number"),
        ("a.days=1&a.more.b.c=true", "more.a", "needed"),
        ("a.days=1&a.more.a=1&a.more.b.c=maybe", "more.b.c", "cannot be chosen"),
        ("a.days=1&a.rates=1%0Ax", "rates", "Line 2: This is no number"),
        ("a.days=1&a.more=" + "[" * 100_000, "more", "nested too deeply"),
    ],
)
def test_invalid_input_shows_error_at_its_field(query, field, words):
    _, errors = read_form(query)
    assert list(errors) == [field]
    assert words in errors[field]


def test_schema_of_single_value_is_one_unnamed_field():
    [field] = schema_form.build_fields({"type": "string", "title": "City"}, "answer.")
    assert (field.name, field.input_name, field.label) == ("", "answer", "City")
    value, _ = schema_form.read_value(schema_form.fill_fields([field], QueryDict("answer=Paris")))
    assert value == "Paris"


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/Loop", "$defs": {"Loop": {"$ref": "#/$defs/Loop"}}},
        {"$ref": "#/nowhere/at/all"},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"type": ["string", "integer", "null"]},
        {"enum": [1, 2]},
        {"items": "x", "type": "array"},
    ],
)
def test_minimal_schema_still_makes_a_form(schema):
    assert [field.kind for field in schema_form.build_fields(schema, "a.")] == ["json"]


def test_a_property_that_is_no_schema_has_no_field():
    assert schema_form.build_fields({"properties": {"a": 1}, "type": "object"}, "a.") == []


def test_types_may_be_spelled_as_in_genai_and_as_lists():
    fields = schema_form.build_fields(
        {"type": "OBJECT", "properties": {"a": {"type": "STRING"}, "b": {"type": ["integer", "null"]}}}, "a."
    )
    assert [field.kind for field in fields] == ["text", "integer"]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"enum": 7, "anyOf": "x", "oneOf": 3, "description": ["?"]}}, "required": 7},
        {"properties": {"a": {"$ref": 5}}, "required": [[]]},
        {"properties": [1]},
        {"anyOf": [None, 3]},
        {"type": {"a": 1}, "enum": {"b": 2}},
    ],
)
def test_a_schema_that_is_none_breaks_no_page(schema):
    assert len(schema_form.build_fields(schema, "a.")) == 1


def test_form_of_a_very_large_schema_is_bounded():
    assert schema_form.build_fields({"properties": {f"p{n}": {} for n in range(101)}}, "a.") == []
    [field] = schema_form.build_fields({"enum": [str(n) for n in range(1000)], "type": "string"}, "a.")
    assert (field.kind, field.choices) == ("text", ())


def test_a_schema_that_holds_itself_ends():
    loop = {
        "$ref": "#/$defs/A",
        "$defs": {"A": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}},
    }
    [field] = schema_form.build_fields(loop, "a.")
    depth = 0
    while field.fields:
        [field], depth = field.fields, depth + 1
    assert (depth, field.kind) == (schema_form.MAX_DEPTH, "json")


def test_objects_in_objects_make_no_endless_form():
    wide = {"type": "object", "properties": {f"p{n}": {"$ref": "#/$defs/W"} for n in range(50)}}
    fields = schema_form.build_fields({**wide, "$defs": {"W": wide}}, "a.")

    def count(among: list[FormField]) -> int:
        return sum(1 + count(list(field.fields)) for field in among)

    assert count(fields) <= 50 + schema_form.MAX_GROUP_FIELDS
    assert {field.kind for field in fields} == {"group", "json"}


def test_no_schema_is_no_form():
    assert schema_form.build_fields({}, "a.") == []
