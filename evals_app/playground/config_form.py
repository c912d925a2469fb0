"""The generation config of a column as fields, made of the JSON schema of ADK's class. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.utils.datastructures import MultiValueDict

from sessions_app.presentation.schema_form import (
    FormField,
    build_fields,
    fill_fields,
    invalid_fields,
    read_value,
    set_value,
    sort_by_control,
)

Inputs = Mapping[str, Sequence[str]]
"""Submitted texts by the name of their field; several for a field with checkboxes."""

MAX_SHOWN_NAME = 80
"""Characters of a name that an error quotes."""


def build_config_fields(schema: Mapping[str, Any], inputs: Inputs, prefix: str) -> list[FormField]:
    """Return the fields of a config with their content and its errors; the names of their inputs have a prefix."""
    posted = MultiValueDict({f"{prefix}{name}": list(values) for name, values in inputs.items()})
    _, checked = read_value(fill_fields(build_fields(schema, prefix), posted))
    return sort_by_control(checked)


def split_config(schema: Mapping[str, Any], config: Mapping[str, Any]) -> tuple[Inputs, dict[str, Any]]:
    """Split a config into the inputs of its form, and the values that no field can show."""
    fields = {field.name: field for field in build_fields(schema, "")}
    inputs: dict[str, Sequence[str]] = {}
    others = {}
    for name, value in config.items():
        filled = set_value(fields[name], value) if name in fields else None
        if filled is None:
            others[name] = value
        else:
            inputs.update(_list_inputs([filled]))
    return inputs, others


def parse_inputs(schema: Mapping[str, Any], inputs: Inputs) -> dict[str, Any]:
    """Return the values of the fields that are set.

    Raises:
        ValueError: an input is invalid. The message names its field and the rule.
    """
    fields = build_config_fields(schema, inputs, "")
    names = set(_list_names(fields))
    for name, texts in inputs.items():
        if any(texts) and name not in names:
            raise ValueError(f"{name[:MAX_SHOWN_NAME]}: there is no such field.")
    if not fields:
        return {}
    values, checked = read_value(fields)
    for field in invalid_fields(checked):
        raise ValueError(f"{field.input_name}: {field.error}")
    return dict(values)


def _list_names(fields: Sequence[FormField]) -> Iterator[str]:
    for field in fields:
        yield field.input_name
        yield from _list_names(field.fields)


def _list_inputs(fields: Sequence[FormField]) -> Iterator[tuple[str, Sequence[str]]]:
    for field in fields:
        if field.text or field.selected_values:
            yield field.input_name, field.selected_values or (field.text,)
        yield from _list_inputs(field.fields)
