"""The price of a model's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from sessions_app.prices.model_pattern import ModelPattern

MILLION = 1_000_000

MAX_PRICE = 1e9
"""Sums of larger prices may be infinite, which is neither JSON nor a point of a plot."""

Money = Annotated[float, Field(ge=0, le=MAX_PRICE, allow_inf_nan=False, strict=True)]


class Rates(BaseModel):
    """Prices of 1,000,000 tokens by their kind."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    input: Money
    cached: Money | None = None
    output: Money
    thoughts: Money | None = None

    def cost(self, usage: Mapping[str, int]) -> float:
        """Return the cost of tokens."""
        prompt, output = usage.get("prompt", 0), usage.get("output", 0)
        cached = min(usage.get("cached", 0), prompt)
        thoughts = min(usage.get("thoughts", 0), output)
        cached_price = self.input if self.cached is None else self.cached
        thoughts_price = self.output if self.thoughts is None else self.thoughts
        input_cost = (prompt - cached) * self.input + cached * cached_price
        return (input_cost + (output - thoughts) * self.output + thoughts * thoughts_price) / MILLION


class LongPromptRates(Rates):
    """Prices of calls with more than `above` input tokens."""

    above: Annotated[int, Field(gt=0, strict=True)]


class Price(Rates, ModelPattern):
    """The price of 1,000,000 tokens of the models that match a pattern, from a day on (UTC; None: always)."""

    since: date | None = Field(default=None, alias="from")
    long_prompts: LongPromptRates | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the price as in the file, without later fields that are not set, so that stored prices stay equal."""
        unset = {name for name in ("thoughts", "long_prompts") if getattr(self, name) is None}
        return self.model_dump(mode="json", by_alias=True, exclude=unset)

    def cost(self, usage: Mapping[str, int]) -> float:
        """Return the cost of tokens; of a sum of calls by the prices of long prompts if these are long on average."""
        calls = max(1, usage.get("calls", 1))
        if self.long_prompts and usage.get("prompt", 0) > self.long_prompts.above * calls:
            return self.long_prompts.cost(usage)
        return super().cost(usage)
