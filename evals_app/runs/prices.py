"""Prices of tokens, from a dated price list that people write (`prices.toml` or `prices.json`).

```toml
currency = "USD"

[[price]]
model = "gemini-2.5-flash"  # a name, or a pattern such as "gemini-2.5-*"
from = 2025-06-17           # the day (UTC) it begins to hold; left out: it always held
input = 0.30                # for 1,000,000 tokens
cached = 0.075              # of the input that a cache held; left out: as input
output = 2.50               # thoughts are output
```

A model without a price costs "unknown" (None), never 0. A run keeps the prices it was made with.
"""

from __future__ import annotations

import json
import time
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from evals_app.files import BadFile, Problem

NAMES = ("prices.toml", "prices.json")
MILLION = 1_000_000
LONGEST_CURRENCY = 12
DEFAULT_CURRENCY = "USD"
_FIELDS = {"model", "from", "input", "cached", "output"}
_LONGEST_FILE = 1_000_000

Usage = Mapping[str, Mapping[str, int]]
"""{model: {prompt, output, cached, calls}}: tokens and calls. The cached tokens are among those of the prompt."""


@dataclass(frozen=True)
class Price:
    """The price of 1,000,000 tokens of the models that match a pattern, from a day on (UTC; None: always)."""

    model: str
    input: float
    output: float
    cached: float | None = None
    since: date | None = None

    @property
    def is_pattern(self) -> bool:
        """Tell whether the price may match several models."""
        return any(sign in self.model for sign in "*?[")

    def names(self, model: str) -> bool:
        """Tell whether the price applies to a model; `models/x` and `vendor/x` match `x`, too."""
        return any(fnmatchcase(name, self.model) for name in {model, model.rpartition("/")[2]})

    def of(self, usage: Mapping[str, int]) -> float:
        """Return the cost of tokens."""
        cached = min(usage.get("cached", 0), usage.get("prompt", 0))
        fresh = usage.get("prompt", 0) - cached
        cached_price = self.input if self.cached is None else self.cached
        return (fresh * self.input + cached * cached_price + usage.get("output", 0) * self.output) / MILLION


@dataclass(frozen=True)
class Prices:
    """A price table. `file`: its path; "" for none."""

    prices: tuple[Price, ...] = ()
    currency: str = DEFAULT_CURRENCY
    file: str = ""
    problems: tuple[Problem, ...] = field(default=(), compare=False)

    def price_of(self, model: str, at: float) -> Price | None:
        """Return the price of a model at a time (epoch seconds): a name before patterns, longer ones first, then
        the newest that holds."""
        day = datetime.fromtimestamp(at, UTC).date()
        matching = [
            price
            for price in self.prices
            if price.names(model) and (price.since is None or price.since <= day)
        ]
        return max(matching, key=_rank, default=None)

    def cost(self, usage: Usage, at: float) -> float | None:
        """Return the cost of the models' tokens at a time.

        None (unknown) if a model has no price, or if no model reported tokens, for example because it raised.
        """
        if not any(tokens.get(kind) for tokens in usage.values() for kind in ("prompt", "output")):
            return None
        priced = [(self.price_of(model, at), tokens) for model, tokens in usage.items()]
        if any(price is None for price, _ in priced):
            return None
        return sum(price.of(tokens) for price, tokens in priced if price is not None)

    def unpriced(self, models: Iterable[str], at: float | None = None) -> list[str]:
        """Return the models without a price at a time (default: now)."""
        point = time.time() if at is None else at
        return [model for model in dict.fromkeys(models) if self.price_of(model, point) is None]

    def as_json(self) -> dict[str, Any]:
        """Return the table as JSON values for `EvalRun.prices`; {} for none."""
        if not self.file:
            return {}
        prices = [
            {
                "model": price.model,
                "from": price.since and price.since.isoformat(),
                "input": price.input,
                "cached": price.cached,
                "output": price.output,
            }
            for price in self.prices
        ]
        return {"file": self.file, "currency": self.currency, "price": prices}


NO_PRICES = Prices()


def _rank(price: Price) -> tuple[bool, int, date]:
    return not price.is_pattern, len(price.model), price.since or date.min


def prices_from_json(table: Mapping[str, Any]) -> Prices:
    """Return the price table of a run (`json.loads(run.prices)`)."""
    if not table:
        return NO_PRICES
    prices = tuple(_price(entry) for entry in table.get("price") or [])
    return Prices(prices, str(table.get("currency") or DEFAULT_CURRENCY), str(table.get("file") or ""))


def find_prices(folders: Iterable[Path]) -> Prices:
    """Return the prices of the first folder with a price file. An invalid file has problems and no prices.

    Args:
        folders: such as the agents folder, then DevUI's data folder.
    """
    for path in (folder / name for folder in folders for name in NAMES):
        if path.is_file():
            try:
                return read_prices(path)
            except BadFile as error:
                return Prices(file=str(path), problems=tuple(error.problems))
    return NO_PRICES


def read_prices(path: Path) -> Prices:
    """Read a price file.

    Raises:
        BadFile: the file cannot be read, or entries are invalid; all problems are named.
    """
    document = _document(path)
    entries = document.get("price", document.get("prices", []))
    problems = list(_problems(path, document, entries))
    if problems:
        raise BadFile(problems, hint='Prices are for 1,000,000 tokens: [[price]] model = "…", input, output.')
    currency = str(document.get("currency", DEFAULT_CURRENCY))
    return Prices(tuple(_price(entry) for entry in entries), currency, str(path))


def _document(path: Path) -> Mapping[str, Any]:
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST_FILE).decode("utf-8-sig")
        document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile([Problem(path.name, f"cannot be read: {error}")]) from error
    if not isinstance(document, Mapping):
        raise BadFile([Problem(path.name, "must be an object with a list `price`")])
    return document


def _problems(path: Path, document: Mapping[str, Any], entries: Any) -> Iterator[Problem]:
    for name in document.keys() - {"currency", "price", "prices"}:
        yield Problem(path.name, "is not known; currency and price are", field=name)
    currency = document.get("currency", DEFAULT_CURRENCY)
    if not isinstance(currency, str) or not currency.isprintable() or len(currency) > LONGEST_CURRENCY:
        problem = f'must be text of at most {LONGEST_CURRENCY} characters, such as "USD"'
        yield Problem(path.name, problem, field="currency")
    if not isinstance(entries, list):
        yield Problem(path.name, "must be a list of prices", field="price")
        return
    for number, entry in enumerate(entries, 1):
        where = f"price {number}"
        if not isinstance(entry, Mapping):
            yield Problem(path.name, "must be an object", field=where)
            continue
        yield from (
            Problem(path.name, problem, field=f"{where}: {name}") for name, problem in _entry_problems(entry)
        )


def _entry_problems(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name in sorted(entry.keys() - _FIELDS):
        yield name, f"is not known; {', '.join(sorted(_FIELDS))} are"
    model = entry.get("model")
    if not isinstance(model, str) or not model.strip():
        yield "model", "must name a model"
    for name in ("input", "output"):
        if not _is_money(entry.get(name)):
            yield name, "must be a number from 0 on, for 1,000,000 tokens"
    if entry.get("cached") is not None and not _is_money(entry["cached"]):
        yield "cached", "must be a number from 0 on, for 1,000,000 tokens"
    try:
        _day(entry.get("from"))
    except ValueError:
        yield "from", "must be a day, such as 2025-06-17"


def _is_money(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < float("inf")


def _price(entry: Mapping[str, Any]) -> Price:
    cached = entry.get("cached")
    return Price(
        model=str(entry["model"]).strip(),
        input=float(entry["input"]),
        output=float(entry["output"]),
        cached=None if cached is None else float(cached),
        since=_day(entry.get("from")),
    )


def _day(value: Any) -> date | None:
    if value is None:
        return None
    if isinstance(value, datetime):
        return (value.astimezone(UTC) if value.tzinfo else value).date()
    if isinstance(value, date):
        return value
    if isinstance(value, str):
        return date.fromisoformat(value)
    raise ValueError(f"{value!r} is no day")
