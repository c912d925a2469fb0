"""Runs on a session page: the active ones, the newest one, and those of the shown events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Case, F, Q, TextField, Value, When
from django.db.models.functions import Coalesce

from sessions_app.console.pause_points import PausePoints, may_pause
from sessions_app.runs import job_queue
from sessions_app.runs.pauses import IS_PAUSED, OpenPause, list_open_pauses, list_pause_keys
from sessions_app.store.models import AgentSession, Event, Run
from sessions_app.store.short_texts import truncate

RUNS_SCANNED = 20
"""Number of newest runs that are read; a longer queue is truncated."""

TEXT_LIMIT = 200

UNSUCCESSFUL = (Run.Status.FAILED, Run.Status.CANCELLED, Run.Status.CRASHED)
"""Final statuses that the timeline always shows."""


@dataclass(frozen=True, slots=True)
class SessionRuns:
    """Runs of a session. `ended` is the newest run if it has ended and did not simply succeed.

    `newest` are all runs read, newest first. `waits_for` is the reason for which no worker has begun the first active
    run; empty if it runs, or if this process delivers its runs itself. `pause_keys` are the keys of the
    running run's calls that wait for a decision, `pauses` the calls, which are read to be shown only.
    """

    active: list[Run]
    ended: Run | None
    newest: list[Run] = field(default_factory=list)
    waits_for: str = ""
    pause_keys: list[int] = field(default_factory=list)
    pauses: list[OpenPause] = field(default_factory=list)

    @property
    def running(self) -> Run | None:
        """The running run."""
        return next((run for run in self.active if run.status == Run.Status.RUNNING), None)

    @property
    def streamed(self) -> Run | None:
        """The run whose text pages show: the running one, or the next one that a worker takes.

        The worker's first text may come before its claim of the run has been read here.
        """
        return self.running or (self.active[0] if self.waits_for else None)

    @property
    def mark(self) -> str:
        """A text that changes with what is shown."""
        runs = [*self.active, self.ended] if self.ended else self.active
        marks = [f"{run.pk}:{run.status}:{run.cancel_requested_at or ''}" for run in runs]
        return " ".join([*marks, self.waits_for, *(f"paused:{key}" for key in self.pause_keys)])

    @property
    def pause_points(self) -> PausePoints:
        """The pause points of the newest run, which the console offers again."""
        request = self.newest[0].request if self.newest else ""
        return PausePoints.read_request(json.loads(request) if may_pause(request) else {})


@dataclass(frozen=True, slots=True)
class RunMark:
    """Mark of a run in the timeline.

    Attributes:
        error_seq: seq of the event that shows the error; 0: none does, so the mark shows it.
        message: the user's message, if no event shows it.
        is_attempt: one of several runs of an interrupted invocation, which are all shown.
        is_paused: it waits for a person's decision.
    """

    run: Run
    error_seq: int = 0
    message: str = ""
    is_attempt: bool = False
    is_paused: bool = False

    @classmethod
    def alone(cls, run: Run, request: str) -> RunMark:
        """Return the mark of a run without events."""
        return cls(run, message=request_text(request))

    @property
    def version(self) -> str:
        """A text that changes with what is shown."""
        return f"{self.run.status} {self.run.invocation_id}{' paused' if self.is_paused else ''}"

    @property
    def never_began(self) -> bool:
        """Tell whether it ended without being started."""
        return self.run.started_at is None and self.run.finished_at is not None

    @property
    def after(self) -> int:
        """The seq after which the mark is placed if the run has no events."""
        return find_position(self.run)

    @property
    def is_visible(self) -> bool:
        """Tell whether the run needs a mark, assuming that its question is open."""
        return self.is_attempt or needs_mark(self.run, is_asking=True)

    @property
    def is_alone(self) -> bool:
        """Tell whether the run ended without events."""
        return not self.run.invocation_id and self.run.status in UNSUCCESSFUL

    @property
    def detail(self) -> str:
        """The expandable text: the traceback or the full error."""
        return self.run.traceback or self.run.error


def read_window_runs(session: AgentSession, events: Sequence[Event]) -> list[Run]:
    """Return the runs of the events' invocations, runs without events that ended among them, and those that run.

    One query.

    `is_paused` tells whether they wait for a person's decision. Runs without events have their request as
    `request_message`; for others it is empty. They are placed after the
    event that was the session's last when they started; runs before any event belong to the first or an empty window.
    """
    first, last = (events[0].seq, events[-1].seq) if events else (0, 0)
    of_events = Q(invocation_id__in={event.invocation_id for event in events} - {""})
    position = Coalesce("first_seq", "last_seq", Value(0))
    alone = Q(
        invocation_id="", status__in=UNSUCCESSFUL, place__gte=0 if first <= 1 else first, place__lte=last
    )
    request = Case(When(invocation_id="", then=F("request")), default=Value(""), output_field=TextField())
    runs = Run.objects.filter(session=session).annotate(
        place=position, request_message=request, is_paused=IS_PAUSED
    )
    return list(
        runs.filter(of_events | alone | Q(status=Run.Status.RUNNING))
        .defer("request")
        .order_by("created_at", "pk")
    )


def find_position(run: Run) -> int:
    """Return the seq after which a run is placed: the session's last seq at its start or, if never started, its end."""
    return run.first_seq if run.first_seq is not None else run.last_seq or 0


def interrupted_invocations(runs: Sequence[Run]) -> set[str]:
    """Return the invocations with an unsuccessful run; their other runs are further attempts."""
    return {run.invocation_id for run in runs if run.invocation_id and run.status in UNSUCCESSFUL}


def needs_mark(run: Run, *, is_asking: bool) -> bool:
    """Tell whether a run did not simply succeed. `is_asking`: its question is open."""
    if run.status == Run.Status.WAITING:
        return is_asking
    return run.status in UNSUCCESSFUL or run.status == Run.Status.RUNNING


def read_session_runs(session_pk: int) -> SessionRuns:
    """Return the runs of a session. One query, up to three with workers while a run is queued, and one while
    a run with pause points is running.
    """
    newest = list(Run.objects.filter(session_id=session_pk).order_by("-created_at", "-pk")[:RUNS_SCANNED])
    active = [run for run in reversed(newest) if run.status in Run.ACTIVE]
    last = newest[0] if newest else None
    ended = last if last and last.status not in {*Run.ACTIVE, Run.Status.DONE} else None
    is_queued = bool(active) and active[0].status == Run.Status.QUEUED
    waits_for = job_queue.explain_waiting(active[0]) if is_queued else ""
    runs = SessionRuns(active, ended, newest, waits_for)
    return replace(runs, pause_keys=list_pause_keys(runs.running))


def read_pauses(runs: SessionRuns) -> SessionRuns:
    """Return runs with the calls that wait for a decision. One query if there are any."""
    return replace(runs, pauses=list_open_pauses(runs.running)) if runs.pause_keys else runs


def changed_marks(
    runs: SessionRuns, earlier_versions: Mapping[str, str]
) -> tuple[list[RunMark], dict[str, str]]:
    """Return the marks of the newest runs that changed, oldest first, and their versions to pass next time.

    `earlier_versions` are the versions of marks by the ids of their runs.
    """
    paused_run = runs.running if runs.pause_keys else None
    marks = {run.pk: RunMark(run, is_paused=run == paused_run) for run in reversed(runs.newest)}
    versions = {pk: mark.version for pk, mark in marks.items()}
    attempts = interrupted_invocations(runs.newest)
    changed = [
        replace(mark, message=request_text(mark.run.request), is_attempt=mark.run.invocation_id in attempts)
        for pk, mark in marks.items()
        if earlier_versions.get(pk) != versions[pk] and mark.run.status != Run.Status.QUEUED
    ]
    return changed, versions


def message_text(run: Run) -> str:
    """Return the start of a run's message, or a word for other content."""
    return request_text(run.request)


def request_text(text: str) -> str:
    """Return the start of a request's message, or a word for other content."""
    request = json.loads(text)
    message = request.get("new_message")
    parts: list[Any] = message.get("parts") or [] if isinstance(message, dict) else []
    text_parts = " ".join(
        part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    )
    if text_parts:
        return truncate(text_parts, TEXT_LIMIT)
    answers = [part for part in parts if isinstance(part, dict) and "functionResponse" in part]
    return "an answer" if answers else "files" if parts else "no message"
