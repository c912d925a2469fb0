"""Owners of rows: their claims, and rows whose owner is gone.

A waiting row belongs to the process that will start it, or to the server that will deliver it; a started one to the
process that executes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from django.db.models import Model, Q, QuerySet

from sessions_app.store.database.stopwatch import ChangeTimer

UNASSIGNED_S = 60.0
"""Seconds after which a waiting row without a process counts as abandoned. Servers assign theirs at once."""

HAS_STOPPED_PROCESS = Q(runtime__stopped_at__isnull=False)
"""Rows whose process has ended."""

HAS_STOPPED_SERVER = Q(runtime__server__stopped_at__isnull=False)
"""Rows of a process whose server has ended, and the process with it."""

_unassigned: defaultdict[type[Model], ChangeTimer] = defaultdict(ChangeTimer)
"""Times since which rows wait without a process, by table."""


def is_claim(row: Any, runtime_id: str | None, started_at: float) -> bool:
    """Tell whether a row is running under the claim of a process at a time.

    Who claims a row again with the same time has it: the first claim may have been stored though its reply was lost.
    """
    return (row.status, row.runtime_id, row.started_at) == ("running", runtime_id, started_at)


def find_unassigned(waiting: QuerySet[Any], since: str) -> Q:
    """Return a condition for those of the waiting rows that have had no process for `UNASSIGNED_S`.

    Args:
        since: column with the time since which a row waits.
    """
    times = dict(waiting.filter(runtime=None).values_list("pk", since))
    return Q(pk__in=_unassigned[waiting.model].find_unchanged(times, UNASSIGNED_S))


def end_rows(rows: QuerySet[Any], end: Callable[[str, str], bool], why: str) -> list[str]:
    """End rows by `end(pk, why)`; return the primary keys of those that it ended."""
    return [pk for pk in list(rows.values_list("pk", flat=True)) if end(pk, why)]
