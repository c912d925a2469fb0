"""Prices of tokens: the dated price file of the user (`prices.toml`), and list prices for all other models.

```toml
currency = "USD"

[[price]]
model = "gemini-2.5-flash"  # a name, or a pattern such as "gemini-2.5-*"
from = 2025-06-17           # first day (UTC) of this price; default: always
input = 0.30                # for 1,000,000 tokens
cached = 0.075              # cached input; default: as input
output = 2.50
thoughts = 3.50             # thinking tokens; default: as output
long_prompts = { above = 200_000, input = 0.60, output = 5.00 } # calls with more input tokens; default: the same
```

Models that the file does not name have the shipped list price. A model without a price costs "unknown" (None), never 0.
An eval run keeps the prices it was made with.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from sessions_app.file_problems import FileProblem
from sessions_app.prices.list_prices import find_list_price
from sessions_app.prices.price import Price

MAX_CURRENCY = 12
DEFAULT_CURRENCY = "USD"

Usage = Mapping[str, Mapping[str, int]]
"""{model: {prompt, output, thoughts, cached, calls}}: tokens and calls. Cached tokens are among those of the prompt,
thoughts among the output."""


def _require_printable(text: str) -> str:
    if not text.isprintable():
        raise ValueError("must be printable text")
    return text


class PriceFile(BaseModel):
    """Content of a price file."""

    model_config = ConfigDict(extra="forbid")

    currency: Annotated[str, Field(max_length=MAX_CURRENCY), AfterValidator(_require_printable)] = (
        DEFAULT_CURRENCY
    )
    price: list[Price] = []


@dataclass(frozen=True)
class Prices:
    """A price table.

    Attributes:
        file: path of the price file; "" for none.
        list_date: day of the list of prices for models that the file does not name; "" for none.
    """

    prices: tuple[Price, ...] = ()
    currency: str = DEFAULT_CURRENCY
    file: str = ""
    list_date: str = ""
    problems: tuple[FileProblem, ...] = field(default=(), compare=False)

    @property
    def has_prices(self) -> bool:
        """Tell whether any price is known."""
        return bool(self.prices or self.list_date)

    def find_price(self, model: str, used_at: float) -> Price | None:
        """Return the price of a model at a time (epoch seconds).

        The file takes precedence over the list; in the file a name over a pattern, then the longer pattern, then the
        newest valid price.
        """
        day = datetime.fromtimestamp(used_at, UTC).date()
        matching = [
            price
            for price in self.prices
            if price.names(model) and (price.since is None or price.since <= day)
        ]
        if not matching and self.list_date:
            return find_list_price(model, day)
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
        return sum(price.cost(tokens) for price, tokens in priced if price is not None)

    def find_unpriced(self, models: Iterable[str], used_at: float | None = None) -> list[str]:
        """Return the models without a price at a time (default: now)."""
        point = time.time() if used_at is None else used_at
        return [model for model in dict.fromkeys(models) if self.find_price(model, point) is None]

    def as_json(self) -> dict[str, Any]:
        """Return the table as JSON values for `EvalRun.prices`; {} for none."""
        if not self.file and not self.list_date:
            return {}
        prices = [price.as_json() for price in self.prices]
        list_facts = {"list_date": self.list_date} if self.list_date else {}
        return {"file": self.file, "currency": self.currency, "price": prices, **list_facts}


NO_PRICES = Prices()


KINDS = ("prompt", "output", "thoughts", "cached", "calls")


def _precedence_key(price: Price) -> tuple[bool, int, date]:
    return *price.precedence, price.since or date.min


def prices_from_json(table: Mapping[str, Any]) -> Prices:
    """Return the price table of a run (`json.loads(run.prices)`)."""
    if not table:
        return NO_PRICES
    prices = tuple(map(Price.model_validate, table.get("price") or []))
    currency = str(table.get("currency") or DEFAULT_CURRENCY)
    return Prices(prices, currency, str(table.get("file") or ""), str(table.get("list_date") or ""))
