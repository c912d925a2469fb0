"""Active runs of a person, of all kinds. Django apps register those of their kind, such as eval runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.db.models import QuerySet

ActiveApps = Callable[[str], "QuerySet[Any]"]

active_apps: list[ActiveApps] = []
"""Each returns the app of every active run of a person, as a query of one column."""


def _apps_of_runs(person: str) -> QuerySet[Any]:
    from sessions_app.models import Run

    runs = Run.objects.filter(person=person, status__in=Run.ACTIVE)
    return runs.order_by().values_list("session__app_name", flat=True)


active_apps.append(_apps_of_runs)


def find_active_apps(person: str) -> list[str]:
    """Return the app of each active run of a person. One query."""
    first, *others = (find(person) for find in active_apps)
    return list(first.union(*others, all=True))
