"""The rows of runs: one message sent to an agent, and what became of it.

A run is queued, claimed by a runtime process, and ends once. Runs on one session are claimed in the order
they were created, whichever process asks: the rule stands in `claim`, so two processes cannot break it.
Every function is one transaction and rings the bell.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import Case, Exists, F, OuterRef, Q, QuerySet, Subquery, TextField, Value, When
from django.db.models.functions import Coalesce, Greatest

from sessions_app import realms
from sessions_app.errors import InvocationFinished, SessionBusy
from sessions_app.lookup import session_missing
from sessions_app.models import AgentSession, Event, Run
from sessions_app.redaction import REQUEST_CREDENTIAL, redact
from sessions_app.runs import processes
from sessions_app.scopes import clean_error, clean_text
from sessions_app.store import change_notification
from sessions_app.store.stopwatch import ChangeTimer
from sessions_app.traces import records as traces

Status = Run.Status
ACTIVE = Run.ACTIVE

UNASSIGNED_S = 60.0
"""Seconds after which a queued run that belongs to no process is left behind. Those that servers queue have one."""

_unassigned = ChangeTimer()
"""When queued runs that belong to no process were queued, by their ids."""

ORDER_S = 1e-5
"""Seconds between two runs that the clock does not tell apart."""

ADK_SOURCE = "adk"
"""Source of a run that was asked for on one of ADK's own paths: its caller waits for the answer of one process."""

SCRIPT_SOURCE = "script"
"""Source of what a program with a Runner of its own left waiting: all that is known of its run is the question."""


def create_run(
    session_pk: int,
    request: Mapping[str, Any],
    source: str = "console",
    runtime_id: str | None = None,
    *,
    run_id: str = "",
) -> Run:
    """Queue a run on a session.

    Args:
        session_pk: the session's key.
        request: what `sessions_app.runs` documents.
        source: who asks for it.
        runtime_id: the process that has taken it already. Without one it belongs to this process until it is handed
            over, if that has a row of its own.
        run_id: the id that the run gets; empty: one is made.

    Raises:
        SessionMissing: no session has this key.
    """
    with transaction.atomic():
        if not realms.exclude_hidden(AgentSession.objects.filter(pk=session_pk)).exists():
            raise session_missing(session_pk)
        run = Run.objects.create(
            id=run_id or uuid.uuid4().hex,
            session_id=session_pk,
            request=json.dumps(request, default=str),
            source=source,
            runtime_id=runtime_id or processes.own_id(),
            created_at=_next_created_at(session_pk),
        )
        change_notification.notify_after_commit()
    return run


def _next_created_at(session_pk: int) -> float:
    """Return the time of a run that is queued now: behind those that wait, also when the clock was set back."""
    active = Run.objects.filter(session=session_pk, status__in=ACTIVE)
    newest = active.order_by("-created_at").values_list("created_at", flat=True).first()
    return time.time() if newest is None else max(time.time(), newest + ORDER_S)


def find_sent_run(session_pk: int, send_id: str, request: Mapping[str, Any] | None = None) -> Run | None:
    """Return the run that a form has queued on a session, unless it ended badly: then it may be sent again.

    Args:
        session_pk: the session's key.
        send_id: the id that the form gives its run.
        request: what the run has to ask; None: anything.
    """
    sent = Run.objects.filter(pk=send_id, session=session_pk).exclude(status__in=UNSUCCESSFUL).first()
    if sent is None or request is None:
        return sent
    text = json.dumps(request, default=str)
    return sent if sent.request in (text, _strip_request(text)) else None


def is_unused_id(run_id: str) -> bool:
    """Tell whether no run has an id yet."""
    return not Run.objects.filter(pk=run_id).exists()


def assign(run_id: str, runtime_id: str) -> bool:
    """Note which process has a queued run. Return whether it still waits."""
    return _update(Run.objects.filter(pk=run_id, status=Status.QUEUED), runtime_id=runtime_id)


def claim(
    run_id: str, runtime_id: str, code_version: str, git_revision: str = "", at: float | None = None
) -> Run | None:
    """Turn a queued run into a running one, once, when no other runs on its session and none waits before it.

    Args:
        at: when it begins; None: now. A claim that is repeated with the same time is the same claim: whoever lost the
            answer of the store to the first one does not lose the run.

    Returns None otherwise, also when another process was given the run since: the caller looks at the row to see
    whether to wait or to give up.
    """
    began = time.time() if at is None else at
    earlier = Run.objects.filter(session=OuterRef("session"), status__in=ACTIVE).filter(
        Q(status=Status.RUNNING)
        | Q(created_at__lt=OuterRef("created_at"))
        | Q(created_at=OuterRef("created_at"), pk__lt=OuterRef("pk"))
    )
    own = Q(runtime_id=runtime_id) | Q(runtime_id__isnull=True)
    claimed = _update(
        Run.objects.filter(~Exists(earlier), own, pk=run_id, status=Status.QUEUED),
        status=Status.RUNNING,
        runtime_id=runtime_id,
        code_version=code_version,
        git_revision=git_revision,
        started_at=began,
        first_seq=_session_seq(),
    )
    same_claim = Run.objects.filter(pk=run_id, status=Status.RUNNING, runtime_id=runtime_id, started_at=began)
    if not claimed and not same_claim.exists():
        return None
    run = Run.objects.select_related("session").get(pk=run_id)
    lean = _strip_request(run.request)
    if lean != run.request:
        Run.objects.filter(pk=run_id).update(request=lean)
    return run


def record_invocation(run_id: str, invocation_id: str) -> None:
    """Note the invocation of an active run as soon as it is known."""
    _update(Run.objects.filter(pk=run_id, status__in=ACTIVE), invocation_id=invocation_id)


def finish(
    run_id: str,
    status: str,
    *,
    error_type: str = "",
    error: str = "",
    traceback: str = "",
    invocation_id: str = "",
    from_status: Collection[str] = ACTIVE,
    finished_at: float | None = None,
) -> bool:
    """End an active run. Return False when it had ended already, or has another status; then nothing changes.

    Runs on its session that waited for what it answered are done.
    An invocation that nobody noted, because the process died first, is that of the run's first event.
    `finished_at` is when it ended, by the watch of the process that ran it; None: now, but not before it began.
    """
    now = Value(time.time() if finished_at is None else finished_at)
    with transaction.atomic():
        ended = _update(
            Run.objects.filter(pk=run_id, status__in=from_status),
            status=status,
            finished_at=Greatest(now, Coalesce("started_at", now)),
            last_seq=_session_seq(),
            error_type=clean_text(error_type),
            error=clean_error(error),
            traceback=clean_error(traceback),
            invocation_id=Value(invocation_id) if invocation_id else _invocation(),
        )
        if ended:
            _finish_answered_beside(run_id)
        if ended and status in UNSUCCESSFUL:
            run = Run.objects.get(pk=run_id)
            traces.close_unfinished(
                run.finished_at or 0.0, session=run.session_id, invocation_id=run.invocation_id
            )
    return ended


def end_queued(run_id: str, status: str, error_type: str = "", error: str = "") -> bool:
    """End a run that nobody has begun. Return whether it was one."""
    return _update(
        Run.objects.filter(pk=run_id, status=Status.QUEUED),
        status=status,
        finished_at=time.time(),
        last_seq=_session_seq(),
        error_type=clean_text(error_type),
        error=clean_error(error),
    )


def request_cancel(run_id: str) -> bool:
    """Note that an active run is to be cancelled. Return whether it is active."""
    return _update(Run.objects.filter(pk=run_id, status__in=ACTIVE), cancel_requested_at=time.time())


def cancel_requests(runtime_id: str) -> list[str]:
    """Return the active runs of a process that somebody wants cancelled, whichever process asked."""
    asked = Run.objects.filter(runtime_id=runtime_id, status__in=ACTIVE, cancel_requested_at__isnull=False)
    return list(asked.values_list("pk", flat=True))


def active_run(session_pk: int) -> Run | None:
    """Return the run that is active on a session: the one that runs, else the one that is next."""
    runs = Run.objects.filter(session_id=session_pk, status__in=ACTIVE)
    return runs.order_by(Case(When(status=Status.RUNNING, then=0), default=1), "created_at", "pk").first()


UNSUCCESSFUL = (Status.FAILED, Status.CRASHED, Status.CANCELLED)
"""How a run ends that left something to be done."""


def find_unresumable_run(session_pk: int, invocation_id: str) -> Run | None:
    """Return the newest run of an invocation when there is nothing to resume: it is under way, waits or is done."""
    asked_for = json.dumps({"invocation_id": invocation_id})[1:-1]
    is_one = Q(invocation_id=invocation_id) | Q(
        invocation_id="", status__in=ACTIVE, request__contains=asked_for
    )
    newest = Run.objects.filter(is_one, session_id=session_pk).order_by("-created_at", "-pk").first()
    return newest if newest is not None and newest.status not in UNSUCCESSFUL else None


def require_resumable(session_pk: int, invocation_id: str) -> None:
    """Refuse to resume an invocation of which nothing is left to do: ADK would make a run without events of it.

    Raises:
        InvocationFinished: naming the run that has it.
    """
    run = find_unresumable_run(session_pk, invocation_id)
    if run is not None:
        raise InvocationFinished(
            f"Invocation {invocation_id!r} cannot be resumed: run {run.pk} went on with it and is {run.status}.",
            hint=f"GET /api/v1/runs/{run.pk} tells of it. Send a message to begin another invocation.",
        )


def require_idle(session_pk: int, session_id: str) -> None:
    """Refuse a change of a session while an agent works on it.

    Raises:
        SessionBusy: naming the run.
    """
    active = active_run(session_pk)
    if active is not None:
        raise SessionBusy(
            f"Run {active.id} is active on session {session_id!r}.",
            hint=f"Cancel the run first (POST /api/v1/runs/{active.id}/cancel), or wait for its end.",
        )


def get_status(run_id: str) -> str | None:
    """Return a run's status, or None when it was deleted with its session."""
    return Run.objects.filter(pk=run_id).values_list("status", flat=True).first()


def open_calls(session_pk: int, invocation_id: str) -> list[str]:
    """Return the ids of an invocation's long-running calls that the user has not answered, oldest first.

    An answer belongs to the invocation that asked, as in Python's ADK, or begins one, as in other languages.
    """
    events = Event.objects.filter(session_id=session_pk).order_by("seq")
    waiting: dict[str, int] = {}
    for seq, text in events.filter(invocation_id=invocation_id).values_list("seq", "summary"):
        calls = json.loads(text).get("calls", [])
        waiting.update((call["id"], seq) for call in calls if call["waiting"])
    if waiting:
        answers = events.filter(seq__gt=min(waiting.values()), author="user")
        for text in answers.values_list("summary", flat=True):
            for result in json.loads(text).get("results", []):
                waiting.pop(result["id"], None)
    return list(waiting)


def unstarted_runs_of(runtime_id: str) -> list[str]:
    """Return what a process was given and has not begun, oldest first, as far as another one can take it."""
    queued = Run.objects.filter(runtime_id=runtime_id, status=Status.QUEUED).exclude(source=ADK_SOURCE)
    return list(queued.order_by("created_at", "pk").values_list("pk", flat=True))


def crash_runs_of(runtime_id: str, why: str, spared: Collection[str] = ()) -> list[str]:
    """End the active runs of a process that is gone, but those that are handed on. Return their ids."""
    return _crash_runs(Run.objects.filter(runtime_id=runtime_id).exclude(pk__in=spared), why)


def crash_orphans() -> list[str]:
    """End the active runs that nobody will end, because their process is gone.

    What it has not begun waits for the next process (`left_behind`), unless nobody waits for it any more: who asked by
    ADK's own paths lost the answer with the process, and others may have wanted it cancelled.
    """
    processes.mark_gone_stopped()
    for run_id in _abandoned().filter(cancel_requested_at__isnull=False).values_list("pk", flat=True):
        end_queued(run_id, Status.CANCELLED)
    stopped = Run.objects.filter(runtime__stopped_at__isnull=False)
    crashed = _crash_runs(stopped.exclude(status=Status.QUEUED), "Its process ended without a word.")
    return crashed + _crash_runs(
        stopped.filter(source=ADK_SOURCE), "Its process ended before it had begun it."
    )


def abandoned_runs() -> list[tuple[str, str]]:
    """Return ids and apps of the queued runs whose server has gone, oldest first: another one can take them up."""
    return list(_abandoned().order_by("created_at", "pk").values_list("pk", "session__app_name"))


def _abandoned() -> QuerySet[Run]:
    """Return what waits and belongs to no living server.

    A process ends with its server, and what only the process leaves its server hands on.
    """
    server_gone = Q(runtime__server__stopped_at__isnull=False)
    own_master_gone = Q(runtime__server__isnull=True, runtime__stopped_at__isnull=False)
    queued = Run.objects.filter(status=Status.QUEUED).exclude(source=ADK_SOURCE)
    unassigned = dict(queued.filter(runtime=None).values_list("pk", "created_at"))
    never_taken = Q(pk__in=_unassigned.unchanged(unassigned, UNASSIGNED_S))
    return queued.filter(server_gone | own_master_gone | never_taken)


def _finish_answered_beside(run_id: str) -> None:
    """End the waiting runs beside one that has ended of which nothing is asked any more."""
    beside = Run.objects.filter(session__runs=run_id, status=Status.WAITING).exclude(invocation_id="")
    for pk, session_pk, invocation_id in beside.exclude(pk=run_id).values_list(
        "pk", "session_id", "invocation_id"
    ):
        if not open_calls(session_pk, invocation_id):
            Run.objects.filter(pk=pk).update(status=Status.DONE)


def finish_rewound(session_pk: int, seq: int) -> None:
    """End the waiting runs of a session that began at an event or later: what they asked was taken back with it."""
    waiting = Run.objects.filter(session_id=session_pk, status=Status.WAITING, first_seq__gte=seq - 1)
    _update(waiting, status=Status.DONE)


def record_question(session_pk: int, invocation_id: str, seq: int) -> bool:
    """Keep that an agent that another program runs waits for an answer since an event; once an invocation.

    Return whether it was kept: not when nothing is open, and not of an invocation of which a run tells already.
    """
    with transaction.atomic():
        told = Run.objects.filter(session_id=session_pk, invocation_id=invocation_id)
        if told.filter(status__in=(*ACTIVE, Status.WAITING)).exists() or not open_calls(
            session_pk, invocation_id
        ):
            return False
        now = time.time()
        Run.objects.create(
            id=uuid.uuid4().hex,
            session_id=session_pk,
            status=Status.WAITING,
            source=SCRIPT_SOURCE,
            invocation_id=invocation_id,
            created_at=now,
            started_at=now,
            finished_at=now,
            first_seq=seq - 1,
            last_seq=seq,
        )
        change_notification.notify_after_commit()
    return True


def record_answer(session_pk: int) -> None:
    """End the waiting runs of a session of which nothing is asked any more, because another program answered."""
    with transaction.atomic():
        waiting = Run.objects.filter(session_id=session_pk, status=Status.WAITING).exclude(invocation_id="")
        answered = [
            pk
            for pk, invocation_id in waiting.values_list("pk", "invocation_id")
            if not open_calls(session_pk, invocation_id)
        ]
        _update(Run.objects.filter(pk__in=answered), status=Status.DONE)


def record_rewind(session_pk: int, invocation_id: str) -> None:
    """End the waiting runs of a session that another program rewound to before an invocation."""
    first = Event.objects.filter(session_id=session_pk, invocation_id=invocation_id).order_by("seq")
    seq = first.values_list("seq", flat=True).first()
    if seq is not None:
        finish_rewound(session_pk, seq)


def _strip_request(request: str) -> str:
    """Return what is kept of a request once a process has it: no credentials, and no content of files.

    Both stand in the event of the message, the credentials in its private part.
    """
    if REQUEST_CREDENTIAL not in request and '"inlineData"' not in request:
        return request
    kept = redact(json.loads(request))
    message = kept.get("new_message")
    for part in (message.get("parts") if isinstance(message, dict) else None) or []:
        inline = part.get("inlineData") if isinstance(part, dict) else None
        if isinstance(inline, dict):
            inline.pop("data", None)
    return json.dumps(kept)


def _crash_runs(runs: QuerySet[Run], why: str) -> list[str]:
    end = partial(finish, status=Status.CRASHED, error_type="RuntimeCrashed", error=why)
    return [run_id for run_id in runs.filter(status__in=ACTIVE).values_list("pk", flat=True) if end(run_id)]


def _update(runs: QuerySet[Run], **values: Any) -> bool:
    with transaction.atomic():
        changed = bool(runs.update(**values))
        if changed:
            change_notification.notify_after_commit()
    return changed


def _invocation() -> Case:
    """Return the run's invocation or, not noted, that of the first event since it began."""
    since = Event.objects.filter(session_id=OuterRef("session_id"), seq__gt=OuterRef("first_seq"))
    first = Coalesce(Subquery(since.order_by("seq").values("invocation_id")[:1]), Value(""))
    return Case(When(invocation_id="", then=first), default=F("invocation_id"), output_field=TextField())


def _session_seq() -> Subquery:
    return Subquery(AgentSession.objects.filter(pk=OuterRef("session_id")).values("last_seq"))
