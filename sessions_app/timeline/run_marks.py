"""The runs a session page tells of: the active ones, the newest one, and those of the events it shows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.db.models import Case, F, Q, TextField, Value, When
from django.db.models.functions import Coalesce

from sessions_app.models import AgentSession, Event, Run

RUNS_SCANNED = 20
"""The newest runs that are read; a longer queue is cut."""

TEXT_LIMIT = 200

UNSUCCESSFUL = (Run.Status.FAILED, Run.Status.CANCELLED, Run.Status.CRASHED)
"""How a run ends that the timeline tells of, with or without an event."""


@dataclass(frozen=True, slots=True)
class SessionRuns:
    """Runs of a session. `ended` is the newest run when it has ended and did not simply succeed.

    `newest` are all that were looked at, newest first.
    """

    active: list[Run]
    ended: Run | None
    newest: list[Run] = field(default_factory=list)

    @property
    def running(self) -> Run | None:
        """The run that a process works on."""
        return next((run for run in self.active if run.status == Run.Status.RUNNING), None)

    @property
    def mark(self) -> str:
        """A text that changes when there is something else to show."""
        shown = [*self.active, self.ended] if self.ended else self.active
        return " ".join(f"{run.pk}:{run.status}:{run.cancel_requested_at or ''}" for run in shown)


@dataclass(frozen=True, slots=True)
class RunMark:
    """How a run went, where it stands in the timeline.

    Attributes:
        with_traceback: no event beside it shows that.
        asked: what its user said, when no event says it.
        lost_toolsets: toolsets that failed to load in it.
        is_attempt: its invocation was broken off and gone on with: every attempt is told, whatever became of it.
    """

    run: Run
    with_traceback: bool = True
    asked: str = ""
    lost_toolsets: Sequence[str] = ()
    is_attempt: bool = False

    @classmethod
    def alone(cls, run: Run, request: str) -> RunMark:
        """Return the mark of a run that left no event."""
        return cls(run, asked=request_text(request))

    @property
    def seconds(self) -> float | None:
        """How long it took; None while it runs, and when nobody has begun it."""
        if self.run.started_at is None or self.run.finished_at is None:
            return None
        return max(0.0, self.run.finished_at - self.run.started_at)

    @property
    def never_began(self) -> bool:
        """Tell whether it ended before any process had begun it."""
        return self.run.started_at is None and self.run.finished_at is not None

    @property
    def after(self) -> int:
        """Return the seq it stands behind when it has no event of its own."""
        return position_of(self.run)

    @property
    def is_told(self) -> bool:
        """Tell whether there is anything to say of it, as long as its question, if it has one, is open."""
        return self.is_attempt or needs_mark(self.run, is_asking=True)

    @property
    def is_alone(self) -> bool:
        """Tell whether it stands in the timeline by itself: it ended and left no event."""
        return not self.run.invocation_id and self.run.status in UNSUCCESSFUL

    @property
    def detail(self) -> str:
        """Return what is read on opening it: the traceback, or the error whole."""
        return (self.with_traceback and self.run.traceback) or self.run.error


def read_window_runs(session: AgentSession, events: Sequence[Event]) -> list[Run]:
    """Return the runs of the events' invocations, and those that left none but ended among them. One query.

    These have their request as `asked`, all others an empty text. They stand behind the event that was the
    session's last when they began: those before any event belong to the window that holds the first one, or to an
    empty one.
    """
    first, last = (events[0].seq, events[-1].seq) if events else (0, 0)
    of_events = Q(invocation_id__in={event.invocation_id for event in events} - {""})
    place = Coalesce("first_seq", "last_seq", Value(0))
    alone = Q(
        invocation_id="", status__in=UNSUCCESSFUL, place__gte=0 if first <= 1 else first, place__lte=last
    )
    asked = Case(When(invocation_id="", then=F("request")), default=Value(""), output_field=TextField())
    runs = Run.objects.filter(session=session).annotate(place=place, asked=asked)
    return list(runs.filter(of_events | alone).defer("request").order_by("created_at", "pk"))


def position_of(run: Run) -> int:
    """Return the seq behind which a run stands: the session's last when it began or, never begun, when it ended."""
    return run.first_seq if run.first_seq is not None else run.last_seq or 0


def interrupted_invocations(runs: Sequence[Run]) -> set[str]:
    """Return the invocations of which a run ended before its work was done: what follows are further attempts."""
    return {run.invocation_id for run in runs if run.invocation_id and run.status in UNSUCCESSFUL}


def needs_mark(run: Run, *, is_asking: bool) -> bool:
    """Tell whether a run's state is worth a mark: it did not simply succeed. `is_asking`: its question is open."""
    if run.status == Run.Status.WAITING:
        return is_asking
    return run.status in UNSUCCESSFUL or run.status == Run.Status.RUNNING


def read_session_runs(session_pk: int) -> SessionRuns:
    """Return what there is to tell of a session's runs. One query."""
    newest = list(Run.objects.filter(session_id=session_pk).order_by("-created_at", "-pk")[:RUNS_SCANNED])
    active = [run for run in reversed(newest) if run.status in Run.ACTIVE]
    last = newest[0] if newest else None
    told = last if last and last.status not in {*Run.ACTIVE, Run.Status.DONE} else None
    return SessionRuns(active, told, newest)


def changed_marks(runs: Sequence[Run], known: Mapping[str, str]) -> tuple[list[RunMark], dict[str, str]]:
    """Return the marks of runs that are not what is known of them, oldest first, and what is known then.

    What is known of a run is a text that changes with its mark.
    """
    now = {run.pk: f"{run.status} {run.invocation_id}" for run in reversed(runs)}
    changed = [run for run in reversed(runs) if known.get(run.pk) != now[run.pk]]
    attempts = interrupted_invocations(runs)
    marks = [RunMark.alone(run, run.request) for run in changed if run.status != Run.Status.QUEUED]
    return [replace(mark, is_attempt=mark.run.invocation_id in attempts) for mark in marks], now


def message_text(run: Run) -> str:
    """Return the start of what a run's user said, or a word for what else was sent."""
    return request_text(run.request)


def request_text(text: str) -> str:
    """Return the start of what a request's user says, or a word for what else it sends."""
    request = json.loads(text)
    message = request.get("new_message")
    parts: list[Any] = message.get("parts") or [] if isinstance(message, dict) else []
    said = " ".join(
        part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)
    )
    if said:
        return said if len(said) <= TEXT_LIMIT else said[: TEXT_LIMIT - 1] + "…"
    answers = [part for part in parts if isinstance(part, dict) and "functionResponse" in part]
    return "an answer" if answers else "files" if parts else "no message"
