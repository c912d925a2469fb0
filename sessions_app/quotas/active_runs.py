"""Active runs of a person, of all kinds. Django apps register those of their kind, such as eval runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from django.db.models import QuerySet

FindActiveRuns = Callable[[], "QuerySet[Any]"]

active_run_finders: list[FindActiveRuns] = []
"""Each returns the person and the app of every active run of a kind, as a query of these two columns."""


def _active_runs() -> QuerySet[Any]:
    from sessions_app.store.models import Run

    runs = Run.objects.filter(status__in=Run.ACTIVE)
    return runs.order_by().values_list("person", "session__app_name")


active_run_finders.append(_active_runs)


def find_active_apps(person: str) -> list[str]:
    """Return the app of each active run of a person. One query."""
    first, *other_runs = (find().filter(person=person) for find in active_run_finders)
    return [app for _, app in first.union(*other_runs, all=True)]


def find_active_apps_by_person() -> dict[str, list[str]]:
    """Return the apps of the active runs of each person. One query."""
    first, *other_runs = (find().exclude(person="") for find in active_run_finders)
    apps: dict[str, list[str]] = {}
    for person, app in first.union(*other_runs, all=True):
        apps.setdefault(person, []).append(app)
    return apps
