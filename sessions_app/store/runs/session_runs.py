"""Runs of a session as its writers see them: the active one, and those that wait for a person's answers."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import Case, QuerySet, When

from sessions_app.store.database import change_notification
from sessions_app.store.errors import SessionBusy
from sessions_app.store.events.superseded_events import find_superseded_ranges
from sessions_app.store.models import Event, Run
from sessions_app.store.runs.open_calls import WAITING_IN_SUMMARY, find_open_calls

Status = Run.Status


def active_run(session_pk: int) -> Run | None:
    """Return the active run of a session: the running one, else the next in the queue."""
    runs = Run.objects.filter(session_id=session_pk, status__in=Run.ACTIVE)
    return runs.order_by(Case(When(status=Status.RUNNING, then=0), default=1), "created_at", "pk").first()


def require_idle(session_pk: int, session_id: str) -> None:
    """Refuse to change a session while a run is active on it.

    Raises:
        SessionBusy: a run is active.
    """
    active = active_run(session_pk)
    if active is not None:
        raise SessionBusy(
            f"Run {active.id} is active on session {session_id!r}.",
            hint=f"Cancel the run first (POST /api/v1/runs/{active.id}/cancel), or wait until it ends.",
        )


def open_call_ids(session_pk: int, invocation_id: str) -> list[str]:
    """Return the ids of an invocation's unanswered long-running calls, oldest first.

    An answer belongs to the same invocation, as in ADK for Python, or starts a new one, as in other languages.
    """
    asking = Event.objects.filter(session_id=session_pk, invocation_id=invocation_id)
    asking = asking.filter(summary__contains=WAITING_IN_SUMMARY).order_by("seq")
    first_seq = asking.values_list("seq", flat=True).first()
    if first_seq is None:
        return []
    calls = find_open_calls(session_pk, first_seq, find_superseded_ranges(session_pk, first_seq))
    return [call.call_id for call in calls if call.invocation_id == invocation_id]


def finish_rewound(session_pk: int, seq: int) -> None:
    """End the waiting runs of a session that began at or after an event: the rewind took back their questions."""
    waiting = Run.objects.filter(session_id=session_pk, status=Status.WAITING, first_seq__gte=seq - 1)
    update_runs(waiting, status=Status.DONE)


def finish_answered(session_pk: int, spared: str = "") -> None:
    """End the waiting runs of a session whose questions are all answered, except the run `spared`."""
    with transaction.atomic():
        waiting = Run.objects.filter(session_id=session_pk, status=Status.WAITING).exclude(invocation_id="")
        answered = [
            pk
            for pk, invocation_id in waiting.exclude(pk=spared).values_list("pk", "invocation_id")
            if not open_call_ids(session_pk, invocation_id)
        ]
        update_runs(Run.objects.filter(pk__in=answered), status=Status.DONE)


def record_rewind(session_pk: int, invocation_id: str) -> None:
    """End the waiting runs of a session that an external program rewound to before an invocation."""
    first = Event.objects.filter(session_id=session_pk, invocation_id=invocation_id).order_by("seq")
    seq = first.values_list("seq", flat=True).first()
    if seq is not None:
        finish_rewound(session_pk, seq)


def update_runs(runs: QuerySet[Run], **values: Any) -> bool:
    """Change columns of runs and notify; return whether there were any."""
    with transaction.atomic():
        changed = bool(runs.update(**values))
        if changed:
            change_notification.notify_after_commit()
    return changed
