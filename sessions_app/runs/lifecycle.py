"""Lifecycle of a run's row: a message to an agent, from the queue to its end.

A run is queued, claimed by a runtime process, and ends once. Runs of a session are claimed in the order of their
creation, whichever process asks: `claim` enforces it in one statement. Every function is one transaction and sends a
change notification.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Subquery, TextField, Value, When
from django.db.models.functions import Coalesce, Greatest

from sessions_app.agent_processes import processes
from sessions_app.delivery.failure import NO_FAILURE, Failure
from sessions_app.delivery.ownership import (
    HAS_STOPPED_PROCESS,
    HAS_STOPPED_SERVER,
    end_rows,
    find_unassigned,
    is_claim,
)
from sessions_app.lookup import session_missing
from sessions_app.quotas import quota_enforcement
from sessions_app.quotas.quota_limits import QuotaLimits
from sessions_app.runs import job_queue, pauses
from sessions_app.runs.run_usage import read_run_spending
from sessions_app.store import realms
from sessions_app.store.database import change_notification
from sessions_app.store.errors import InvocationFinished
from sessions_app.store.ids import is_storable
from sessions_app.store.index import index_backlog
from sessions_app.store.models import AgentSession, Event, Run
from sessions_app.store.redaction import REQUEST_CREDENTIAL, redact
from sessions_app.store.runs.session_runs import finish_answered, update_runs
from sessions_app.store.scopes import clean_error, clean_text
from sessions_app.store.traces import records as traces

Status = Run.Status

UNSUCCESSFUL = (Status.FAILED, Status.CRASHED, Status.CANCELLED)
"""Final statuses of runs that did not complete their work."""

ORDER_S = 1e-5
"""Minimum distance in seconds between the creation times of two runs of a session."""

ADK_SOURCE = "adk"
"""Source of a run requested on one of ADK's paths: its caller waits for one process."""


def create_run(
    session_pk: int,
    request: Mapping[str, Any],
    source: str = "console",
    runtime_id: str | None = None,
    *,
    person: str = "",
    limits: Sequence[QuotaLimits] | None = None,
    run_id: str = "",
) -> Run:
    """Queue a run on a session.

    Args:
        session_pk: the session's key.
        request: see `sessions_app.runs`.
        source: origin of the request.
        runtime_id: the process that has taken the run; by default this process, if it has a row.
        person: name of the person who starts it; empty without users.
        limits: the person's quotas; None: this process finds them.
        run_id: id of the run; empty: generated.

    Raises:
        SessionMissing: no session has this key.
        QuotaUsedUp: a quota of the person is used up.
    """
    with transaction.atomic():
        if not realms.exclude_hidden(AgentSession.objects.filter(pk=session_pk)).exists():
            raise session_missing(session_pk)
        run = Run.objects.create(
            id=run_id or uuid.uuid4().hex,
            session_id=session_pk,
            request=json.dumps(request, default=str),
            source=source,
            person=person,
            runtime_id=runtime_id or processes.own_id(),
            created_at=_next_created_at(session_pk),
        )
        if person:
            quota_enforcement.admit_run(person, run.session.app_name, limits)
        if runtime_id is None and (queue := job_queue.current_queue()):
            queue.defer_run(run.pk, run.session.app_name, session_pk)
        change_notification.notify_after_commit()
    return run


def _next_created_at(session_pk: int) -> float:
    """Return the creation time of a new run: after all active runs, even if the clock was set back."""
    active = Run.objects.filter(session=session_pk, status__in=Run.ACTIVE)
    newest = active.order_by("-created_at").values_list("created_at", flat=True).first()
    return time.time() if newest is None else max(time.time(), newest + ORDER_S)


def find_sent_run(session_pk: int, send_id: str, request: Mapping[str, Any] | None = None) -> Run | None:
    """Return the run that a form has queued on a session. Unsuccessful runs do not count: they may be sent again.

    Args:
        session_pk: the session's key.
        send_id: run id chosen by the form.
        request: the request that the run must have; None: any.
    """
    if not is_storable(send_id):
        return None
    run = Run.objects.filter(pk=send_id, session=session_pk).exclude(status__in=UNSUCCESSFUL).first()
    if run is None or request is None:
        return run
    text = json.dumps(request, default=str)
    return run if run.request in (text, _strip_request(text)) else None


def is_unused_id(run_id: str) -> bool:
    """Tell whether no run has this id."""
    return not Run.objects.filter(pk=run_id).exists()


def assign(run_id: str, runtime_id: str) -> bool:
    """Assign a queued run to a process. Return False if the run is not queued any more."""
    return update_runs(Run.objects.filter(pk=run_id, status=Status.QUEUED), runtime_id=runtime_id)


def claim(
    run_id: str, runtime_id: str, code_version: str, git_revision: str = "", claimed_at: float | None = None
) -> Run | None:
    """Start a queued run if no other run of its session is running or queued before it.

    Args:
        claimed_at: start time; None: now. A repeated claim with the same time succeeds again (`is_claim`).

    Returns None otherwise, also if the run was assigned to another process: the caller checks the row to decide whether
    to wait or to give up.
    """
    began = time.time() if claimed_at is None else claimed_at
    earlier = Run.objects.filter(session=OuterRef("session"), status__in=Run.ACTIVE).filter(
        Q(status=Status.RUNNING)
        | Q(created_at__lt=OuterRef("created_at"))
        | Q(created_at=OuterRef("created_at"), pk__lt=OuterRef("pk"))
    )
    is_claimable = Q(runtime_id=runtime_id) | Q(runtime_id__isnull=True)
    update_runs(
        Run.objects.filter(~Exists(earlier), is_claimable, pk=run_id, status=Status.QUEUED),
        status=Status.RUNNING,
        runtime_id=runtime_id,
        code_version=code_version,
        git_revision=git_revision,
        started_at=began,
        first_seq=_session_seq(),
    )
    run = Run.objects.select_related("session").filter(pk=run_id).first()
    if run is None or not is_claim(run, runtime_id, began):
        return None
    lean = _strip_request(run.request)
    if lean != run.request:
        Run.objects.filter(pk=run_id).update(request=lean)
    return run


def record_invocation(run_id: str, invocation_id: str) -> None:
    """Store the invocation id of an active run."""
    with transaction.atomic():
        if update_runs(Run.objects.filter(pk=run_id, status__in=Run.ACTIVE), invocation_id=invocation_id):
            run = Run.objects.only("session").get(pk=run_id)
            traces.note_run(run.session_id, invocation_id)


def finish(
    run_id: str,
    status: str,
    failure: Failure = NO_FAILURE,
    *,
    invocation_id: str = "",
    from_status: Collection[str] = Run.ACTIVE,
    finished_at: float | None = None,
) -> bool:
    """End an active run. Return False, without a change, if its status is not in `from_status`.

    Waiting runs of the session whose questions it answered become done.
    If no invocation was recorded because the process died, that of the run's first event is used.
    `finished_at` is the end time measured by the running process; None: now, but not before the start.
    """
    now = Value(time.time() if finished_at is None else finished_at)
    with transaction.atomic():
        ended = update_runs(
            Run.objects.filter(pk=run_id, status__in=from_status),
            status=status,
            finished_at=Greatest(now, Coalesce("started_at", now)),
            last_seq=_session_seq(),
            error_type=clean_text(failure.type),
            error=clean_error(failure.text),
            traceback=clean_error(failure.traceback),
            invocation_id=Value(invocation_id) if invocation_id else _run_invocation(),
        )
        if ended:
            run = Run.objects.get(pk=run_id)
            traces.note_run(run.session_id, run.invocation_id)
            if run.first_seq is not None:
                _finish_started(run)
            index_backlog.recheck(run.session_id, run.invocation_id)
    return ended


def _finish_started(run: Run) -> None:
    """End what a run leaves behind if it has started: waiting runs that it answered, traces; and charge its person."""
    finish_answered(run.session_id, spared=run.pk)
    pauses.end_run_pauses(run)
    if run.status in UNSUCCESSFUL:
        end = run.finished_at or 0.0
        traces.close_unfinished(end, session=run.session_id, invocation_id=run.invocation_id)
    _charge_quotas(run)


def _charge_quotas(run: Run) -> None:
    """Count what an ended run has spent for the quotas of its person."""
    if run.person:
        tokens, cost = read_run_spending(run)
        quota_enforcement.add_usage(
            run.person, run.session.app_name, tokens=tokens, cost=cost.amount if cost else 0.0
        )


def end_queued(run_id: str, status: str, failure: Failure = NO_FAILURE) -> bool:
    """End a queued run. Return False if it is not queued."""
    return finish(run_id, status, failure, from_status=(Status.QUEUED,))


def request_cancel(run_id: str) -> bool:
    """Request the cancellation of a run. Return False if it is not active."""
    return update_runs(Run.objects.filter(pk=run_id, status__in=Run.ACTIVE), cancel_requested_at=time.time())


def begin_cancel(run_id: str) -> bool:
    """End a queued run, or request the cancellation of a running one. Return whether to wait for its end."""
    return not end_queued(run_id, Status.CANCELLED) and request_cancel(run_id)


def cancel_requests(runtime_id: str) -> list[str]:
    """Return the ids of a process's active runs for which cancellation was requested."""
    runs = Run.objects.filter(runtime_id=runtime_id, status__in=Run.ACTIVE, cancel_requested_at__isnull=False)
    return list(runs.values_list("pk", flat=True))


def find_unresumable_run(session_pk: int, invocation_id: str) -> Run | None:
    """Return the newest run of an invocation if that cannot be resumed, because the run is active, waiting or done."""
    requested = json.dumps({"invocation_id": invocation_id})[1:-1]
    resumes = Q(invocation_id="", status__in=Run.ACTIVE, request__contains=requested)
    is_of_invocation = Q(invocation_id=invocation_id) | resumes
    newest = (
        Run.objects.filter(is_of_invocation, session_id=session_pk).order_by("-created_at", "-pk").first()
    )
    return newest if newest is not None and newest.status not in UNSUCCESSFUL else None


def require_resumable(session_pk: int, invocation_id: str) -> None:
    """Refuse to resume an invocation that has nothing left to do: ADK would make a run without events.

    Raises:
        InvocationFinished: naming the run that has it.
    """
    run = find_unresumable_run(session_pk, invocation_id)
    if run is not None:
        raise InvocationFinished(
            f"Invocation {invocation_id!r} cannot be resumed: run {run.pk} continued it and is {run.status}.",
            hint=f"GET /api/v1/runs/{run.pk} shows it. Send a message to start another invocation.",
        )


def get_status(run_id: str) -> str | None:
    """Return a run's status; None if it was deleted with its session."""
    return Run.objects.filter(pk=run_id).values_list("status", flat=True).first()


def list_unstarted(runtime_id: str) -> list[str]:
    """Return the ids of a process's queued runs that another process can take, oldest first."""
    queued = Run.objects.filter(runtime_id=runtime_id, status=Status.QUEUED).exclude(source=ADK_SOURCE)
    return list(queued.order_by("created_at", "pk").values_list("pk", flat=True))


def crash_run(run_id: str, why: str) -> bool:
    """End an active run whose process is gone. Return False if it is not active."""
    return finish(run_id, Status.CRASHED, Failure("RuntimeCrashed", why))


def crash_runs(runtime_id: str, why: str, spared: Collection[str] = ()) -> list[str]:
    """End the active runs of a process that is gone, except `spared`. Return their ids."""
    return end_rows(Run.objects.filter(runtime_id=runtime_id).exclude(pk__in=spared), crash_run, why)


def crash_orphans() -> list[str]:
    """Mark the processes that are gone, and end their active runs. Return the ids of the runs that crashed.

    Queued runs wait for the next process (`abandoned_runs`), except those whose caller is gone with the process (ADK's
    paths) and those for which cancellation was requested.
    """
    processes.mark_gone_stopped()
    abandoned = _abandoned_runs().filter(cancel_requested_at__isnull=False)
    for run_id in abandoned.values_list("pk", flat=True):
        end_queued(run_id, Status.CANCELLED)
    active = Run.objects.filter(HAS_STOPPED_PROCESS, status__in=Run.ACTIVE)
    crashed = end_rows(active.exclude(status=Status.QUEUED), crash_run, "Its process ended unexpectedly.")
    untaken = active.filter(source=ADK_SOURCE)
    return crashed + end_rows(untaken, crash_run, "Its process ended before starting the run.")


def abandoned_runs() -> list[tuple[str, str]]:
    """Return (run id, app name) of the queued runs whose server is gone, oldest first."""
    return list(_abandoned_runs().order_by("created_at", "pk").values_list("pk", "session__app_name"))


def _abandoned_runs() -> QuerySet[Run]:
    """Return the queued runs that belong to no live server.

    A runtime ends with its server; queued runs of a runtime that ended alone are reassigned by its server.
    """
    own_server_gone = HAS_STOPPED_PROCESS & Q(runtime__server__isnull=True)
    queued = Run.objects.filter(status=Status.QUEUED).exclude(source=ADK_SOURCE)
    return queued.filter(HAS_STOPPED_SERVER | own_server_gone | find_unassigned(queued, "created_at"))


def _strip_request(request: str) -> str:
    """Return a request without credentials and file content, as it is stored once a process has it.

    Both are in the event of the message, credentials in its private part.
    """
    if REQUEST_CREDENTIAL not in request and '"inlineData"' not in request:
        return request
    stripped = redact(json.loads(request))
    message = stripped.get("new_message")
    for part in (message.get("parts") if isinstance(message, dict) else None) or []:
        inline = part.get("inlineData") if isinstance(part, dict) else None
        if isinstance(inline, dict):
            inline.pop("data", None)
    return json.dumps(stripped)


def _run_invocation() -> Case:
    """Return the run's invocation id or, if none is recorded, that of the first event since its start."""
    since = Event.objects.filter(session_id=OuterRef("session_id"), seq__gt=OuterRef("first_seq"))
    first = Coalesce(Subquery(since.order_by("seq").values("invocation_id")[:1]), Value(""))
    return Case(When(invocation_id="", then=first), default=F("invocation_id"), output_field=TextField())


def _session_seq() -> Subquery:
    return Subquery(AgentSession.objects.filter(pk=OuterRef("session_id")).values("last_seq"))
