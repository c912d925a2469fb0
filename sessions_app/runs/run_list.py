"""Read model of the list of runs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import BooleanField, ExpressionWrapper, OuterRef, QuerySet, Subquery

from sessions_app.prices.costs import Spending
from sessions_app.runs import rerun
from sessions_app.runs.pauses import IS_PAUSED
from sessions_app.runs.run_usage import read_runs_spending
from sessions_app.store.models import RUN_DURATION, Event, Run, Trace

MAX_ERROR_TYPES = 50

MAX_EVENTS = 2_000
"""Events of a run up to which its tokens are summed."""

COLUMNS = {
    "app": "session__app_name",
    "status": "status",
    "user": "session__user_id",
    "session": "session__session_id",
    "error": "error_type",
}
"""Filter → column."""


def all_runs() -> QuerySet[Run]:
    """Return runs without their large requests.

    `message_summary` is the summary of the message's event, `duration` the seconds that the run took, 0 until it ends,
    `trace` the key of its trace, `is_paused` whether it waits for a decision.
    """
    messages = Event.objects.filter(session=OuterRef("session"), seq=OuterRef("first_seq") + 1, author="user")
    traces = Trace.objects.filter(session=OuterRef("session"), invocation_id=OuterRef("invocation_id"))
    is_repeatable = ExpressionWrapper(rerun.REPEATABLE, output_field=BooleanField())
    runs = Run.objects.select_related("session").annotate(
        is_repeatable=is_repeatable,
        message_summary=Subquery(messages.values("summary")[:1]),
        duration=RUN_DURATION,
        is_paused=IS_PAUSED,
        trace=Subquery(traces.values("pk")[:1]),
    )
    return runs.defer("request")


def filter_runs(filters: Mapping[str, str]) -> QuerySet[Run]:
    """Return the runs that match; empty filters match all."""
    return all_runs().filter(**{column: filters[name] for name, column in COLUMNS.items() if filters[name]})


def error_types(chosen: str) -> list[str]:
    """Return the error types of failed runs, and the chosen one."""
    failed = Run.objects.exclude(error_type="").order_by("error_type")
    names = failed.values_list("error_type", flat=True).distinct()[:MAX_ERROR_TYPES]
    return sorted({*names, *filter(None, [chosen])})


def build_rows(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """Return runs as the list shows them; `seconds` and `events` are None until a run has ended."""
    spending = read_listed_spending(runs)
    return [{**_build_row(run), "spending": spending.get(run.pk)} for run in runs]


def read_listed_spending(runs: Sequence[Run]) -> dict[str, Spending]:
    """Return tokens and costs of runs by id, without very long ones. At most two queries."""
    return read_runs_spending(
        [run for run in runs if (run.last_seq or 0) - (run.first_seq or 0) <= MAX_EVENTS]
    )


def _build_row(run: Run) -> dict[str, Any]:
    summary = json.loads(run.message_summary or "{}")  # type: ignore[attr-defined]  # annotated by `all_runs`
    is_active = run.status in Run.ACTIVE
    return {
        "run": run,
        "message": summary.get("text", ""),
        "is_active": is_active,
        "can_repeat": not is_active and run.is_repeatable,  # type: ignore[attr-defined]  # as above
        "seconds": run.finished_at - run.started_at if run.finished_at and run.started_at else None,
        "events": None if run.last_seq is None or run.first_seq is None else run.last_seq - run.first_seq,
    }
