"""Matching of the items of a changed list with the old ones, and equality of JSON values. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sessions_app.store import scopes

ID_FIELDS = ("eval_id", "evalId", "rubric_id", "rubricId", "invocation_id", "invocationId", "name")


def is_same_json(old: Any, new: Any) -> bool:
    """Tell whether two JSON values are equal. 1, 1.0 and true differ; the order of keys does not matter."""
    if old is new:
        return True
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        return old.keys() == new.keys() and all(is_same_json(value, new[key]) for key, value in old.items())
    if isinstance(old, list):
        return len(old) == len(new) and all(map(is_same_json, old, new))
    return bool(old == new or (old != old and new != new))  # an unchanged NaN is equal


def json_equal(first: Any, second: Any) -> bool:
    """Tell whether two JSON values are equal. Unlike Python, JSON distinguishes true from 1."""
    if isinstance(first, bool) or isinstance(second, bool):
        return first is second
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(json_equal(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(json_equal, first, second))
    return bool(first == second)


def pair_items(old: Sequence[Any], new: Sequence[Any]) -> list[int | None]:
    """Return for each new item the index of the matching old item, or None.

    Equal items match first (those with the same index before others), then items with the same id, then the same index.
    """
    matches: list[int | None] = [
        index if index < len(old) and is_same_json(old[index], new_item) else None
        for index, new_item in enumerate(new)
    ]
    free = dict.fromkeys(index for index in range(len(old)) if index >= len(new) or matches[index] is None)
    for keys in (_json_key, _id_key):
        free_indexes: defaultdict[str, list[int]] = defaultdict(list)
        for free_index in reversed(free):
            free_indexes[keys(old[free_index])].append(free_index)
        for index, item in enumerate(new):
            if matches[index] is None and (name := keys(item)) and free_indexes[name]:
                matches[index] = free_index = free_indexes[name].pop()
                del free[free_index]
    for index, free_index in enumerate(matches):
        if free_index is None and index in free:
            matches[index] = index
            del free[index]
    return matches


def _json_key(item: Any) -> str:
    return scopes.dumps(item)


def _id_key(item: Any) -> str:
    if not isinstance(item, dict):
        return ""
    return next((f"{name.replace('_', '').lower()}:{item[name]}" for name in ID_FIELDS if item.get(name)), "")
