"""Check of quotas before a request is forwarded to a runtime, which counts the run and checks them again.

A request that is refused here starts no process, and `/run_live` is refused before its socket opens.
"""

from __future__ import annotations

from sessions_app.quotas import quota_enforcement
from sessions_app.runs.runtime_client import NOBODY, Sender
from sessions_app.store.database import units_of_work


async def require_quota_left(person: str, app_name: str) -> Sender:
    """Return the sender of a run with the quotas that the runtime enforces. `person` is empty without users.

    Raises:
        QuotaUsedUp: one of them is used up.
    """
    return await units_of_work.read(_require_left, person, app_name) if person else NOBODY


def _require_left(person: str, app_name: str) -> Sender:
    limits = quota_enforcement.read_limits(person, app_name)
    quota_enforcement.check_quotas(person, limits)
    return Sender(person, limits)
