"""Admission of model calls: configured rate limits, and the waits that services request.

Both are shared through the store. A row is only read if it can hold a call: a limit is configured for the model, the
store is PostgreSQL, which other hosts may use, or this process has noted a back-off that lasts.
"""

from __future__ import annotations

import time

from evals_app.rates import model_rates
from evals_app.rates.model_rates import Hold, Reservation
from evals_app.rates.rate_limits import NO_LIMITS, RateLimits
from sessions_app.store.database import retry
from sessions_app.store.database.store_kind import is_file_store

_back_off_ends: dict[str, float] = {}
"""Back-offs that this process has noted: model → end by the monotonic clock."""


class RateLimiter:
    """The limits of the models that a process asks. `process_id`: its row, if it has one."""

    def __init__(self, limits: RateLimits = NO_LIMITS, process_id: str | None = None) -> None:
        self._limits = limits
        self._process_id = process_id

    async def reserve(self, model: str) -> Reservation | Hold | None:
        """Count a request; return the reason if it must wait, and None for a model without a limit."""
        if limit := self._limits.find_limit(model):
            return await retry.write(model_rates.reserve, model, limit)
        if not is_file_store() or _back_off_ends.get(model, 0.0) > time.monotonic():
            return await retry.read(model_rates.find_back_off, model)
        return None

    async def settle(self, model: str, reservation: Reservation, tokens: int) -> None:
        """Record the tokens that a request has used."""
        limit = self._limits.find_limit(model)
        if limit is not None and limit.tokens_per_minute is not None:
            await retry.write(model_rates.settle, model, reservation, tokens)

    async def note_back_off(self, model: str, seconds: float, reason: str) -> None:
        """Hold all calls of a model for the time that its service requests."""
        _back_off_ends[model] = max(_back_off_ends.get(model, 0.0), time.monotonic() + seconds)
        await retry.write(model_rates.note_back_off, model, seconds, reason, self._process_id)
