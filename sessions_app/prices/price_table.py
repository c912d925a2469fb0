"""Prices of tokens, from the dated price list of the user (`prices.toml`).

```toml
currency = "USD"

[[price]]
model = "gemini-2.5-flash"  # a name, or a pattern such as "gemini-2.5-*"
from = 2025-06-17           # first day (UTC) of this price; default: always
input = 0.30                # for 1,000,000 tokens
cached = 0.075              # cached input; default: as input
output = 2.50
thoughts = 3.50             # thinking tokens; default: as output
```

A model without a price costs "unknown" (None), never 0. An eval run keeps the prices it was made with.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sessions_app.file_problems import FileProblem
from sessions_app.prices.model_pattern import ModelPattern

MILLION = 1_000_000
LONGEST_CURRENCY = 12
DEFAULT_CURRENCY = "USD"

Usage = Mapping[str, Mapping[str, int]]
"""{model: {prompt, output, thoughts, cached, calls}}: tokens and calls. Cached tokens are among those of the prompt,
thoughts among the output."""

MAX_PRICE = 1e9
"""Sums of larger prices may be infinite, which is neither JSON nor a point of a plot."""

Money = Annotated[float, Field(ge=0, le=MAX_PRICE, allow_inf_nan=False, strict=True)]


class Price(ModelPattern):
    """The price of 1,000,000 tokens of the models that match a pattern, from a day on (UTC; None: always)."""

    since: date | None = Field(default=None, alias="from")
    input: Money
    cached: Money | None = None
    output: Money
    thoughts: Money | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the price as in the file; without `thoughts` as earlier versions stored it, so that both are equal."""
        no_thoughts = {"thoughts"} if self.thoughts is None else None
        return self.model_dump(mode="json", by_alias=True, exclude=no_thoughts)

    def of(self, usage: Mapping[str, int]) -> float:
        """Return the cost of tokens."""
        prompt, output = usage.get("prompt", 0), usage.get("output", 0)
        cached = min(usage.get("cached", 0), prompt)
        thoughts = min(usage.get("thoughts", 0), output)
        cached_price = self.input if self.cached is None else self.cached
        thoughts_price = self.output if self.thoughts is None else self.thoughts
        input_cost = (prompt - cached) * self.input + cached * cached_price
        return (input_cost + (output - thoughts) * self.output + thoughts * thoughts_price) / MILLION


def _require_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable text")
    return text


class PriceFile(BaseModel):
    """Content of a price file."""

    model_config = ConfigDict(extra="forbid")

    currency: Annotated[str, Field(max_length=LONGEST_CURRENCY), AfterValidator(_require_printable)] = (
        DEFAULT_CURRENCY
    )
    price: list[Price] = []


@dataclass(frozen=True)
class Prices:
    """A price table. `file`: its path; "" for none."""

    prices: tuple[Price, ...] = ()
    currency: str = DEFAULT_CURRENCY
    file: str = ""
    problems: tuple[FileProblem, ...] = field(default=(), compare=False)

    def find_price(self, model: str, used_at: float) -> Price | None:
        """Return the price of a model at a time (epoch seconds).

        A name takes precedence over a pattern, then the longer pattern, then the newest valid price.
        """
        day = datetime.fromtimestamp(used_at, UTC).date()
        matching = [
            price
            for price in self.prices
            if price.names(model) and (price.since is None or price.since <= day)
        ]
        return max(matching, key=_precedence_key, default=None)

    def cost(self, usage: Usage, used_at: float) -> float | None:
        """Return the cost of the models' tokens at a time.

        None (unknown) if a model has no price, or if no model reported tokens, for example because it raised.
        """
        if not any(tokens.get(kind) for tokens in usage.values() for kind in ("prompt", "output")):
            return None
        priced = [(self.find_price(model, used_at), tokens) for model, tokens in usage.items()]
        if any(price is None for price, _ in priced):
            return None
        return sum(price.of(tokens) for price, tokens in priced if price is not None)

    def find_unpriced(self, models: Iterable[str], used_at: float | None = None) -> list[str]:
        """Return the models without a price at a time (default: now)."""
        point = time.time() if used_at is None else used_at
        return [model for model in dict.fromkeys(models) if self.find_price(model, point) is None]

    def as_json(self) -> dict[str, Any]:
        """Return the table as JSON values for `EvalRun.prices`; {} for none."""
        if not self.file:
            return {}
        prices = [price.as_json() for price in self.prices]
        return {"file": self.file, "currency": self.currency, "price": prices}


NO_PRICES = Prices()


KINDS = ("prompt", "output", "thoughts", "cached", "calls")


def _precedence_key(price: Price) -> tuple[bool, int, date]:
    return *price.precedence, price.since or date.min


def prices_from_json(table: Mapping[str, Any]) -> Prices:
    """Return the price table of a run (`json.loads(run.prices)`)."""
    if not table:
        return NO_PRICES
    prices = tuple(map(Price.model_validate, table.get("price") or []))
    return Prices(prices, str(table.get("currency") or DEFAULT_CURRENCY), str(table.get("file") or ""))
