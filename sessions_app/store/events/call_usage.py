"""Tokens of model calls, from the summaries of stored events and from recorded calls.

Tokens have one source: an event's summary for events, invocations, runs and sessions, and the recorded model call for
traces. `prices` makes costs of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sessions_app.store import scopes
from sessions_app.store.events.event_text import parse_object
from sessions_app.store.events.records import MAX_TOKENS
from sessions_app.store.models import ModelCall

DAY_S = 86_400
END_OF_TIME_S = datetime.max.replace(tzinfo=UTC).timestamp()
"""Later times are not dates; agents may write any number."""

USAGE_COLUMNS = ("calls", "unclear", "prompt", "output", "thoughts", "cached", "total")

CALL_COLUMNS = ("prompt_tokens", "output_tokens", "thought_tokens", "cached_tokens", "total_tokens")
"""Columns of a `ModelCall` that `split_tokens` takes."""


@dataclass(frozen=True, slots=True)
class CallUsage:
    """Tokens of model calls of one model on one day (days since the epoch, UTC).

    `tokens` has `USAGE_COLUMNS`: those of `split_tokens`, `total`, and `unclear`, the number of calls with only a known
    total.
    """

    model: str
    day: int
    tokens: Mapping[str, int]


def parse_call_usage(summary: str, timestamp: float) -> CallUsage | None:
    """Return the usage of the model call that produced an event with this stored summary; None without tokens."""
    return read_call_usage(parse_object(summary), timestamp)


def read_call_usage(summary: Mapping[str, Any], timestamp: float) -> CallUsage | None:
    """Return the usage of the model call that produced an event; None without tokens."""
    tokens = summary.get("tokens")
    if not isinstance(tokens, Mapping) or "total" not in tokens:
        return None
    prompt, output, thoughts, cached, total = (
        min(tokens.get(kind, 0), MAX_TOKENS) for kind in ("prompt", "output", "thoughts", "cached", "total")
    )
    model = summary.get("asked_model") or summary.get("model") or ""
    return _make_usage(model, timestamp, split_tokens(prompt, output, thoughts, cached, total), total)


def recorded_call_usage(row: ModelCall) -> CallUsage | None:
    """Return the usage of a recorded model call; None without tokens."""
    if not row.total_tokens:
        return None
    counts = split_tokens(*(getattr(row, column) for column in CALL_COLUMNS))
    return _make_usage(row.model, row.started_at, counts, row.total_tokens)


def _make_usage(model: str, timestamp: float, counts: dict[str, int], total: int) -> CallUsage:
    unclear = int(not counts["prompt"] and not counts["output"])
    day = int(timestamp // DAY_S) if 0 <= timestamp < END_OF_TIME_S else 0
    return CallUsage(scopes.clean_text(model), day, counts | {"total": total, "calls": 1, "unclear": unclear})


def call_without_usage() -> CallUsage:
    """Return a call whose tokens and so whose cost are unknown."""
    return CallUsage("", 0, dict.fromkeys(USAGE_COLUMNS, 0) | {"calls": 1, "unclear": 1})


def split_tokens(
    prompt: int | None, output: int | None, thoughts: int | None, cached: int | None, total: int | None
) -> dict[str, int]:
    """Return the tokens that a model reports for a call by the kinds that have prices; thoughts are among the output.

    ADK keeps each provider's counts: Gemini and Anthropic report thoughts beside the output, LiteLLM and OpenAI as a
    part of it, so that the sum exceeds the total. The rest of the total is input, such as the results of Gemini's own
    tools.
    """
    prompt, output, thoughts, total = prompt or 0, output or 0, thoughts or 0, total or 0
    if not total or prompt + output + thoughts <= total:
        output += thoughts
    if prompt or output:
        prompt = max(prompt, total - output)
    return {"prompt": prompt, "output": output, "thoughts": min(thoughts, output), "cached": cached or 0}


def add_tokens(sums: dict[str, int], tokens: Mapping[str, int]) -> None:
    """Add tokens to sums of the same kinds."""
    for kind, count in tokens.items():
        sums[kind] = sums.get(kind, 0) + count
