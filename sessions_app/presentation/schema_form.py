"""Build a form from a JSON schema, and read the submitted JSON value. Pure.

Each property of an object becomes a field; any other schema becomes a single field with an empty name. A nested object
becomes a group of fields, which may be filled in as JSON instead. Schemas without a control (unions, objects with
arbitrary keys) are always filled in as JSON. Empty fields and groups are unset.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

ControlKind = Literal["text", "integer", "number", "boolean", "choice", "choices", "list", "group", "json"]
Schema = Mapping[str, Any]

KIND_BY_TYPE: Mapping[str, ControlKind] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}
BOOLEANS = (("true", "yes"), ("false", "no"))

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that may be a lone surrogate."""

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


class PostedData(Protocol):
    """Submitted form data: Django's `QueryDict`."""

    def get(self, name: str, default: str, /) -> str:
        """Return the last value of a name."""

    def getlist(self, name: str, /) -> list[str]:
        """Return all values of a name."""


@dataclass(frozen=True, slots=True)
class FormField:
    """A field and its content.

    Attributes:
        name: its property; empty: the whole value.
        input_name: its name in the form.
        default: the value if it is unset, as JSON; empty: unknown.
        choices: (value, label) of the choices, or suggestions for a text.
        keys: the keys of an object that is filled in as JSON.
        item: the control of a list's values, one per line.
        fields: the fields of a group.
        text, chosen: its content; for a group its JSON.
    """

    name: str
    input_name: str
    kind: ControlKind
    label: str
    description: str = ""
    default: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()
    item: ControlKind = "text"
    fields: tuple[FormField, ...] = ()
    is_required: bool = False
    is_deprecated: bool = False
    text: str = ""
    chosen: tuple[str, ...] = ()
    error: str = ""

    @property
    def dom_id(self) -> str:
        """The id of its control."""
        return "field-" + "".join(sign if sign.isalnum() else "-" for sign in self.input_name)

    @property
    def is_set(self) -> bool:
        """Tell whether it has any content."""
        return bool(self.text.strip() or any(self.chosen)) or has_input(self.fields)

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


def fill_fields(fields: Sequence[FormField], posted: PostedData) -> list[FormField]:
    """Return the fields with their submitted content."""
    return [
        replace(
            field,
            text=posted.get(field.input_name, ""),
            chosen=tuple(posted.getlist(field.input_name)),
            fields=tuple(fill_fields(field.fields, posted)),
        )
        for field in fields
    ]


def has_input(fields: Sequence[FormField]) -> bool:
    """Tell whether a form has any content."""
    return any(field.is_set for field in fields)


def invalid_fields(fields: Sequence[FormField]) -> list[FormField]:
    """Return the fields with errors, including those in groups."""
    found = []
    for field in fields:
        found += [field] if field.error else []
        found += invalid_fields(field.fields)
    return found


def read_value(fields: Sequence[FormField]) -> tuple[Any, list[FormField]]:
    """Return the value of filled fields, and the fields with their errors."""
    told: list[FormField] = []
    values: dict[str, Any] = {}
    for field in fields:
        if field.kind == "group":
            value, judged = _read_group(field)
        else:
            value, error = _read_field(field)
            judged = replace(field, error=error)
        told.append(judged)
        if value is not None:
            values[field.name] = value
    if len(fields) == 1 and not fields[0].name:
        return values.get(""), told
    return values, told


def describe_json_error(error: Exception) -> str:
    """Return why a text is not JSON."""
    if isinstance(error, json.JSONDecodeError):
        return f"Line {error.lineno}, column {error.colno}: {error.msg}."
    if isinstance(error, RecursionError):
        return "It is nested too deeply."
    return f"It is no JSON: {error}."


def load_json(text: str) -> Any:
    """Return the value of JSON text.

    Raises:
        ValueError: the text is not JSON, or contains NaN, an infinity or a lone surrogate.
            `describe_json_error` describes it.
        RecursionError: the text is nested too deeply.
    """
    value = json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_finite)
    if _SURROGATE.search(text):
        _refuse_surrogates(value)
    return value


def _parse_finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:40]} is too large a number")
    return number


def _refuse_surrogates(value: Any) -> None:
    """Refuse lone surrogates, which escapes can express but UTF-8 cannot."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(f"{half} is half of a character") from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _read_group(field: FormField) -> tuple[Any, FormField]:
    """Return the object of a group, None if it is unset, and the group with its errors."""
    in_fields = has_input(field.fields)
    if field.text.strip():
        value, error = _parse_text(field, field.text.strip())
        if in_fields:
            error = "Its fields and its JSON both say something: leave one of them empty."
        elif not error and not isinstance(value, dict):
            error = "This is no JSON object."
        return (None if error else value), replace(field, error=error)
    if not in_fields:
        return None, replace(field, error=_required_error(field, ""))
    value, told = read_value(field.fields)
    return value, replace(field, fields=tuple(told))


def _read_field(field: FormField) -> tuple[Any, str]:
    """Return a field's value, None if it is unset, and its error."""
    if field.kind == "choices":
        known = dict(field.choices)
        chosen = [value for value in field.chosen if value]
        wrong = [value for value in chosen if value not in known]
        return (
            (None, f"{wrong[0]} cannot be chosen.")
            if wrong
            else (chosen or None, _required_error(field, chosen))
        )
    text = field.text.replace("\r\n", "\n")
    if not text.strip():
        return None, _required_error(field, text.strip())
    if field.kind == "text":
        return text, ""
    if field.kind == "list":
        return _read_lines(field, [line.strip() for line in text.split("\n") if line.strip()])
    return _parse_text(field, text.strip())


def _read_lines(field: FormField, lines: Sequence[str]) -> tuple[Any, str]:
    """Return the values of a list, and the error of its first invalid line."""
    values = []
    for number, line in enumerate(lines, 1):
        value, error = (
            (line, "") if field.item == "text" else _parse_text(replace(field, kind=field.item), line)
        )
        if error:
            return None, f"Line {number}: {error}"
        values.append(value)
    return values, ""


def _required_error(field: FormField, given: object) -> str:
    return "A value is needed here." if field.is_required and not given else ""


def _parse_text(field: FormField, text: str) -> tuple[Any, str]:
    if field.kind in {"boolean", "choice"}:
        if text not in dict(field.choices):
            return None, f"{text} cannot be chosen."
        return (text == "true" if field.kind == "boolean" else text), ""
    try:
        if field.kind == "integer":
            return int(text), ""
        value = load_json(text)
    except (ValueError, RecursionError) as error:
        words = {"integer": "This is no whole number.", "number": "This is no number."}
        return None, words.get(field.kind) or describe_json_error(error)
    if field.kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
        return None, "This is no number."
    return value, ""


@dataclass(slots=True)
class _FormBuilder:
    """Builds a form from a schema. `room` is the number of fields that groups may still have."""

    root: Schema
    room: int = MAX_GROUP_FIELDS

    def fields(self, schema: Schema, prefix: str, depth: int) -> Iterator[FormField]:
        """Yield a field for each property of an object."""
        required = set(_texts(schema.get("required")))
        for name, each in schema["properties"].items():
            if isinstance(each, Mapping):
                yield self.field(name, each, f"{prefix}{name}", is_required=name in required, depth=depth)

    def field(self, name: str, given: Schema, input_name: str, *, is_required: bool, depth: int) -> FormField:
        """Return the field of a value."""
        schema = _simplify_schema(given, self.root)
        kind, choices, item = _control(schema, self.root)
        described = given.get("description") or schema.get("description") or ""
        default = given.get("default", schema.get("default"))
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
            is_deprecated=bool(given.get("deprecated") or schema.get("deprecated")),
        )


def _control(schema: Schema, root: Schema) -> tuple[ControlKind, tuple[tuple[str, str], ...], ControlKind]:
    """Return a schema's control, its choices, and the control of a list's values."""
    choices = _choices(schema)
    if choices:
        return "choice", choices, "text"
    kind = schema.get("type")
    if kind == "boolean":
        return "boolean", BOOLEANS, "text"
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        return _list_control(_simplify_schema(schema["items"], root))
    if isinstance(kind, str) and kind in KIND_BY_TYPE:
        return KIND_BY_TYPE[kind], (), "text"
    return *_union_control(schema, root), "text"


def _list_control(items: Schema) -> tuple[ControlKind, tuple[tuple[str, str], ...], ControlKind]:
    """Return the control of a list: checkboxes, lines of text, or JSON."""
    if choices := _choices(items):
        return "choices", choices, "text"
    kind = items.get("type")
    item = KIND_BY_TYPE.get(kind) if isinstance(kind, str) else None
    if item in {"text", "integer", "number"}:
        return "list", (), item
    return "json", (), "text"


def _union_control(schema: Schema, root: Schema) -> tuple[ControlKind, tuple[tuple[str, str], ...]]:
    """Return the control of a union: a text with suggestions if all options are texts, else JSON."""
    given = schema.get("anyOf")
    options = (
        [_simplify_schema(each, root) for each in given if isinstance(each, Mapping)]
        if isinstance(given, list)
        else []
    )
    if options and all(option.get("type") == "string" or _choices(option) for option in options):
        return "text", tuple(choice for option in options for choice in _choices(option))
    return "json", ()


def _choices(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Return the choices of an enumeration of texts; empty for other schemas."""
    given = [schema["const"]] if "const" in schema else schema.get("enum")
    named = [value for value in given if value is not None] if isinstance(given, list) else []
    if not named or len(named) > MAX_CHOICES or len(_texts(named)) < len(named):
        return ()
    return tuple((value, value) for value in named)


def _texts(value: Any) -> list[str]:
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
        kept = [each for each in options if isinstance(each, Mapping) and each.get("type") != "null"]
        if len(kept) == 1:
            schema = {**kept[0], **_without_keys(schema, "anyOf", "oneOf")}
            continue
        if kept and len(kept) < len(options):
            return {**schema, "anyOf": kept}
        break
    kind = schema.get("type")
    if isinstance(kind, list):  # a list of types, as JSON schema allows
        named = [each for each in kind if each != "null"]
        return {**schema, "type": named[0] if len(named) == 1 else ""}
    if isinstance(kind, str) and kind.isupper():  # as genai's Schema spells them
        return {**schema, "type": kind.lower()}
    return schema


def _without_keys(schema: Schema, *left_out: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in left_out}


def _resolve_reference(reference: str, root: Schema) -> Schema:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
