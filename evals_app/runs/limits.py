"""Limits of an eval run: time of the run and of each attempt, tokens and cost of all attempts. Pure.

They count from the latest start: a run that is resumed would otherwise stop at once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Self

from sessions_app.store.errors import BadInput

MAX_PARALLELISM = 64
"""Maximum number of attempts that a run may execute at once."""

ATTEMPT_SECONDS = 1800.0
"""Default time limit of an attempt: an agent that hangs must not block its run forever."""

RETRY_SECONDS = 120.0
"""Default time for retries of a model call that is overloaded, rate-limited or cannot be reached."""

STEP_S = 5.0
"""Seconds between two writes of the time of an active run (`EvalRun.last_step_at`) without a limit of seconds."""

QUOTAS = frozenset({"quota_tokens", "quota_cost"})
"""Limits that only a person's quotas set."""


@dataclass(frozen=True)
class EvalSpending:
    """Tokens and cost of a run's attempts since its limits count.

    Attributes:
        cost: in the currency of the price table; None: unknown.
        unpriced: models that were called and have no price.
    """

    tokens: int = 0
    cost: float | None = 0.0
    currency: str = ""
    unpriced: Sequence[str] = ()


@dataclass(frozen=True)
class EvalRunLimits:
    """Limits of a run; None: no limit.

    Attributes:
        seconds: of the run.
        tokens: of all attempts together, including active ones.
        cost: of all attempts together, in the currency of the price table.
        attempt_seconds: of one attempt.
        retry_seconds: for which a failed model call of an agent or judge is retried; 0: never.
        quota_tokens, quota_cost: what is left of today's quotas of the person who ordered the run.
    """

    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None
    attempt_seconds: float | None = ATTEMPT_SECONDS
    retry_seconds: float | None = RETRY_SECONDS
    quota_tokens: int | None = None
    quota_cost: float | None = None

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the limits of a run's row."""
        stored = json.loads(text)
        return cls(**{limit.name: stored.get(limit.name) for limit in fields(cls)})

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return limits by name from numbers or their text; "" and None: no limit.

        Raises:
            BadInput: a value is not a positive number, or a name is unknown.
        """
        names = {limit.name for limit in fields(cls)} - QUOTAS
        if unknown := sorted(values.keys() - names):
            raise BadInput(f"There is no limit {unknown[0]!r}.", hint=f"Limits: {', '.join(sorted(names))}.")
        return cls(**{name: _parse_limit(name, value) for name, value in values.items()})

    def as_json(self) -> dict[str, float | int]:
        """Return the limits that are set, by name."""
        values = {limit.name: getattr(self, limit.name) for limit in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def describe_reached(self, seconds: float, spending: EvalSpending) -> str:
        """Return a sentence on the limit that a run has reached; "" for none."""
        if self.seconds is not None and seconds >= self.seconds:
            return f"The limit of {self.seconds:g} seconds was reached."
        if self.tokens is not None and spending.tokens >= self.tokens:
            return f"The limit of {self.tokens:,} tokens was reached: {spending.tokens:,} were spent."
        if self.quota_tokens is not None and spending.tokens >= self.quota_tokens:
            left, spent = f"{self.quota_tokens:,}", f"{spending.tokens:,}"
            return f"Today's quota of tokens is used up: {left} were left, {spent} were spent."
        return self._describe_reached_cost(spending)

    @property
    def has_tokens(self) -> bool:
        """Tell whether tokens are limited."""
        return self.tokens is not None or self.quota_tokens is not None

    @property
    def has_cost(self) -> bool:
        """Tell whether the cost is limited."""
        return self.cost is not None or self.quota_cost is not None

    def _describe_reached_cost(self, spending: EvalSpending) -> str:
        currency = spending.currency
        if self.quota_cost is not None and (self.cost is None or self.quota_cost < self.cost):
            limit = f"The rest of today's quota, {self.quota_cost:.4g} {currency},"
            return _compare_cost(limit, self.quota_cost, spending)
        if self.cost is not None:
            return _compare_cost(f"The limit of {self.cost:g} {currency}", self.cost, spending)
        return ""


def _compare_cost(limit: str, cost: float, spending: EvalSpending) -> str:
    """Return a sentence on a limit of the cost that is reached or cannot be enforced; "" for neither."""
    if spending.cost is None:
        if not spending.unpriced:
            return f"{limit} cannot be enforced: an unrecorded model used tokens."
        return f"{limit} cannot be enforced: there is no price for {', '.join(spending.unpriced)}."
    if spending.cost >= cost:
        return f"{limit} was reached: the attempts cost {spending.cost:.4g} {spending.currency}."
    return ""


def _parse_limit(name: str, value: Any) -> Any:
    """Return a limit as a number.

    Raises:
        BadInput: the value is not a positive number of the limit's type.
    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = -1.0
    is_whole = name == "tokens"
    too_small = number < 0 or (number == 0 and name != "retry_seconds")
    if too_small or not math.isfinite(number) or (is_whole and not number.is_integer()):
        kind = "whole number" if is_whole else "number"
        raise BadInput(
            f"The limit of {name.replace('_', ' ')} must be a positive {kind}, not {value!r}.",
            hint="Leave it out for no limit.",
        )
    return int(number) if is_whole else number
