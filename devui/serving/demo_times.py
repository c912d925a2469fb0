"""Move demo sessions and eval runs in time, so that lists and trends show a week instead of a minute.

Only times change: of the session, its events and state changes, of what was recorded of its runs, and of an eval run
with its attempts. Trends are derived from the records and counted again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.db.models import F, Model

from evals_app.models import EvalAttempt, EvalRun
from sessions_app.store import scopes
from sessions_app.store.database import change_notification
from sessions_app.store.models import (
    AgentSession,
    Event,
    LogRecord,
    ModelCall,
    Run,
    Span,
    StateChange,
    Trace,
    TrendBucket,
)

DAY_S = 86_400

TIMES: Mapping[type[Model], tuple[str, ...]] = {
    Event: ("timestamp",),
    StateChange: ("timestamp",),
    Run: ("created_at", "started_at", "finished_at"),
    Trace: ("started_at", "finished_at"),
    ModelCall: ("started_at", "first_at", "finished_at"),
    LogRecord: ("at",),
    EvalAttempt: ("started_at", "finished_at"),
}
"""Columns with epoch seconds of the rows of a session."""

EVAL_RUN_TIMES = ("created_at", "queued_at", "started_at", "finished_at", "last_step_at", "limits_from")
"""Columns with epoch seconds of an eval run."""


def move_sessions(days: Mapping[int, int]) -> None:
    """Move sessions into the past. `days`: number of days by the session's primary key."""
    with transaction.atomic():
        for pk, day_count in days.items():
            _move_session(pk, day_count * DAY_S)
        Trace.objects.update(counted_until=0.0)
        TrendBucket.objects.all().delete()
        change_notification.notify_after_commit()


def move_eval_run(run: EvalRun, day_count: int) -> None:
    """Move an eval run, its attempts and their sessions into the past; by a negative number of days, towards now."""
    seconds = day_count * DAY_S
    with transaction.atomic():
        EvalRun.objects.filter(pk=run.pk).update(**{name: F(name) - seconds for name in EVAL_RUN_TIMES})
        sessions = AgentSession.objects.filter(eval_attempts__run=run).values_list("pk", flat=True)
        move_sessions(dict.fromkeys(sessions, day_count))


def _move_session(pk: int, seconds: int) -> None:
    AgentSession.objects.filter(pk=pk).update(
        created_at=F("created_at") - seconds, updated_at=F("updated_at") - seconds
    )
    for model, columns in TIMES.items():
        model._default_manager.filter(session=pk).update(**{name: F(name) - seconds for name in columns})
    nanoseconds = seconds * 10**9
    Span.objects.filter(session=pk).update(
        started_ns=F("started_ns") - nanoseconds, ended_ns=F("ended_ns") - nanoseconds
    )
    for trace in Trace.objects.filter(session=pk):
        stages = [[name, began - seconds, *facts] for name, began, *facts in trace.decoded_stages]
        Trace.objects.filter(pk=trace.pk).update(stages=scopes.dumps(stages))
    for event in Event.objects.filter(session=pk):
        bodies = {"data": event.data, "private": event.private}
        moved = {name: _move_body(text, seconds) for name, text in bodies.items() if text}
        Event.objects.filter(pk=event.pk).update(**moved)


def _move_body(text: str, seconds: int) -> str:
    """Return the JSON of an event with its time moved."""
    body: dict[str, Any] = json.loads(text)
    return scopes.dumps({**body, "timestamp": body["timestamp"] - seconds})
