"""A form made of a JSON schema, and the JSON value that somebody filled in with it. Pure.

Every property of an object is a field, of any other schema its value is the one field, with an empty name. What a
control cannot say (objects in objects, unions) is written as JSON. A field that is left empty is unset.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

Kind = Literal["text", "integer", "number", "boolean", "choice", "choices", "json"]
Schema = Mapping[str, Any]

KINDS: Mapping[str, Kind] = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "boolean",
}
BOOLEANS = (("true", "yes"), ("false", "no"))

REFERENCES = 20
"""References that are followed one after the other: a schema may refer to itself."""

MOST_FIELDS = 100
"""Fields of a form: an object with more properties is written as JSON."""

MOST_CHOICES = 200
"""What can be chosen from: of more any text is taken."""

KEYS_NAMED = 12
"""Keys of an object that are named beside its field."""


class Posted(Protocol):
    """What was sent: Django's `QueryDict`."""

    def get(self, name: str, default: str, /) -> str:
        """Return the last value of a name."""

    def getlist(self, name: str, /) -> list[str]:
        """Return all values of a name."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field, and what stands in it.

    Attributes:
        name: the property it is for; empty: the value itself.
        input_name: its name in the form.
        default: what holds when it is unset, as JSON; empty: nothing is known of it.
        choices: (value, words) of what can be chosen, or of what a text may be among others.
        keys: names of the keys of an object that is written as JSON.
        text, chosen: what stands in it.
    """

    name: str
    input_name: str
    kind: Kind
    label: str
    description: str = ""
    default: str = ""
    choices: tuple[tuple[str, str], ...] = ()
    keys: tuple[str, ...] = ()
    is_required: bool = False
    is_deprecated: bool = False
    text: str = ""
    chosen: tuple[str, ...] = ()
    error: str = ""

    @property
    def dom_id(self) -> str:
        """The id of its control."""
        return "field-" + "".join(sign if sign.isalnum() else "-" for sign in self.input_name)


def fields_of(schema: Schema, prefix: str) -> list[Field]:
    """Return the empty fields of a schema's form, their names in the form with a prefix.

    No schema, and one of very many properties: no field.
    """
    if not schema:
        return []
    found = _plain(schema, schema)
    properties = found.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return [_field("", found, schema, prefix, is_required=True)]
    if len(properties) > MOST_FIELDS:
        return []
    required = set(_texts(found.get("required")))
    return [
        _field(name, each, schema, prefix, is_required=name in required)
        for name, each in properties.items()
        if isinstance(each, Mapping)
    ]


def fill(fields: Sequence[Field], posted: Posted) -> list[Field]:
    """Return the fields with what was sent in them."""
    return [
        replace(
            field,
            text=posted.get(field.input_name, ""),
            chosen=tuple(posted.getlist(field.input_name)),
        )
        for field in fields
    ]


def is_set(fields: Sequence[Field]) -> bool:
    """Tell whether anything stands in a form."""
    return any(field.text.strip() for field in fields)


def read(fields: Sequence[Field]) -> tuple[Any, list[Field]]:
    """Return the value that filled fields say, and the fields with what is wrong with them."""
    told: list[Field] = []
    values: dict[str, Any] = {}
    for field in fields:
        value, error = _value(field)
        told.append(replace(field, error=error))
        if value is not None:
            values[field.name] = value
    if len(fields) == 1 and not fields[0].name:
        return values.get(""), told
    return values, told


def with_errors(fields: Sequence[Field], errors: Mapping[str, str]) -> list[Field]:
    """Return the fields with what somebody else found wrong with them, by the names of properties."""
    return [replace(field, error=errors[field.name]) if field.name in errors else field for field in fields]


def json_problem(error: Exception) -> str:
    """Return in words why a text is no JSON."""
    if isinstance(error, json.JSONDecodeError):
        return f"Line {error.lineno}, column {error.colno}: {error.msg}."
    if isinstance(error, RecursionError):
        return "It is nested too deeply."
    return f"It is no JSON: {error}."


def load_json(text: str) -> Any:
    """Return the value of JSON text.

    Raises:
        ValueError: it is no JSON; NaN and infinities are none. `json_problem` says where.
        RecursionError: it is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")


def _value(field: Field) -> tuple[Any, str]:
    """Return a field's value, None when it is unset, and what is wrong with it."""
    if field.kind == "choices":
        known = dict(field.choices)
        chosen = [value for value in field.chosen if value]
        wrong = [value for value in chosen if value not in known]
        return (None, f"{wrong[0]} cannot be chosen.") if wrong else (chosen or None, _missing(field, chosen))
    text = field.text.replace("\r\n", "\n")
    if not text.strip():
        return None, _missing(field, text.strip())
    if field.kind == "text":
        return text, ""
    return _parsed(field, text.strip())


def _missing(field: Field, given: object) -> str:
    return "A value is needed here." if field.is_required and not given else ""


def _parsed(field: Field, text: str) -> tuple[Any, str]:
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
        return None, words.get(field.kind) or json_problem(error)
    if field.kind == "number" and (isinstance(value, bool) or not isinstance(value, int | float)):
        return None, "This is no number."
    return value, ""


def _field(name: str, given: Schema, root: Schema, prefix: str, *, is_required: bool) -> Field:
    schema = _plain(given, root)
    kind, choices = _control(schema, root)
    described = given.get("description") or schema.get("description") or ""
    default = given.get("default", schema.get("default"))
    properties = schema.get("properties")
    keys = tuple(map(str, properties)) if isinstance(properties, Mapping) else ()
    return Field(
        name=name,
        input_name=f"{prefix}{name}" if name else prefix.rstrip("."),
        kind=kind,
        label=name or str(schema.get("title") or "Answer"),
        description=str(described),
        default="" if default is None else json.dumps(default, ensure_ascii=False),
        choices=choices,
        keys=keys[:KEYS_NAMED] if kind == "json" else (),
        is_required=is_required,
        is_deprecated=bool(given.get("deprecated") or schema.get("deprecated")),
    )


def _control(schema: Schema, root: Schema) -> tuple[Kind, tuple[tuple[str, str], ...]]:
    """Return by which control a value of a schema is filled in, and what can be chosen."""
    choices = _choices(schema)
    if choices:
        return "choice", choices
    kind = schema.get("type")
    if kind == "boolean":
        return "boolean", BOOLEANS
    if kind == "array" and isinstance(schema.get("items"), Mapping):
        items = _choices(_plain(schema["items"], root))
        return ("choices", items) if items else ("json", ())
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind], ()
    return _union(schema, root)


def _union(schema: Schema, root: Schema) -> tuple[Kind, tuple[tuple[str, str], ...]]:
    """Return the control of a union: a text with suggestions when it is one of some names or any text."""
    given = schema.get("anyOf")
    options = (
        [_plain(each, root) for each in given if isinstance(each, Mapping)] if isinstance(given, list) else []
    )
    if options and all(option.get("type") == "string" or _choices(option) for option in options):
        return "text", tuple(choice for option in options for choice in _choices(option))
    return "json", ()


def _choices(schema: Schema) -> tuple[tuple[str, str], ...]:
    """Return what an enumeration of texts offers, else nothing."""
    given = [schema["const"]] if "const" in schema else schema.get("enum")
    named = [value for value in given if value is not None] if isinstance(given, list) else []
    if not named or len(named) > MOST_CHOICES or len(_texts(named)) < len(named):
        return ()
    return tuple((value, value) for value in named)


def _texts(value: Any) -> list[str]:
    """Return the texts of a list; whatever else stands there counts as none."""
    return [text for text in value if isinstance(text, str)] if isinstance(value, list) else []


def _plain(schema: Schema, root: Schema) -> Schema:
    """Return a schema with its references followed, and without the null of one that may be left out."""
    for _ in range(REFERENCES):
        if "$ref" in schema:
            schema = {**_referred(str(schema["$ref"]), root), **_beside(schema, "$ref")}
            continue
        options = schema.get("anyOf") or schema.get("oneOf") or []
        options = options if isinstance(options, list) else []
        kept = [each for each in options if isinstance(each, Mapping) and each.get("type") != "null"]
        if len(kept) == 1:
            schema = {**kept[0], **_beside(schema, "anyOf", "oneOf")}
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


def _beside(schema: Schema, *left_out: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in left_out}


def _referred(reference: str, root: Schema) -> Schema:
    found: Any = root
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else {}
