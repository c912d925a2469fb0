"""Limits of a run: how long it and each attempt may take, and what all attempts may spend. Pure.

They hold for one go: a run that is taken up again begins to count anew, else it would stop where it stopped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from sessions_app.errors import BadInput

MAX_PARALLELISM = 64
"""Attempts at once that a run may be told."""

ATTEMPT_SECONDS = 1800.0
"""How long an attempt may take unless told otherwise: an agent that hangs shall not keep its run for ever."""


RETRY_SECONDS = 120.0
"""How long a call of a model is retried that is overloaded, limits its rate or cannot be reached."""


@dataclass(frozen=True)
class Spending:
    """What the attempts of a run have spent since its limits count.

    Attributes:
        cost: in the currency of the price table; None: unknown.
        unpriced: the models that were asked and have no price.
    """

    tokens: int = 0
    cost: float | None = 0.0
    currency: str = ""
    unpriced: Sequence[str] = ()


@dataclass(frozen=True)
class Limits:
    """None: as much as it takes.

    Attributes:
        seconds: of the run.
        tokens: of all attempts together, those that run included.
        cost: of all attempts together, in the currency of the price table.
        attempt_seconds: of one attempt.
        retry_seconds: for which a failed call of a model is made again, of agents and judges; 0: not at all.
    """

    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None
    attempt_seconds: float | None = ATTEMPT_SECONDS
    retry_seconds: float | None = RETRY_SECONDS

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the limits that a run's row holds."""
        stored = json.loads(text)
        return cls(**{one.name: stored.get(one.name) for one in fields(cls)})

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """Return limits by name, as people gave them: numbers or their text; "" and None: no limit.

        Raises:
            BadInput: one is no positive number, or has an unknown name.
        """
        known = {one.name for one in fields(cls)}
        if unknown := sorted(given.keys() - known):
            raise BadInput(f"There is no limit {unknown[0]!r}.", hint=f"Limits: {', '.join(sorted(known))}.")
        return cls(**{name: _parse_limit(name, value) for name, value in given.items()})

    def as_json(self) -> dict[str, float | int]:
        """Return the limits that are set, by name."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def reached(self, seconds: float, spent: Spending) -> str:
        """Return which limit a run has reached, in words; "" for none."""
        if self.seconds is not None and seconds >= self.seconds:
            return f"The limit of {self.seconds:g} seconds was reached."
        if self.tokens is not None and spent.tokens >= self.tokens:
            return f"The limit of {self.tokens:,} tokens was reached: {spent.tokens:,} were spent."
        if self.cost is None:
            return ""
        limit = f"The limit of {self.cost:g} {spent.currency}"
        if spent.cost is None:
            if not spent.unpriced:
                return f"{limit} cannot be kept: tokens were spent by a model that was not seen."
            return f"{limit} cannot be kept: there is no price of {', '.join(spent.unpriced)}."
        if spent.cost >= self.cost:
            return f"{limit} was reached: the attempts cost {spent.cost:.4g} {spent.currency}."
        return ""


def _parse_limit(name: str, given: Any) -> Any:
    """Return a limit as a number.

    Raises:
        BadInput: it is no positive number of its kind.
    """
    if given is None or (isinstance(given, str) and not given.strip()):
        return None
    try:
        number = float(given)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    whole = name == "tokens"
    too_small = number < 0 or (number == 0 and name != "retry_seconds")
    if too_small or not math.isfinite(number) or (whole and not number.is_integer()):
        called = "whole number" if whole else "number"
        raise BadInput(
            f"The limit of {name.replace('_', ' ')} must be a positive {called}, not {given!r}.",
            hint="Leave it out for no limit.",
        )
    return int(number) if whole else number
