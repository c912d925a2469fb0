"""Which events of a session a page shows: a bounded run of rows around a cursor, found by `seq`."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count, Max, Min, QuerySet, Sum

from sessions_app.models import AgentSession, Event

WINDOW = 100
"""Events on a page, and in one message of a socket."""

TOTALS_REACH = 2000
"""How many events before and after a window its invocations are summed over."""


@dataclass(frozen=True, slots=True)
class Window:
    """Events in order. `seq` has no holes, so the ends alone tell whether there is more on either side."""

    events: list[Event]
    last_seq: int

    @property
    def first_shown(self) -> int:
        """seq of the first event, 0 when there is none."""
        return self.events[0].seq if self.events else 0

    @property
    def last_shown(self) -> int:
        """seq of the last event, 0 when there is none."""
        return self.events[-1].seq if self.events else 0

    @property
    def has_older(self) -> bool:
        """Tell whether the session has events before these."""
        return self.first_shown > 1

    @property
    def has_newer(self) -> bool:
        """Tell whether the session had events after these when it was read."""
        return self.last_shown < self.last_seq

    @property
    def cursor(self) -> int:
        """seq after which a socket goes on: the newest event known of, shown or not."""
        return max(self.last_shown, self.last_seq)


@dataclass(frozen=True, slots=True)
class Totals:
    """An invocation as a whole. `cut` says that it reaches beyond what was summed."""

    first_seq: int
    last_seq: int
    started_at: float
    ended_at: float
    events: int
    tokens: int
    cut: bool

    @property
    def seconds(self) -> float:
        """Time from the first event to the last."""
        return max(0.0, self.ended_at - self.started_at)


def rows_of(session: AgentSession) -> QuerySet[Event]:
    """Return the session's events as timeline rows: everything but their bodies."""
    return Event.objects.filter(session=session).defer("data", "private")


def newest(session: AgentSession, limit: int = WINDOW) -> Window:
    """Return the last events."""
    return _window(session, list(rows_of(session).order_by("-seq")[:limit])[::-1])


def before(session: AgentSession, seq: int, limit: int = WINDOW) -> Window:
    """Return the events just before `seq`."""
    return _window(session, list(rows_of(session).filter(seq__lt=seq).order_by("-seq")[:limit])[::-1])


def after(session: AgentSession, seq: int, limit: int = WINDOW) -> Window:
    """Return the events just after `seq`."""
    return _window(session, list(rows_of(session).filter(seq__gt=seq).order_by("seq")[:limit]))


def around(session: AgentSession, seq: int, limit: int = WINDOW) -> Window:
    """Return a full window that holds `seq`, in its middle unless an end of the session is near."""
    first = max(1, min(seq - limit // 2, session.last_seq - limit + 1))
    rows = rows_of(session).filter(seq__gte=first, seq__lt=first + limit)
    return _window(session, list(rows.order_by("seq")))


def totals(session: AgentSession, events: list[Event]) -> dict[str, Totals]:
    """Return the events' invocations, each summed over at most `TOTALS_REACH` events on either side."""
    if not events:
        return {}
    low, high = events[0].seq - TOTALS_REACH, events[-1].seq + TOTALS_REACH
    summed = (
        Event.objects.filter(session=session, invocation_id__in={event.invocation_id for event in events})
        .filter(seq__gte=low, seq__lte=high)
        .values("invocation_id")
        .annotate(
            first_seq=Min("seq"),
            last_seq=Max("seq"),
            started_at=Min("timestamp"),
            ended_at=Max("timestamp"),
            events=Count("pk"),
            tokens=Sum("total_tokens"),
        )
    )
    return {
        row["invocation_id"]: Totals(
            first_seq=row["first_seq"],
            last_seq=row["last_seq"],
            started_at=row["started_at"],
            ended_at=row["ended_at"],
            events=row["events"],
            tokens=row["tokens"],
            cut=row["first_seq"] == low or row["last_seq"] == high,
        )
        for row in summed
    }


def find_event(session: AgentSession, *, event_id: str = "", seq: int | None = None) -> Event | None:
    """Return one event with its body, by ADK's id or by `seq`."""
    which = {"event_id": event_id} if event_id else {"seq": seq}
    return Event.objects.filter(session=session, **which).defer("private").first()


def nearest_event(session: AgentSession, seq: int) -> Event | None:
    """Return the event of the session whose `seq` is nearest, None when it has none."""
    wanted = min(max(seq, 1), session.last_seq)
    return rows_of(session).filter(seq=wanted).first()


def _window(session: AgentSession, events: list[Event]) -> Window:
    return Window(events, session.last_seq)
