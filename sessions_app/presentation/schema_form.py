"""Build a form from a JSON schema, and read the submitted JSON value. Pure.

Each property of an object becomes a field; any other schema becomes a single field with an empty name. A nested object
becomes a group of fields, which may be filled in as JSON instead. Schemas without a control (unions, objects with
arbitrary keys) are always filled in as JSON. Empty fields and groups are unset.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from django.utils.datastructures import MultiValueDict

from sessions_app.store import scopes, text_input

ControlKind = Literal["text", "integer", "number", "boolean", "choice", "choices", "list", "group", "json"]
Schema = Mapping[str, Any]
Choices = tuple[tuple[str, str], ...]
"""(value, label) pairs."""

KIND_BY_TYPE: Mapping[str, ControlKind] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}
BOOLEANS = (("true", "yes"), ("false", "no"))

MAX_REFERENCES = 20
"""References that are followed in a row; a schema may refer to itself."""

MAX_FIELDS = 100
"""Properties of an object with fields; an object with more is filled in as JSON."""

MAX_GROUP_FIELDS = 200
"""Fields in all groups of a form; later objects are filled in as JSON."""

MAX_DEPTH = 5
"""Depth of nested groups; deeper objects are filled in as JSON."""

MAX_CHOICES = 200
"""Most choices of a field; with more any text is accepted."""

MAX_KEYS = 12
"""Keys of an object that are listed beside its field."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field and its content.

    Attributes:
        name: its property; empty: the whole value.
        input_name: its name in the form.
        default: the value if it is unset, as JSON; empty: unknown.
        choices: its choices, or suggestions for a text.
        keys: the keys of an object that is filled in as JSON.
        item: the control of a list's values, one per line.
        fields: the fields of a group.
        text, selected_values: its content; for a group its JSON.
    """

    name: str
    input_name: str
    kind: ControlKind
    label: str
    description: str = ""
    default: str = ""
    choices: Choices = ()
    keys: tuple[str, ...] = ()
    item: ControlKind = "text"
    fields: tuple[FormField, ...] = ()
    is_required: bool = False
    is_deprecated: bool = False
    text: str = ""
    selected_values: tuple[str, ...] = ()
    error: str = ""

    @property
    def dom_id(self) -> str:
        """The id of its control."""
        return "field-" + "".join(sign if sign.isalnum() else "-" for sign in self.input_name)

    @property
    def is_set(self) -> bool:
        """Tell whether it has any content."""
        return bool(self.text.strip() or any(self.selected_values)) or has_input(self.fields)

    @property
    def is_wrong(self) -> bool:
        """Tell whether it or one of its fields has an error."""
        return bool(self.error) or any(field.is_wrong for field in self.fields)


def build_fields(schema: Schema, prefix: str) -> list[FormField]:
    """Return the empty fields of a schema's form; their input names start with a prefix.

    There are none without a schema, or if it has too many properties.
    """
    if not schema:
        return []
    simplified = _simplify_schema(schema, schema)
    properties = simplified.get("properties")
    builder = _FormBuilder(schema)
    if not isinstance(properties, Mapping) or not properties:
        return [builder.field("", simplified, prefix.rstrip("."), is_required=True, depth=0)]
    if len(properties) > MAX_FIELDS:
        return []
    return list(builder.fields(simplified, prefix, depth=0))


def fill_fields(fields: Sequence[FormField], posted: MultiValueDict[str, str]) -> list[FormField]:
    """Return the fields with their submitted content."""
    return [
        replace(
            field,
            text=posted.get(field.input_name, ""),
            selected_values=tuple(posted.getlist(field.input_name)),
            fields=tuple(fill_fields(field.fields, posted)),
        )
        for field in fields
    ]


def set_value(field: FormField, value: Any) -> FormField | None:
    """Return a field with a value as its content; None if its control cannot show the value exactly."""
    filled = _set_content(field, value)
    return filled if _read_field(filled) == (value, filled) else None


def sort_by_control(fields: Sequence[FormField]) -> list[FormField]:
    """Return the fields with a control first, then groups and JSON fields, then deprecated fields."""
    return sorted(fields, key=lambda field: (field.is_deprecated, field.kind in {"group", "json"}))


def has_input(fields: Sequence[FormField]) -> bool:
    """Tell whether a form has any content."""
    return any(field.is_set for field in fields)


def invalid_fields(fields: Sequence[FormField]) -> list[FormField]:
    """Return the fields with errors, including those in groups."""
    return [
        nested_field
        for field in fields
        for nested_field in (field, *invalid_fields(field.fields))
        if nested_field.error
    ]


def read_value(fields: Sequence[FormField]) -> tuple[Any, list[FormField]]:
    """Return the value of filled fields, and the fields with their errors."""
    pairs = [_read_field(field) for field in fields]
    checked = [field for _, field in pairs]
    values = {field.name: value for value, field in pairs if value is not None}
    if len(fields) == 1 and not fields[0].name:
        return values.get(""), checked
    return values, checked


def parse_json_input(text: str) -> tuple[Any, str]:
    """Return the value of a JSON text and an error, which is empty if every JSON parser can read the text."""
    try:
        value = text_input.parse_json(text)
        scopes.dump_storable(value)
    except json.JSONDecodeError as error:
        return None, f"Line {error.lineno}, column {error.colno}: {error.msg}."
    except RecursionError:
        return None, "It is nested too deeply."
    except text_input.TooManyValues:
        return None, f"It has more than {text_input.MAX_VALUES:,} values."
    except UnicodeEncodeError:
        return None, "It contains a lone surrogate, which is half of a character."
    except ValueError:
        return None, "It is no JSON: it contains NaN, Infinity, or a number that is too large."
    return value, ""


def _set_content(field: FormField, value: Any) -> FormField:
    if field.kind == "group" and isinstance(value, dict):
        nested_fields = tuple(
            _set_content(nested, value[nested.name]) if nested.name in value else nested
            for nested in field.fields
        )
        filled = replace(field, fields=nested_fields)
        return filled if _read_field(filled)[0] == value else replace(field, text=_as_text(value))
    if field.kind == "choices" and isinstance(value, list):
        return replace(field, selected_values=tuple(map(str, value)))
    if field.kind == "list" and isinstance(value, list):
        return replace(field, text="\n".join(map(_as_text, value)))
    if field.kind == "text" and "\n" in str(value):  # the control has one line
        return field
    return replace(field, text=_as_text(value))


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _read_field(field: FormField) -> tuple[Any, FormField]:
    """Return a field's value, None if it is unset or invalid, and the field with its errors."""
    if field.fields and not field.text.strip() and has_input(field.fields):
        value, fields = read_value(field.fields)
        return value, replace(field, fields=tuple(fields))
    try:
        return _parse_field(field), field
    except ValueError as error:
        return None, replace(field, error=str(error))


def _parse_field(field: FormField) -> Any:
    """Return the value of a field's own content, None if it is empty.

    Raises:
        ValueError: the content is invalid; its text is for the page.
    """
    text = field.text.replace("\r\n", "\n")
    values = [value for value in field.selected_values if value]
    if not (values if field.kind == "choices" else text.strip()):
        if field.is_required:
            raise ValueError("A value is needed here.")
        return None
    if field.kind == "choices":
        return [_check_choice(value, field.choices) for value in values]
    if field.kind == "list":
        return _parse_lines(field.item, text)
    if has_input(field.fields):
        raise ValueError("Its fields and its JSON are both filled in: leave one of them empty.")
    return _parse_text(field.kind, text, field.choices)


def _parse_lines(kind: ControlKind, text: str) -> list[Any]:
    values = []
    for number, line in enumerate(filter(None, map(str.strip, text.split("\n"))), 1):
        try:
            values.append(_parse_text(kind, line))
        except ValueError as error:
            raise ValueError(f"Line {number}: {error}") from error
    return values


def _parse_text(kind: ControlKind, text: str, choices: Choices = ()) -> Any:
    if kind == "text":
        return text
    text = text.strip()
    if kind in {"boolean", "choice"}:
        return _check_choice(text, choices) == "true" if kind == "boolean" else _check_choice(text, choices)
    if kind == "integer":
        try:
            return int(text)
        except ValueError:
            raise ValueError("This is no whole number.") from None
    value, error = parse_json_input(text)
    if kind == "number" and (error or isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError("This is no number.")
    if error or (kind == "group" and not isinstance(value, dict)):
        raise ValueError(error or "This is no JSON object.")
    return value


def _check_choice(value: str, choices: Choices) -> str:
    if value not in dict(choices):
        raise ValueError(f"{value} cannot be chosen.")
    return value


@dataclass(slots=True)
class _FormBuilder:
    """Builds a form from a schema. `room` is the number of fields that groups may still have."""

    root: Schema
    room: int = MAX_GROUP_FIELDS

    def fields(self, schema: Schema, prefix: str, depth: int) -> Iterator[FormField]:
        """Yield a field for each property of an object."""
        required = set(_list_texts(schema.get("required")))
        for name, property_schema in schema["properties"].items():
            if isinstance(property_schema, Mapping):
                yield self.field(
                    name, property_schema, f"{prefix}{name}", is_required=name in required, depth=depth
                )

    def field(
        self, name: str, written_schema: Schema, input_name: str, *, is_required: bool, depth: int
    ) -> FormField:
        """Return the field of a value."""
        schema = _simplify_schema(written_schema, self.root)
        kind, choices, item = _choose_control(schema, self.root)
        described = written_schema.get("description") or schema.get("description") or ""
        default = written_schema.get("default", schema.get("default"))
        properties = schema.get("properties")
        keys = tuple(map(str, properties)) if isinstance(properties, Mapping) else ()
        within: tuple[FormField, ...] = ()
        if kind == "json" and keys and depth < MAX_DEPTH and len(keys) <= min(self.room, MAX_FIELDS):
            self.room -= len(keys)
            within = tuple(self.fields(schema, f"{input_name}.", depth + 1))
        return FormField(
            name=name,
            input_name=input_name,
            kind="group" if within else kind,
            label=name or str(schema.get("title") or "Answer"),
            description=str(described),
            default="" if default is None else json.dumps(default, ensure_ascii=False),
            choices=choices,
            keys=keys[:MAX_KEYS] if kind == "json" else (),
            item=item,
            fields=within,
            is_required=is_required,
            is_deprecated=bool(written_schema.get("deprecated") or schema.get("deprecated")),
        )


def _choose_control(schema: Schema, root: Schema) -> tuple[ControlKind, Choices, ControlKind]:
    """Return a schema's control, its choices, and the control of a list's values."""
    if choices := _text_choices(schema):
        return "choice", choices, "text"
    items, options = schema.get("items"), schema.get("anyOf")
    if schema.get("type") == "array" and isinstance(items, Mapping):
        simplified = _simplify_schema(items, root)
        if choices := _text_choices(simplified):
            return "choices", choices, "text"
        item = _kind_by_type(simplified)
        return ("list", (), item) if item in {"text", "integer", "number"} else ("json", (), "text")
    if simple := _kind_by_type(schema):
        return simple, BOOLEANS if simple == "boolean" else (), "text"
    if isinstance(options, list):  # a union: texts with suggestions, or JSON
        parts = [_simplify_schema(option, root) for option in options if isinstance(option, Mapping)]
        if parts and all(option.get("type") == "string" or _text_choices(option) for option in parts):
            return "text", tuple(choice for option in parts for choice in _text_choices(option)), "text"
    return "json", (), "text"


def _kind_by_type(schema: Schema) -> ControlKind | None:
    kind = schema.get("type")
    return KIND_BY_TYPE.get(kind) if isinstance(kind, str) else None


def _text_choices(schema: Schema) -> Choices:
    """Return the choices of an enumeration of texts; empty for other schemas."""
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    choices = [value for value in values if value is not None] if isinstance(values, list) else []
    if not choices or len(choices) > MAX_CHOICES or len(_list_texts(choices)) < len(choices):
        return ()
    return tuple((value, value) for value in choices)


def _list_texts(value: Any) -> list[str]:
    """Return the texts in a list; other values are ignored."""
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _simplify_schema(schema: Schema, root: Schema) -> Schema:
    """Return a schema with resolved references, and without the null of optional values."""
    for _ in range(MAX_REFERENCES):
        if "$ref" in schema:
            schema = {**_resolve_reference(str(schema["$ref"]), root), **_without_keys(schema, "$ref")}
            continue
        options = schema.get("anyOf") or schema.get("oneOf") or []
        options = options if isinstance(options, list) else []
        non_null = [
            option for option in options if isinstance(option, Mapping) and option.get("type") != "null"
        ]
        if len(non_null) != 1:
            if non_null and len(non_null) < len(options):
                return {**schema, "anyOf": non_null}
            break
        schema = {**non_null[0], **_without_keys(schema, "anyOf", "oneOf")}
    kind = schema.get("type")
    if isinstance(kind, list):  # a list of types, as JSON schema allows
        type_names = [option for option in kind if option != "null"]
        return {**schema, "type": type_names[0] if len(type_names) == 1 else ""}
    if isinstance(kind, str) and kind.isupper():  # as genai's Schema spells them
        return {**schema, "type": kind.lower()}
    return schema


def _without_keys(schema: Schema, *left_out: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in left_out}


def _resolve_reference(reference: str, root: Schema) -> Schema:
    schema: Any = root
    for step in reference.removeprefix("#/").split("/"):
        schema = schema.get(step) if isinstance(schema, Mapping) else None
    return schema if isinstance(schema, Mapping) else {}
