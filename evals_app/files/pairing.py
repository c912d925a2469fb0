"""Matching of the items of a changed list with the old ones, and type-strict JSON equality. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
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


def pair_items(old: Sequence[Any], new: Sequence[Any]) -> list[int | None]:
    """Return for each new item the index of the matching old item, or None.

    Equal items match first (those with the same index before others), then items with the same id, then the same index.
    """
    matches: list[int | None] = [
        at if at < len(old) and is_same_json(old[at], each) else None for at, each in enumerate(new)
    ]
    free = dict.fromkeys(at for at in range(len(old)) if at >= len(new) or matches[at] is None)
    for keys in (_json_key, _id_key):
        places: defaultdict[str, list[int]] = defaultdict(list)
        for place in reversed(free):
            places[keys(old[place])].append(place)
        for at, item in enumerate(new):
            if matches[at] is None and (name := keys(item)) and places[name]:
                matches[at] = place = places[name].pop()
                del free[place]
    for at, place in enumerate(matches):
        if place is None and at in free:
            matches[at] = at
            del free[at]
    return matches


def _json_key(item: Any) -> str:
    return scopes.dumps(item)


def _id_key(item: Any) -> str:
    if not isinstance(item, dict):
        return ""
    return next((f"{name.replace('_', '').lower()}:{item[name]}" for name in ID_FIELDS if item.get(name)), "")
