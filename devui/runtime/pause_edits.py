"""Edits of a person at a pause, applied to the arguments, results and requests of ADK."""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.models.llm_request import LlmRequest
from google.genai import types
from pydantic import ValidationError

from sessions_app.runs.pauses import Decision
from sessions_app.store.errors import BadInput
from sessions_app.store.scopes import dumps


def change_request(request: LlmRequest, shown: list[Any], decision: Decision) -> None:
    """Change a request as a person decided. Contents that are as they were shown stay the objects that they are.

    Raises:
        BadInput: a content is not what ADK's classes accept.
    """
    if decision.system_instruction is not None:
        request.config.system_instruction = decision.system_instruction or None
    if decision.contents is not None:
        indexes = match_items(decision.contents, shown)
        changed = [None if number in indexes else content for number, content in enumerate(decision.contents)]
        request.contents = [
            content or request.contents[indexes[number]]
            for number, content in enumerate(parse_contents(changed))
        ]


def parse_contents(contents: Sequence[Any]) -> list[types.Content | None]:
    """Return contents of a request from their JSON; None for those that are None, because they are not changed.

    Raises:
        BadInput: names the content, the field and the rule.
    """
    return [
        None if content is None else _parse_content(number, content)
        for number, content in enumerate(contents, 1)
    ]


def _parse_content(number: int, content: Any) -> types.Content:
    try:
        return types.Content.model_validate_json(dumps(content))  # bytes are base64 in JSON only
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        path = ".".join(map(str, first["loc"])) or "the value"
        raise BadInput(
            f"Content {number}: {path}: {first['msg']}.",
            hint="Correct it: the fields are those of google.genai.types.Content.",
        ) from error


def restore_unchanged(value: Any, shown: Any, original: Any) -> Any:
    """Return an edited value in which everything that is as it was shown has its original value.

    What was shown has no credentials: an edit of something else keeps them. They go with the object that has them,
    when a person removes or empties that.
    """
    if isinstance(value, dict) and isinstance(shown, Mapping) and isinstance(original, Mapping):
        return _restore_object(value, shown, original)
    if dumps(value) == dumps(shown):
        return original
    if isinstance(value, list) and isinstance(shown, list) and isinstance(original, list | tuple):
        return _restore_list(value, shown, original)
    return value


def _restore_object(
    value: dict[str, Any], shown: Mapping[str, Any], original: Mapping[str, Any]
) -> dict[str, Any]:
    is_emptied = bool(shown) and shown.keys().isdisjoint(value)
    hidden = {} if is_emptied else {name: item for name, item in original.items() if name not in shown}
    return hidden | {
        name: restore_unchanged(item, shown[name], original.get(name)) if name in shown else item
        for name, item in value.items()
    }


def _restore_list(value: list[Any], shown: list[Any], original: Sequence[Any]) -> list[Any]:
    """Return the items of an edited list. One that equals none as it was shown is an edit of that at its position."""
    indexes = match_items(value, shown)
    edited = set(range(min(len(value), len(shown)))).difference(indexes, indexes.values())
    indexes |= {number: number for number in edited}
    return [
        restore_unchanged(item, shown[indexes[number]], original[indexes[number]])
        if number in indexes
        else item
        for number, item in enumerate(value)
    ]


def match_items(value: Sequence[Any], shown: Sequence[Any]) -> dict[int, int]:
    """Return the indexes of shown items by the indexes of the equal items of an edited list.

    Equal items are told apart by their positions, from the beginning and from the end, then by their order; a copy is
    the last of them. Takes linear time.
    """
    new, old = [dumps(item) for item in value], [dumps(item) for item in shown]
    matches = _match_positions(new, old)
    free_indexes: dict[str, deque[int]] = defaultdict(deque)
    for index in sorted(set(range(len(old))).difference(matches.values())):
        free_indexes[old[index]].append(index)
    last_indexes = {text: index for index, text in enumerate(old)}
    for number, text in enumerate(new):
        if number not in matches and text in last_indexes:
            matches[number] = free_indexes[text].popleft() if free_indexes[text] else last_indexes[text]
    return matches


def _match_positions(new: Sequence[str], old: Sequence[str]) -> dict[int, int]:
    if len(new) == len(old):
        return {number: number for number, text in enumerate(new) if text == old[number]}
    same_first = _count_same(new, old)
    same_last = min(_count_same(new[::-1], old[::-1]), min(len(new), len(old)) - same_first)
    first = {number: number for number in range(same_first)}
    return first | {len(new) - number: len(old) - number for number in range(1, same_last + 1)}


def _count_same(texts: Sequence[str], others: Sequence[str]) -> int:
    """Return how many texts at the beginning are the same."""
    pairs = zip(texts, others, strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
