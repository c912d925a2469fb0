"""Costs of model calls. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from sessions_app.prices.list_prices import ListPrice
from sessions_app.prices.price_table import Prices
from sessions_app.store.events.call_usage import DAY_S, CallUsage


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of model calls.

    Attributes:
        amount: cost of the calls that have a price.
        calls: number of calls.
        unpriced: number of calls without a price; the cost is at least `amount`.
        list_date: day of the list prices among the prices; "" for none.
    """

    amount: float
    calls: int
    unpriced: int
    currency: str
    list_date: str = ""

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
            self.list_date or other.list_date,
        )


class Spending(NamedTuple):
    """Tokens and their cost; the cost is None without tokens or without prices."""

    tokens: int
    cost: Cost | None


def usages_cost(usages: Iterable[CallUsage | None], prices: Prices) -> Cost | None:
    """Return the cost of calls; None without calls, or if no price is known and the user wrote none."""
    total = Cost(0.0, 0, 0, prices.currency)
    for usage in usages:
        if usage is not None:
            total += _usage_cost(usage, prices)
    return total if total.calls and (prices.prices or not total.is_unknown) else None


def sum_costs(costs: Iterable[Cost | None]) -> Cost | None:
    """Return the sum of the known costs; None if all are None."""
    total: Cost | None = None
    for cost in costs:
        if cost is not None:
            total = cost if total is None else total + cost
    return total


def _usage_cost(usage: CallUsage, prices: Prices) -> Cost:
    tokens, price = usage.tokens, prices.find_price(usage.model, usage.day * DAY_S)
    if price is None:
        return Cost(0.0, tokens["calls"], tokens["calls"], prices.currency)
    list_date = prices.list_date if isinstance(price, ListPrice) else ""
    return Cost(price.cost(tokens), tokens["calls"], tokens["unclear"], prices.currency, list_date)
