"""Tolerant access to fields of an event: a field of an unexpected type counts as empty. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

EMPTY: tuple[Any, ...] = (None, {}, [], {"path": ""})
"""Values that count as empty; the last one is ADK's `nodeInfo` outside of workflows."""


def object_field(fields: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a field that is an object."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def other_fields(names: Collection[str], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the non-empty fields that are not in `names`."""
    return {name: value for name, value in fields.items() if name not in names and value not in EMPTY}
