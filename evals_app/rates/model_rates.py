"""Requests, tokens and back-offs of models, in one row per model that all processes of the store change.

Times are those of the store's clock (`database_clock`).
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction

from evals_app.models import ModelRate
from evals_app.rates.rate_limits import RateLimit, describe_limit
from evals_app.rates.sliding_minute import SlidingMinute
from sessions_app.store import scopes
from sessions_app.store.database import database_clock


@dataclass(frozen=True, slots=True)
class Reservation:
    """A request that may be sent: the second in which it counts, and the tokens reserved for it."""

    second: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Hold:
    """A request that must wait.

    Attributes:
        reason: in words, without a period at its end.
        is_back_off: a service has requested the wait; False: a configured limit is reached.
    """

    seconds: float
    reason: str
    is_back_off: bool


@dataclass(frozen=True, slots=True)
class HeldModel:
    """A model that must not be asked now.

    Attributes:
        until: epoch seconds.
    """

    model: str
    reason: str
    until: float


def reserve(model: str, limit: RateLimit) -> Reservation | Hold:
    """Count a request to a model, unless it must wait."""
    with transaction.atomic():
        row, _ = ModelRate.objects.select_for_update().get_or_create(pk=scopes.clean_text(model))
        now = database_clock.now()
        row.requests_per_minute, row.tokens_per_minute = limit.requests_per_minute, limit.tokens_per_minute
        minute = SlidingMinute.read(row.minute, now)
        hold = _find_hold(row, minute, now)
        reservation = Reservation(int(now), minute.expected_tokens if limit.tokens_per_minute else 0)
        if hold is None:
            minute.add(reservation.second, 1, reservation.tokens)
        row.minute = minute.as_json()
        row.save(update_fields=["requests_per_minute", "tokens_per_minute", "minute"])
    return hold or reservation


def find_back_off(model: str) -> Hold | None:
    """Return why a model must not be asked now, if a service has requested a wait. Counts nothing."""
    row = ModelRate.objects.filter(pk=scopes.clean_text(model), blocked_until__gt=0.0).first()
    return None if row is None else _find_back_off(row, database_clock.now())


def settle(model: str, reservation: Reservation, tokens: int) -> None:
    """Record the tokens that a request has used, instead of those reserved for it."""
    with transaction.atomic():
        row = ModelRate.objects.select_for_update().get(pk=scopes.clean_text(model))
        now = database_clock.now()
        minute = SlidingMinute.read(row.minute, now)
        minute.settle(reservation.second, reservation.tokens, tokens, now)
        row.minute = minute.as_json()
        row.save(update_fields=["minute"])


def note_back_off(model: str, seconds: float, reason: str, process_id: str | None) -> None:
    """Hold all requests to a model for the time that its service requests. A longer wait stays."""
    with transaction.atomic():
        row, _ = ModelRate.objects.select_for_update().get_or_create(pk=scopes.clean_text(model))
        now = database_clock.now()
        if row.blocked_at <= now and row.blocked_until >= now + seconds:
            return
        row.blocked_at, row.blocked_until = now, now + seconds
        row.blocked_because, row.blocked_by_id = scopes.clean_text(reason), process_id
        row.save(update_fields=["blocked_at", "blocked_until", "blocked_because", "blocked_by"])


def held_models() -> list[HeldModel]:
    """Return the models that must not be asked now, by name, with the reason."""
    now = database_clock.now()
    held = []
    for row in ModelRate.objects.order_by("model"):
        if hold := _find_hold(row, SlidingMinute.read(row.minute, now), now):
            held.append(HeldModel(row.model, hold.reason, now + hold.seconds))
    return held


def _find_hold(row: ModelRate, minute: SlidingMinute, now: float) -> Hold | None:
    if back_off := _find_back_off(row, now):
        return back_off
    seconds = minute.seconds_until_free(row.requests_per_minute, row.tokens_per_minute, now)
    if not seconds:
        return None
    limit = describe_limit(row.requests_per_minute, row.tokens_per_minute)
    return Hold(seconds, f"The rate limit of {row.model} is reached: {limit}", is_back_off=False)


def _find_back_off(row: ModelRate, now: float) -> Hold | None:
    """Return the back-off of a model, if it lasts. One that begins in the future (a clock was set back) does not."""
    if not row.blocked_at <= now < row.blocked_until:
        return None
    return Hold(row.blocked_until - now, row.blocked_because, is_back_off=True)
