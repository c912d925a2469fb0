"""Quotas: limits of the runs of a person, at once and per day, in one app or in all apps together.

The web process finds the limits of a person (`devui.accounts`, only with users) and passes them on with requests for
ADK's paths to runtimes, which see no users. Whoever creates the row of a run counts it in the same transaction. A
person's counters are two rows a day, which one statement changes: its row locks admit the runs of a person one after
the other, in all processes. The row of a run is created before, so that these locks are taken last.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.db import connection, transaction

from sessions_app.prices import current_prices
from sessions_app.quotas.active_runs import find_active_apps
from sessions_app.quotas.quota_limits import QuotaLimits, QuotaUsedUp
from sessions_app.store.events.call_usage import DAY_S
from sessions_app.store.models import PersonUsage

RETRY_S = 10
"""Seconds after which to try again if too many runs are active."""


class DayUsage(NamedTuple):
    """Runs, tokens and cost of a person today, in one app or in all apps together."""

    runs: int = 0
    tokens: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """A quota that applies to a person, and what the person has used of it.

    Attributes:
        active: runs and eval runs that are active now, if they are limited.
    """

    limits: QuotaLimits
    used: DayUsage
    active: int


@dataclass(frozen=True, slots=True)
class Remainder:
    """Tokens and cost that a person's quotas leave for today; None: no such quota."""

    tokens: int | None = None
    cost: float | None = None


FindLimits = Callable[[str, str], Sequence[QuotaLimits]]

_find_limits: FindLimits | None = None


def register_limit_finder(find_limits: FindLimits | None) -> None:
    """Set the function that finds the limits of (person, app); None: this process has no users."""
    global _find_limits
    _find_limits = find_limits


def read_limits(person: str, app_name: str) -> Sequence[QuotaLimits]:
    """Return the limits of a person's runs in an app. One query; none without users."""
    return _find_limits(person, app_name) if person and _find_limits is not None else ()


def admit_run(person: str, app_name: str, limits: Sequence[QuotaLimits] | None = None) -> Remainder:
    """Count a run whose row the current transaction has created, and return what it may spend.

    One query besides `read_limits`, and one more if active runs are limited; none without a person.

    Args:
        limits: those of the person; None: this process finds them.

    Raises:
        QuotaUsedUp: the run exceeds a quota.
    """
    if not person:
        return Remainder()
    with transaction.atomic():
        used = add_usage(person, app_name, runs=1)
        limits = read_limits(person, app_name) if limits is None else limits
        for use in compare_usage(person, limits, used):
            _require_left(person, use)
    return Remainder(
        tokens=_smallest_remainder((limit.tokens_a_day, used[limit.app].tokens) for limit in limits),
        cost=_smallest_remainder((limit.cost_a_day, used[limit.app].cost) for limit in limits),
    )


def check_quotas(person: str, limits: Sequence[QuotaLimits]) -> None:
    """Check whether a run would be admitted now, without counting it. At most two queries.

    Raises:
        QuotaUsedUp: a quota is used up.
    """
    if limits:
        for use in compare_usage(person, limits, usage_today(person)):
            _require_left(person, use, more=1)


def add_usage(
    person: str, app_name: str, *, runs: int = 0, tokens: int = 0, cost: float = 0.0
) -> dict[str, DayUsage]:
    """Add to the counters of a person, and return those of the app and of all apps. One query."""
    table = PersonUsage._meta.db_table
    row = "(%s, %s, %s, %s, %s, %s)"
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} (person, day, app_name, runs, tokens, cost) VALUES {row}, {row}"  # noqa: S608 - our own table
            " ON CONFLICT (person, day, app_name) DO UPDATE SET"
            f" runs = {table}.runs + excluded.runs, tokens = {table}.tokens + excluded.tokens,"
            f" cost = {table}.cost + excluded.cost RETURNING app_name, runs, tokens, cost",
            [*(person, today(), "", runs, tokens, cost), *(person, today(), app_name, runs, tokens, cost)],
        )
        return {app: DayUsage(*used) for app, *used in cursor.fetchall()}


def usage_today(person: str) -> dict[str, DayUsage]:
    """Return what a person has used today, by app; the empty app is all apps together. One query."""
    rows = PersonUsage.objects.filter(person=person, day=today())
    return {app: DayUsage(*used) for app, *used in rows.values_list("app_name", *DayUsage._fields)}


def remove_past_usage() -> None:
    """Delete the counters of days that no host counts on any more; the clocks of hosts may differ."""
    PersonUsage.objects.filter(day__lt=today() - 1).delete()


def usage_today_by_person() -> dict[str, dict[str, DayUsage]]:
    """Return what each person has used today, by person and app. One query."""
    usages: dict[str, dict[str, DayUsage]] = {}
    rows = PersonUsage.objects.filter(day=today())
    for person, app, *used in rows.values_list("person", "app_name", *DayUsage._fields):
        usages.setdefault(person, {})[app] = DayUsage(*used)
    return usages


def compare_usage(person: str, limits: Sequence[QuotaLimits], used: Mapping[str, DayUsage]) -> list[QuotaUse]:
    """Return each limit with what a person has used of it. One query if active runs are limited."""
    is_limited = any(limit.runs_at_once is not None for limit in limits)
    return match_usage(limits, used, find_active_apps(person) if is_limited else [])


def match_usage(
    limits: Sequence[QuotaLimits], used: Mapping[str, DayUsage], active_apps: Sequence[str]
) -> list[QuotaUse]:
    """Return each limit with what is used of it. `active_apps`: the app of each active run."""
    return [
        QuotaUse(
            limit,
            used.get(limit.app, DayUsage()),
            active_apps.count(limit.app) if limit.app else len(active_apps),
        )
        for limit in limits
    ]


def _require_left(person: str, use: QuotaUse, *, more: int = 0) -> None:
    """Refuse a run that exceeds a limit.

    Args:
        more: runs that are not counted yet.

    Raises:
        QuotaUsedUp: the run exceeds a limit.
    """
    limits, used = use.limits, use.used
    where = f" in the app {limits.app}" if limits.app else ""
    if limits.runs_at_once is not None and use.active + more > limits.runs_at_once:
        raise _used_up(
            f"{person} has reached the quota of active runs, {limits.runs_at_once:,}{where}.",
            "Wait until one ends, or cancel it.",
            RETRY_S,
        )
    amounts = (
        (used.runs + more - 1, limits.runs_a_day, "runs"),
        (used.tokens, limits.tokens_a_day, "tokens"),
        (used.cost, limits.cost_a_day, current_prices().currency),
    )
    for amount, limit, unit in amounts:
        if limit is not None and amount >= limit:
            raise _used_up(
                f"{person} has used up today's quota of {limit:,} {unit}{where}.",
                "It starts anew at 00:00 UTC.",
                _seconds_to_midnight(),
            )


def today() -> int:
    """Return the day in UTC, as days since the epoch."""
    return int(time.time() // DAY_S)


def _used_up(message: str, way_out: str, retry_after: int) -> QuotaUsedUp:
    hint = f"{way_out} /account/ shows your quotas; an admin can change them: `python manage.py quota`."
    error = QuotaUsedUp(message, hint=hint)
    error.retry_after = retry_after
    return error


def _smallest_remainder(limits: Iterable[tuple[Any, Any]]) -> Any:
    """Return the smallest remainder of pairs (limit, used); None if no limit is set."""
    return min((limit - used for limit, used in limits if limit is not None), default=None)


def _seconds_to_midnight() -> int:
    return math.ceil(DAY_S - time.time() % DAY_S)
