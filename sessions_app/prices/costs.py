"""Costs of model calls. Pure.

Tokens and cost have one source: an event's summary for events, invocations, runs and sessions, and the recorded model
call for traces.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sessions_app import scopes
from sessions_app.events.event_text import parse_object
from sessions_app.models import ModelCall
from sessions_app.prices.price_table import CALL_COLUMNS, Prices, call_tokens

DAY_S = 86_400
END_OF_TIME_S = datetime.max.replace(tzinfo=UTC).timestamp()
"""Later times are not dates; agents may write any number."""

MAX_TOKENS = 2**31 - 1
"""Largest number of tokens of a call that is counted, as in `Event.total_tokens`."""

USAGE_COLUMNS = ("calls", "unclear", "prompt", "output", "thoughts", "cached", "total")


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of model calls.

    Attributes:
        amount: cost of the calls that have a price.
        calls: number of calls.
        unpriced: number of calls without a price; the cost is at least `amount`.
    """

    amount: float
    calls: int
    unpriced: int
    currency: str

    @property
    def is_unknown(self) -> bool:
        """Tell whether no call has a price."""
        return self.unpriced >= self.calls

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.amount + other.amount,
            self.calls + other.calls,
            self.unpriced + other.unpriced,
            self.currency,
        )


class Spending(NamedTuple):
    """Tokens and their cost; the cost is None without tokens or without a price list."""

    tokens: int
    cost: Cost | None


@dataclass(frozen=True, slots=True)
class CallUsage:
    """Tokens of model calls of one model on one day (days since the epoch, UTC).

    `tokens` has `USAGE_COLUMNS`: those of `Usage`, `total`, and `unclear`, the number of calls with only a known total.
    """

    model: str
    day: int
    tokens: Mapping[str, int]


def call_of_json(summary: str, timestamp: float) -> CallUsage | None:
    """Return the usage of the model call that produced an event with this stored summary; None without tokens."""
    return call_of_summary(parse_object(summary), timestamp)


def call_of_summary(summary: Mapping[str, Any], timestamp: float) -> CallUsage | None:
    """Return the usage of the model call that produced an event; None without tokens."""
    tokens = summary.get("tokens")
    if not isinstance(tokens, Mapping) or "total" not in tokens:
        return None
    prompt, output, thoughts, cached, total = (
        min(tokens.get(kind, 0), MAX_TOKENS) for kind in ("prompt", "output", "thoughts", "cached", "total")
    )
    model = summary.get("asked_model") or summary.get("model") or ""
    return _usage(model, timestamp, call_tokens(prompt, output, thoughts, cached, total), total)


def usage_of_call(row: ModelCall) -> CallUsage | None:
    """Return the usage of a recorded model call; None without tokens."""
    if not row.total_tokens:
        return None
    counts = call_tokens(*(getattr(row, column) for column in CALL_COLUMNS))
    return _usage(row.model, row.started_at, counts, row.total_tokens)


def _usage(model: str, at: float, counts: dict[str, int], total: int) -> CallUsage:
    unclear = int(not counts["prompt"] and not counts["output"])
    day = int(at // DAY_S) if 0 <= at < END_OF_TIME_S else 0
    return CallUsage(scopes.clean_text(model), day, counts | {"total": total, "calls": 1, "unclear": unclear})


def call_without_usage() -> CallUsage:
    """Return a call whose tokens and so whose cost are unknown."""
    return CallUsage("", 0, dict.fromkeys(USAGE_COLUMNS, 0) | {"calls": 1, "unclear": 1})


def cost_of(usages: Iterable[CallUsage | None], prices: Prices) -> Cost | None:
    """Return the cost of calls; None without calls or without a price list."""
    total = Cost(0.0, 0, 0, prices.currency)
    for usage in usages:
        if usage is not None:
            total += _cost_of_usage(usage, prices)
    return total if total.calls and prices.prices else None


def sum_costs(costs: Iterable[Cost | None]) -> Cost | None:
    """Return the sum of the known costs; None if all are None."""
    total: Cost | None = None
    for cost in costs:
        if cost is not None:
            total = cost if total is None else total + cost
    return total


def _cost_of_usage(usage: CallUsage, prices: Prices) -> Cost:
    tokens, price = usage.tokens, prices.price_of(usage.model, usage.day * DAY_S)
    if price is None:
        return Cost(0.0, tokens["calls"], tokens["calls"], prices.currency)
    return Cost(price.of(tokens), tokens["calls"], tokens["unclear"], prices.currency)
