"""Differences between a model request and the recorded one: instruction, history, tools, settings. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from sessions_app.store.short_texts import truncate
from sessions_app.traces import model_calls

Json = dict[str, Any]

RUN_SETTINGS = frozenset(("http_options", "labels"))
"""Settings that ADK sets for a run or an evaluation, not for an agent."""

CALL_FIELDS = frozenset(("id", "thoughtSignature"))
"""Fields of a part that are new in every run."""

MAX_CONTENTS = 20
"""Maximum number of contents that are stored of a history that differs."""

MAX_TEXT_LENGTH = 20_000


def compare_requests(recorded: Mapping[str, Any], now: Mapping[str, Any]) -> Json:
    """Return the differences of a request from the recorded one; {} without relevant ones.

    Both are requests as `traces.model_calls.request_json` returns them. Keys, each only where it differs: model
    {recorded, now}, instruction {recorded, now} (texts), history [{change, place, content}] (added, removed, or moved
    as in agents that run in parallel; place from 1 on its own side), history_cut (number of omitted changes), tools
    {added, removed, changed} (names), declarations {tool: {recorded, now}} of the changed ones (without those that are
    too long), settings {name: {recorded, now}}.
    """
    differences: Json = {}
    if (recorded.get("model") or "") != (now.get("model") or ""):
        differences["model"] = {"recorded": recorded.get("model"), "now": now.get("model")}
    before, after = (model_calls.instruction_text(side.get("system_instruction")) for side in (recorded, now))
    if before != after:
        differences["instruction"] = {
            "recorded": truncate(before, MAX_TEXT_LENGTH),
            "now": truncate(after, MAX_TEXT_LENGTH),
        }
    differences.update(_compare_history(recorded.get("contents") or [], now.get("contents") or []))
    differences.update(_compare_tools(recorded.get("tools") or [], now.get("tools") or []))
    if settings := _compare_settings(recorded.get("config") or {}, now.get("config") or {}):
        differences["settings"] = settings
    return differences


def _compare_history(recorded: list[Any], now: list[Any]) -> Json:
    old, new = ([_as_text(_strip_call_fields(content)) for content in side] for side in (recorded, now))
    removed: list[int] = []
    added: list[int] = []
    for tag, old_start, old_end, new_start, new_end in SequenceMatcher(None, old, new, False).get_opcodes():
        if tag != "equal":
            removed += range(old_start, old_end)
            added += range(new_start, new_end)
    changes: list[Json] = []
    for index in added:
        before = next((change for change in removed if old[change] == new[index]), None)
        if before is None:
            changes.append({"change": "added", "place": index + 1, "content": now[index]})
        else:
            removed.remove(before)
            changes.append({"change": "moved", "place": index + 1, "content": now[index]})
    changes += [{"change": "removed", "place": index + 1, "content": recorded[index]} for index in removed]
    changes.sort(key=lambda change: (change["place"], change["change"] != "removed"))
    left_out = len(changes) - MAX_CONTENTS
    cut = {"history_cut": left_out} if left_out > 0 else {}
    return {"history": changes[:MAX_CONTENTS], **cut} if changes else {}


def _compare_tools(recorded: list[Json], now: list[Json]) -> Json:
    before = dict(zip(model_calls.tool_names(recorded), recorded, strict=True))
    after = dict(zip(model_calls.tool_names(now), now, strict=True))
    changed = [name for name in after if name in before and _as_text(after[name]) != _as_text(before[name])]
    names = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": changed,
    }
    sides = {name: {"recorded": before[name], "now": after[name]} for name in changed}
    declarations = {
        name: sides_of_tool
        for name, sides_of_tool in sides.items()
        if len(_as_text(sides_of_tool)) <= MAX_TEXT_LENGTH
    }
    tools = {change: tool_names for change, tool_names in names.items() if tool_names}
    return {**({"tools": tools} if tools else {}), **({"declarations": declarations} if declarations else {})}


def _compare_settings(recorded: Json, now: Json) -> Json:
    names = [name for name in {**recorded, **now} if name not in RUN_SETTINGS]
    return {
        name: {"recorded": recorded.get(name), "now": now.get(name)}
        for name in names
        if recorded.get(name) != now.get(name)
    }


def _strip_call_fields(value: Any) -> Any:
    """Return a content without the fields that are new in every run."""
    if isinstance(value, dict):
        return {name: _strip_call_fields(item) for name, item in value.items() if name not in CALL_FIELDS}
    return [_strip_call_fields(item) for item in value] if isinstance(value, list) else value


def _as_text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
