"""Limits of a person's runs, as the web process finds them and runtimes receive them."""

from __future__ import annotations

from dataclasses import dataclass

from sessions_app.store.errors import DevUIError


class QuotaUsedUp(DevUIError):
    """A quota of the person who starts a run is used up."""

    status = 429
    code = "quota_used_up"


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """Limits of a person's runs; None: no limit.

    Attributes:
        app: the app; empty: all apps together.
        runs_at_once: active runs and eval runs.
        runs_a_day: runs and eval runs that begin on a day (UTC).
        cost_a_day: in the currency of the price table.
    """

    app: str = ""
    runs_at_once: int | None = None
    runs_a_day: int | None = None
    tokens_a_day: int | None = None
    cost_a_day: float | None = None
