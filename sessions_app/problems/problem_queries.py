"""Queries of problems for pages and the API. Events are checked in the background (`session_checks`)."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.models import Case, Count, IntegerField, QuerySet, Sum, Value, When

from sessions_app.problems.registry import CALL_LABEL, Detector, DetectorScope, Link, Severity, find_detector
from sessions_app.problems.state_queries import StateSize, read_state_size
from sessions_app.store import realms
from sessions_app.store.models import AgentSession, SessionProblem
from sessions_app.store.traces.log_records import trace_with_log

MAX_LISTED = 200
"""Problems of the invocations of a session that a page lists."""

MAX_ROWS = 500
"""Rows read for a window of the timeline or a list of runs."""

_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


@dataclass(frozen=True, slots=True)
class ShownProblem:
    """A problem with its detector.

    Attributes:
        is_known: an earlier invocation has the same problem with the same text.
        deleted: keys of linked sessions that were deleted since.
    """

    row: SessionProblem
    is_known: bool = False
    deleted: Collection[int] = ()

    @property
    def detector(self) -> Detector:
        """The detector that reported the problem."""
        return find_detector(self.row.code)

    @property
    def log_trace(self) -> int:
        """Key of the trace that has its log, if the query has read it; 0: there is no log."""
        return getattr(self.row, "log_trace", None) or 0

    @property
    def is_note(self) -> bool:
        """True for a note, which no number counts."""
        return self.row.severity == Severity.NOTE

    @property
    def is_error(self) -> bool:
        """True for an error."""
        return self.row.severity == Severity.ERROR

    @property
    def links(self) -> list[Link]:
        """Links to the evidence."""
        links = [Link(*link) for link in json.loads(self.row.links)]
        return [replace(link, session=0) if link.session in self.deleted else link for link in links]

    @property
    def names_log_record(self) -> bool:
        """True if a link names the log record that shows the problem."""
        return any(link.kind == "log" for link in self.links)

    @property
    def repeats_error(self) -> bool:
        """True if the timeline shows the problem's text elsewhere: at an event, a run or an earlier invocation.

        The events of a nested run are folded, and the event of a call does not show the error of its tool.
        """
        kinds = {link.kind for link in self.links}
        is_hidden = "nested" in kinds or any(link.label == CALL_LABEL for link in self.links)
        is_shown = not is_hidden and (bool(self.row.seq) or "run" in kinds)
        return self.is_known or (self.detector.repeats_error and is_shown)


@dataclass(frozen=True, slots=True)
class SessionProblems:
    """Problems of a session.

    Attributes:
        rows: errors first, then warnings and notes, each in the order of events.
        state_rows: problems of the state in the order of the detectors and keys.
        more: number of errors and warnings that are not listed.
        unchecked: number of events that were not checked yet.
        state_size: size of the current state.
    """

    rows: list[ShownProblem]
    state_rows: list[ShownProblem]
    more: int
    unchecked: int
    state_size: StateSize

    @property
    def all_rows(self) -> list[ShownProblem]:
        """The problems of invocations, then those of the state."""
        return [*self.rows, *self.state_rows]


def read_problems(
    session: AgentSession, code: str = "", invocation_id: str = "", scope: str = ""
) -> SessionProblems:
    """Return the problems that were found in a session so far, all or of a code, an invocation or a scope."""
    stored = SessionProblem.objects.filter(session=session)
    if code:
        stored = stored.filter(code=code)
    if invocation_id:
        stored = stored.filter(invocation_id=invocation_id)
    if scope:
        stored = stored.filter(scope=scope)
    of_invocations = stored.filter(scope=DetectorScope.INVOCATION).annotate(log_trace=trace_with_log())
    rows = list(_order_by_severity(of_invocations)[:MAX_LISTED])
    state_rows = _note_deleted_sessions(stored.filter(scope=DetectorScope.STATE).order_by("pk"))
    counted = stored.exclude(severity=Severity.NOTE).aggregate(rows=Count("pk"), more=Sum("more", default=0))
    number = counted["rows"] + counted["more"]
    number += 0 if code or invocation_id or scope else session.problems_beyond
    problems = [ShownProblem(row) for row in rows]
    unchecked = session.last_seq - max(0, session.problems_seq)
    listed = _count_problems([*rows, *(problem.row for problem in state_rows)])
    return SessionProblems(problems, state_rows, number - listed, unchecked, read_state_size(session))


def _note_deleted_sessions(rows: Iterable[SessionProblem]) -> list[ShownProblem]:
    """Return problems of the state with the linked sessions that were deleted. One query, if there are links."""
    problems = [ShownProblem(row) for row in rows]
    linked = {link.session for problem in problems for link in problem.links} - {0}
    existing = realms.exclude_hidden(AgentSession.objects.filter(pk__in=linked))
    deleted = linked.difference(existing.values_list("pk", flat=True))
    return [replace(problem, deleted=deleted) for problem in problems] if deleted else problems


def read_mark(session: AgentSession) -> str:
    """Return the mark of a session's problems. One query."""
    newest = SessionProblem.objects.filter(session=session).order_by("-pk").values_list("pk", flat=True)
    return problems_mark(session.problem_count, newest.first())


def problems_mark(problem_count: int, newest_pk: int | None) -> str:
    """Return a text that changes with the problems of a session."""
    return f"{problem_count}-{newest_pk or 0}"


def _count_problems(rows: Sequence[SessionProblem]) -> int:
    """Return the number of errors and warnings in rows, with those that are only counted."""
    return sum(1 + row.more for row in rows if row.severity != Severity.NOTE)


def problems_by_invocation(
    session: AgentSession, invocation_ids: Collection[str]
) -> dict[str, list[ShownProblem]]:
    """Return the errors and warnings that were found so far in some invocations of a session. One query."""
    return _by_invocation(SessionProblem.objects.filter(session=session, invocation_id__in=invocation_ids))


def newest_by_invocation(session: AgentSession, limit: int) -> dict[str, list[ShownProblem]]:
    """Return the stored errors and warnings of the newest invocations that have any. One query."""
    by_invocation = _by_invocation(SessionProblem.objects.filter(session=session).exclude(invocation_id=""))
    return dict(list(by_invocation.items())[-limit:])


def _by_invocation(rows: QuerySet[SessionProblem]) -> dict[str, list[ShownProblem]]:
    """Return problems by invocation, with whether an earlier invocation has them too."""
    earlier_keys: set[tuple[str, str]] = set()
    by_invocation = {}
    for (_, invocation_id), problems in _group_by_run(rows.annotate(log_trace=trace_with_log())).items():
        keys = [(problem.row.code, problem.row.text) for problem in problems]
        by_invocation[invocation_id] = [
            replace(problem, is_known=key in earlier_keys)
            for problem, key in zip(problems, keys, strict=True)
        ]
        earlier_keys.update(keys)
    return by_invocation


def read_run_problems(invocations: Collection[tuple[int, str]]) -> dict[tuple[int, str], list[ShownProblem]]:
    """Return the errors and warnings of runs by session key and invocation id. One query."""
    rows = SessionProblem.objects.filter(
        session__in={session_pk for session_pk, _ in invocations},
        invocation_id__in={invocation_id for _, invocation_id in invocations if invocation_id},
    )
    return _group_by_run(rows)


def problems_by_code(sessions: Sequence[AgentSession]) -> list[dict[str, Any]]:
    """Return the codes of errors and warnings in sessions: detector, number of sessions, newest session. One query."""
    rows = SessionProblem.objects.filter(session__in=sessions).exclude(severity=Severity.NOTE)
    counts: defaultdict[str, set[int]] = defaultdict(set)
    for code, session_pk in rows.order_by().values_list("code", "session_id").distinct()[:MAX_ROWS]:
        counts[code].add(session_pk)
    newest = {session.pk: rank for rank, session in enumerate(sessions)}
    return [
        {
            "detector": find_detector(code),
            "sessions": len(pks),
            "newest": sessions[min(newest[pk] for pk in pks)],
        }
        for code, pks in sorted(counts.items(), key=lambda item: -len(item[1]))
    ]


def _order_by_severity(rows: Any) -> Any:
    ranks = [When(severity=severity, then=Value(rank)) for severity, rank in _RANKS.items()]
    return rows.order_by(Case(*ranks, default=Value(0), output_field=IntegerField()), "seq", "pk")


def _group_by_run(rows: Any) -> defaultdict[tuple[int, str], list[ShownProblem]]:
    grouped: defaultdict[tuple[int, str], list[ShownProblem]] = defaultdict(list)
    for row in rows.exclude(severity=Severity.NOTE).order_by("-seq", "-pk")[:MAX_ROWS][::-1]:
        grouped[row.session_id, row.invocation_id].append(ShownProblem(row))
    return grouped
