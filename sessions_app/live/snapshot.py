"""Queries that a live page makes after a change notification: a session's snapshot, and its new events as HTML.

Each function is one unit of work for `sessions_app.store.database.units_of_work.read`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.template.loader import render_to_string

from sessions_app.live.streaming_text import TextStream
from sessions_app.presentation import visible_text
from sessions_app.problems import problem_queries
from sessions_app.sessions import judgements
from sessions_app.state.state_board import state_mark
from sessions_app.store import realms
from sessions_app.store.database.compiled_query import CompiledQuery
from sessions_app.store.events.conditions import IS_ERROR
from sessions_app.store.models import (
    AgentSession,
    AppScope,
    Event,
    EventJudgement,
    LogRecord,
    NestedRun,
    SessionProblem,
    UntrackedKey,
    UserScope,
)
from sessions_app.store.traces.log_records import log_counts_after
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.nested_runs import runs_changed_after
from sessions_app.timeline.run_marks import RunMark, SessionRuns, read_pauses, read_session_runs
from sessions_app.timeline.siblings import list_mark
from sessions_app.timeline.timeline_reader import BROKEN, read_timeline

TIMELINE = "devui/sessions/timeline/timeline.html"
NESTED = "devui/sessions/timeline/nested_changes.html"
LOG = "devui/sessions/timeline/log_changes.html"
JUDGEMENTS = "devui/sessions/timeline/judgement_changes.html"
CONSOLE = "devui/sessions/console/console.html"

MAX_ERRORS = 5
"""Maximum number of error events rendered again when their run has ended; usually there is one."""


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """Current values of a session. A mark is a text that changes with what it stands for.

    Attributes:
        app_name, name: of the session.
        last_seq: seq of its last event.
        state_mark, list_mark, problems_mark: of its state, its row in the list, and its problems.
        runs: its newest runs and their marks.
        nested_changed_at: epoch seconds of the last change of a nested run.
        last_record: key of the newest log record.
        judged_at: epoch seconds of the newest change of a judgement.
    """

    app_name: str
    name: str
    last_seq: int
    state_mark: str
    list_mark: str
    problems_mark: str
    runs: SessionRuns
    is_checked: bool = True
    nested_changed_at: float = 0.0
    last_record: int = 0
    judged_at: float = 0.0

    @property
    def mark(self) -> tuple[object, ...]:
        """Changes with everything that is shown of the snapshot."""
        runs = [(run.pk, run.status, run.invocation_id) for run in self.runs.newest]
        return (
            self.last_seq,
            self.name,
            self.state_mark,
            self.list_mark,
            self.problems_mark,
            self.runs.mark,
            self.nested_changed_at,
            self.last_record,
            self.judged_at,
            *runs,
        )


@dataclass(frozen=True, slots=True)
class EventBatch:
    """New events in order, and their HTML."""

    events: list[Event]
    html: str


def read_snapshot(session_pk: int) -> SessionSnapshot | None:
    """Return the snapshot of a session; None if it does not exist. Three queries."""
    rows = _SESSION.rows(session_pk)
    if not rows:
        return None
    row = dict(zip(COLUMNS, rows[0][1:], strict=True))
    runs = read_session_runs(session_pk)
    return SessionSnapshot(
        app_name=row["app_name"],
        name=visible_text.escape_text(row["title"] or row["first_text"] or row["session_id"]),
        last_seq=row["last_seq"],
        state_mark=state_mark(
            row["last_seq"], row["user_version"], row["app_version"], row["untracked"], runs.running
        ),
        list_mark=list_mark(row["realm"], row["app_name"]),
        problems_mark=problem_queries.problems_mark(row["problem_count"], row["newest_problem"]),
        runs=runs,
        is_checked=row["problems_seq"] >= row["last_seq"],
        nested_changed_at=row["nested_changed_at"] or 0.0,
        last_record=row["last_record"] or 0,
        judged_at=row["judged_at"] or 0.0,
    )


def read_events_after(session_pk: int, cursor: int, limit: int = windows.WINDOW_SIZE) -> EventBatch:
    """Return up to `limit` events after a cursor, rendered by the page's template."""
    session = AgentSession.objects.filter(pk=session_pk).first()
    if session is None:
        return EventBatch([], "")
    timeline = read_timeline(session, windows.after(session, cursor, limit), folds=True)
    html = render_to_string(f"{TIMELINE}#groups", {"groups": timeline.groups, "session": session})
    return EventBatch(timeline.window.events, html)


def speakers_after(session_pk: int, cursor: int, last: int) -> list[Event]:
    """Return the events after a cursor up to `last`, with seq, author and branch only."""
    events = Event.objects.filter(session=session_pk, seq__gt=cursor, seq__lte=last)
    return list(events.only("seq", "author", "branch").order_by("seq"))


def runs_html(session_pk: int, app_name: str, runs: SessionRuns) -> str:
    """Return the HTML of the session's runs at the console."""
    context = {"runs": read_pauses(runs), "session_pk": session_pk, "app_name": app_name}
    return render_to_string(f"{CONSOLE}#runs", context)


def marks_html(session_pk: int, marks: Sequence[RunMark], cursor: int) -> tuple[str, str]:
    """Return the HTML of run marks, a template each, and of the errors up to a cursor at which the runs broke.

    An error event is stored before its run ends with a traceback, so it is rendered again.
    """
    session = AgentSession.objects.filter(pk=session_pk).first()
    errors = _new_errors(session, marks, cursor) if session else []
    error_seqs = {event.invocation_id: event.seq for event in reversed(errors)}
    marks_to_show = [replace(mark, error_seq=error_seqs.get(mark.run.invocation_id, 0)) for mark in marks]
    html = render_to_string(f"{TIMELINE}#run-marks", {"marks": marks_to_show})
    return html, "".join(_event_html(session, event) for event in errors if session)


def nested_html(session_pk: int, changed_at: float) -> str:
    """Return the HTML of the nested runs that changed after a time, a template each; empty if there are none."""
    session = AgentSession.objects.filter(pk=session_pk).first()
    heads = runs_changed_after(session, changed_at) if session else []
    return render_to_string(NESTED, {"heads": heads, "session_pk": session_pk}) if heads else ""


def log_html(session_pk: int, after_pk: int) -> str:
    """Return the HTML of the logs below events with records newer than `after_pk`, a template each."""
    session = AgentSession.objects.filter(pk=session_pk).first()
    counts = log_counts_after(session, after_pk) if session else {}
    return render_to_string(LOG, {"counts": counts, "session_pk": session_pk}) if counts else ""


def judgements_html(session_pk: int, judged_at: float) -> str:
    """Return the HTML of the judgements that changed after a time, a template each; empty if there are none."""
    changed = judgements.list_changed_judgements(session_pk, judged_at)
    return render_to_string(JUDGEMENTS, {"judgements": changed, "session_pk": session_pk}) if changed else ""


def _new_errors(session: AgentSession, marks: Sequence[RunMark], cursor: int) -> list[Event]:
    broken = {mark.run.invocation_id for mark in marks if mark.run.status in BROKEN} - {""}
    if not broken:
        return []
    errors = windows.event_rows(session).filter(IS_ERROR, invocation_id__in=broken, seq__lte=cursor)
    return list(errors.order_by("-seq")[:MAX_ERRORS])


def _event_html(session: AgentSession, event: Event) -> str:
    timeline = read_timeline(session, windows.EventWindow([event], session.last_seq), titles=False)
    return render_to_string(f"{TIMELINE}#groups", {"groups": timeline.groups, "session": session})


def pending_html(streams: Iterable[TextStream]) -> str:
    """Return the HTML of the streaming text; empty if there is none."""
    return render_to_string(f"{TIMELINE}#pending", {"streams": list(streams)}).strip()


COLUMNS = (
    "realm",
    "app_name",
    "session_id",
    "title",
    "first_text",
    "last_seq",
    "user_version",
    "app_version",
    "untracked",
    "nested_changed_at",
    "problem_count",
    "problems_seq",
    "newest_problem",
    "last_record",
    "judged_at",
)


def _session_with_scopes(session_pk: int) -> list[QuerySet[AgentSession, tuple[Any, ...]]]:
    owner = {"realm": OuterRef("realm"), "app_name": OuterRef("app_name")}
    return [
        realms.exclude_hidden(AgentSession.objects.filter(pk=session_pk))
        .annotate(
            user_version=Subquery(
                UserScope.objects.filter(**owner, user_id=OuterRef("user_id")).values("version")[:1]
            ),
            app_version=Subquery(AppScope.objects.filter(**owner).values("version")[:1]),
            untracked=Subquery(
                UntrackedKey.objects.filter(session=OuterRef("pk")).order_by("-pk").values("pk")[:1]
            ),
            nested_changed_at=Coalesce(_newest_change("outer"), _newest_change("caller")),
            newest_problem=Subquery(
                SessionProblem.objects.filter(session=OuterRef("pk")).order_by("-pk").values("pk")[:1]
            ),
            last_record=Subquery(
                LogRecord.objects.filter(session=OuterRef("pk")).order_by("-pk").values("pk")[:1]
            ),
            judged_at=Subquery(
                EventJudgement.objects.filter(session=OuterRef("pk"))
                .order_by("-judged_at")
                .values("judged_at")[:1]
            ),
        )
        .values_list(*COLUMNS)
    ]


def _newest_change(role: str) -> Subquery:
    """Return the time of the last change of a nested run that a session is the outer session or the caller of."""
    runs = NestedRun.objects.filter(**{role: OuterRef("pk")})
    return Subquery(runs.order_by("-changed_at").values("changed_at")[:1])


_SESSION = CompiledQuery(_session_with_scopes, -1)
