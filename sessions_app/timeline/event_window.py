"""Windows of a session's events: a bounded number of rows around a cursor, by `seq`."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import connection
from django.db.models import Count, Max, Min, QuerySet, Sum, Value

from sessions_app.prices.costs import Cost
from sessions_app.store.database.combined_query import read_together
from sessions_app.store.database.json_sql import COUNTS_AS_ERROR
from sessions_app.store.events.conditions import MAY_NAME_TOOLS
from sessions_app.store.models import AgentSession, Event, Run
from sessions_app.timeline.costs import read_invocation_costs
from sessions_app.timeline.lanes import MAX_LANES, Speaker
from sessions_app.traces.pauses import Interval, Pauses

WINDOW_SIZE = 40
"""Events on a page, and in one message of a socket."""

TOTALS_REACH = 2000
"""Events before and after a window that are included in the totals of its invocations."""


PARTNERS_SCANNED = 100
"""Tool events before or after a window that are searched for its calls and results."""


MAX_ERRORS = 2_000
"""Newest errors that the rail of a session marks."""


@dataclass(frozen=True, slots=True)
class EventWindow:
    """Events in order. `seq` has no gaps, so the ends show whether there are more events."""

    events: list[Event]
    last_seq: int

    @property
    def first_shown(self) -> int:
        """seq of the first event, 0 if there is none."""
        return self.events[0].seq if self.events else 0

    @property
    def last_shown(self) -> int:
        """seq of the last event, 0 if there is none."""
        return self.events[-1].seq if self.events else 0

    @property
    def has_older(self) -> bool:
        """Tell whether the session has earlier events."""
        return self.first_shown > 1

    @property
    def has_newer(self) -> bool:
        """Tell whether the session had later events when it was read."""
        return self.last_shown < self.last_seq

    @property
    def cursor(self) -> int:
        """seq after which a socket continues: the newest known event, shown or not."""
        return max(self.last_shown, self.last_seq)


@dataclass(frozen=True, slots=True)
class InvocationTotals:
    """Totals of an invocation. `cut`: it extends beyond the events that were summed.

    `speakers` are its agents, by first appearance.
    """

    first_seq: int
    last_seq: int
    started_at: float
    ended_at: float
    events: int
    tokens: int
    cost: Cost | None
    cut: bool
    pauses: Pauses = field(default_factory=Pauses)
    speakers: tuple[Speaker, ...] = ()

    @property
    def seconds(self) -> float:
        """Working time from the first event to the last, without pauses."""
        return self.pauses.work(self.started_at, self.ended_at)

    @property
    def paused_seconds(self) -> float:
        """Paused seconds between the first event and the last."""
        return self.pauses.between(self.started_at, self.ended_at)

    @property
    def sharing(self) -> int:
        """Number of agents that share the last lane; 0 if each has its own."""
        return len(self.speakers) - MAX_LANES + 1 if len(self.speakers) > MAX_LANES else 0


def event_rows(session: AgentSession) -> QuerySet[Event]:
    """Return the session's events without their bodies."""
    return Event.objects.filter(session=session).defer("data", "private")


def newest(session: AgentSession, limit: int = WINDOW_SIZE) -> EventWindow:
    """Return the last events."""
    return _make_window(session, list(event_rows(session).order_by("-seq")[:limit])[::-1])


def before(session: AgentSession, seq: int, limit: int = WINDOW_SIZE) -> EventWindow:
    """Return the events just before `seq`."""
    return _make_window(session, list(event_rows(session).filter(seq__lt=seq).order_by("-seq")[:limit])[::-1])


def after(session: AgentSession, seq: int, limit: int = WINDOW_SIZE) -> EventWindow:
    """Return the events just after `seq`."""
    return _make_window(session, list(event_rows(session).filter(seq__gt=seq).order_by("seq")[:limit]))


def around(session: AgentSession, seq: int, limit: int = WINDOW_SIZE) -> EventWindow:
    """Return a full window with `seq` in the middle, unless an end of the session is near."""
    seq = min(max(seq, 1), session.last_seq)
    first = max(1, min(seq - limit // 2, session.last_seq - limit + 1))
    rows = event_rows(session).filter(seq__gte=first, seq__lt=first + limit)
    return _make_window(session, list(rows.order_by("seq")))


def sum_invocations(
    session: AgentSession, events: list[Event], runs: Sequence[Run] = (), *, reach: int = TOTALS_REACH
) -> dict[str, InvocationTotals]:
    """Return the totals of the events' invocations, over at most `reach` events on either side.

    `runs` are the invocations' runs, oldest first: the time between two runs is a pause, as are their own pauses.
    """
    if not events:
        return {}
    low, high = events[0].seq - reach, events[-1].seq + reach
    summed = (
        Event.objects.filter(session=session, invocation_id__in={event.invocation_id for event in events})
        .filter(seq__gte=low, seq__lte=high)
        .values("invocation_id", "author")
        .annotate(
            first_seq=Min("seq"),
            last_seq=Max("seq"),
            started_at=Min("timestamp"),
            ended_at=Max("timestamp"),
            events=Count("pk"),
            tokens=Sum("total_tokens"),
        )
    )
    by_invocation: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in summed:
        by_invocation[row["invocation_id"]].append(dict(row))
    answered = [name for name, rows in by_invocation.items() if _has_answers(rows)]
    pauses = _read_pauses(session, answered, runs, low, high)
    window_tokens: Counter[str] = Counter()
    for event in events:
        window_tokens[event.invocation_id] += event.total_tokens
    continued = [
        name
        for name, rows in by_invocation.items()
        if sum(row["tokens"] or 0 for row in rows) > window_tokens[name]
    ]
    costs = read_invocation_costs(session, events, continued, low, high)
    return {
        name: _invocation_totals(rows, low, high, Pauses(pauses[name]), costs.get(name))
        for name, rows in by_invocation.items()
    }


def _has_answers(rows: list[dict[str, Any]]) -> bool:
    """Tell whether an invocation has user events after its first event."""
    first = min(row["first_seq"] for row in rows)
    return any(row["author"] == "user" and row["last_seq"] > first for row in rows)


def _read_pauses(
    session: AgentSession, answered: list[str], runs: Sequence[Run], low: int, high: int
) -> dict[str, list[Interval]]:
    """Return the pauses of invocations: between and within runs, and before user events. At most one query."""
    pauses: dict[str, list[Interval]] = defaultdict(list)
    ended: dict[str, float] = {}
    for run in runs:
        if run.started_at is None or not run.invocation_id:
            continue
        if (before := ended.get(run.invocation_id)) is not None:
            pauses[run.invocation_id].append((before, run.started_at))
        pauses[run.invocation_id] += map(tuple, json.loads(run.paused_times))
        if run.finished_at is not None:
            ended[run.invocation_id] = run.finished_at
    if not answered:
        return pauses
    events = Event.objects.filter(session=session, invocation_id__in=answered, seq__gte=low, seq__lte=high)
    said_at: dict[str, float] = {}
    for name, author, timestamp in events.order_by("seq").values_list("invocation_id", "author", "timestamp"):
        if author == "user" and name in said_at:
            pauses[name].append((said_at[name], timestamp))
        said_at[name] = timestamp
    return pauses


def _invocation_totals(
    rows: list[dict[str, Any]], low: int, high: int, pauses: Pauses, cost: Cost | None
) -> InvocationTotals:
    first, last = min(row["first_seq"] for row in rows), max(row["last_seq"] for row in rows)
    agents = sorted(
        (row["first_seq"], row["last_seq"], row["author"]) for row in rows if row["author"] != "user"
    )
    return InvocationTotals(
        first_seq=first,
        last_seq=last,
        started_at=min(row["started_at"] for row in rows),
        ended_at=max(row["ended_at"] for row in rows),
        events=sum(row["events"] for row in rows),
        tokens=sum(row["tokens"] for row in rows),
        cost=cost,
        cut=first == low or last == high,
        pauses=pauses,
        speakers=tuple(Speaker(author, start, end) for start, end, author in agents),
    )


def error_rows(session: AgentSession) -> QuerySet[Event, tuple[int, str]]:
    """Return the read of the seqs of the newest errors, in the first column."""
    errors = Event.objects.filter(COUNTS_AS_ERROR, session=session).order_by("-seq")
    return errors.values_list("seq", Value(""))[:MAX_ERRORS]


def tool_events_near(session: AgentSession, *, before: int = 0, after: int = 0) -> QuerySet[Event]:
    """Return the read of the events with calls or results just before or just after a seq."""
    rows = event_rows(session).filter(MAY_NAME_TOOLS)
    if before:
        return rows.filter(seq__lt=before).order_by("-seq")[:PARTNERS_SCANNED]
    return rows.filter(seq__gt=after).order_by("seq")[:PARTNERS_SCANNED]


def read_events(*reads: QuerySet[Event]) -> list[Event]:
    """Return the events of all reads in order, each once, without their bodies. One query."""
    columns = [
        field.attname for field in Event._meta.concrete_fields if field.name not in ("data", "private")
    ]
    parts = read_together(*(rows.values_list(*columns) for rows in reads))
    events = (Event.from_db(connection.alias, columns, row) for rows in parts for row in rows)
    return sorted({event.seq: event for event in events}.values(), key=lambda event: event.seq)


def _make_window(session: AgentSession, events: list[Event]) -> EventWindow:
    return EventWindow(events, session.last_seq)
