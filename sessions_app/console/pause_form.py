"""Inputs in which a person chooses where a run pauses. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping

from sessions_app.console.pause_points import DEFAULT_LIMIT_S, MAX_LIMIT_S, MINUTE_S, PausePoints
from sessions_app.search.query.matching import parse_condition
from sessions_app.search.query.scanner import QueryError

MAX_NAMES = 50
"""Names of tools, agents or state keys."""

MODEL_INPUT, TOOL_INPUT = "pause_model", "pause_tool"
RESULT_INPUT, ERROR_INPUT = "pause_result", "pause_error"
TOOLS_INPUT, AGENTS_INPUT, KEYS_INPUT = "pause_tools", "pause_agents", "pause_keys"
CONDITION_INPUT, MINUTES_INPUT = "pause_if", "pause_minutes"
"""Names of the inputs of the form."""

LABELS = {
    MODEL_INPUT: "Pause at",
    TOOLS_INPUT: "Only these tools",
    AGENTS_INPUT: "Only these agents",
    KEYS_INPUT: "Writes of these state keys",
    CONDITION_INPUT: "Pause if",
    MINUTES_INPUT: "Minutes to wait",
}
"""Labels of the inputs that can be wrong."""


def read_form(posted: Mapping[str, str]) -> tuple[PausePoints, dict[str, str], dict[str, str]]:
    """Return the pause points in a form, the texts of its inputs, and the errors by input.

    Names of tools imply that calls of tools are meant, unless their results or errors are.
    """
    texts = {name: posted.get(name, "").strip() for name in (*LABELS, TOOL_INPUT, RESULT_INPUT, ERROR_INPUT)}
    errors: dict[str, str] = {}
    names = {name: _split_names(texts[name]) for name in (TOOLS_INPUT, AGENTS_INPUT, KEYS_INPUT)}
    errors |= {
        name: f"{len(values)} names are too many: at most {MAX_NAMES}."
        for name, values in names.items()
        if len(values) > MAX_NAMES
    }
    has_outcomes = bool(texts[RESULT_INPUT] or texts[ERROR_INPUT])
    points = PausePoints(
        model_calls=bool(texts[MODEL_INPUT]),
        tool_calls=bool(texts[TOOL_INPUT] or (names[TOOLS_INPUT] and not has_outcomes)),
        tool_results=bool(texts[RESULT_INPUT]),
        errors=bool(texts[ERROR_INPUT]),
        state_keys=names[KEYS_INPUT],
        tools=names[TOOLS_INPUT],
        agents=names[AGENTS_INPUT],
        condition=texts[CONDITION_INPUT],
        limit_s=_read_limit(texts[MINUTES_INPUT], errors),
    )
    try:
        parse_condition(points.condition)
    except QueryError as error:
        errors[CONDITION_INPUT] = f"{error.message} {error.hint}".strip()
    if (points.agents or points.condition) and not points:
        errors[MODEL_INPUT] = (
            "Nothing is chosen to pause at. Tick calls, results or errors, or name state keys."
        )
    return points, texts, errors


def _split_names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in text.split(",") if (name := part.strip())))


def _read_limit(text: str, errors: dict[str, str]) -> float:
    """Return the limit in seconds; note an error if the text is not a number of minutes in the range."""
    try:
        limit_s = float(text) * MINUTE_S if text else DEFAULT_LIMIT_S
    except ValueError:
        limit_s = math.nan
    if MINUTE_S <= limit_s <= MAX_LIMIT_S:
        return limit_s
    errors[MINUTES_INPUT] = (
        f"{text[:20]!r} is no number from 1 to {MAX_LIMIT_S / MINUTE_S:g}. Write the minutes a pause may last."
    )
    return DEFAULT_LIMIT_S
