"""Find sessions, events and runs by the keys in an address, or raise an error that names what is missing."""

from __future__ import annotations

from sessions_app.paths import session_url
from sessions_app.store import realms
from sessions_app.store.database.skip_scan import distinct_values
from sessions_app.store.errors import EventMissing, NotFound, SessionMissing
from sessions_app.store.ids import is_storable
from sessions_app.store.models import AgentSession, Event, Run


def find_session(pk: int, *, locked: bool = False) -> AgentSession:
    """Return a session by its primary key; `locked` locks its row until the end of the transaction.

    Raises:
        SessionMissing: no such session exists, or it was deleted.
    """
    rows = AgentSession.objects.select_for_update() if locked else AgentSession.objects
    session = rows.filter(pk=pk).first()
    if session is None or realms.is_hidden(session):
        raise session_missing(pk)
    return session


def session_missing(pk: int) -> SessionMissing:
    """Return the error for a primary key that no session has."""
    return SessionMissing(
        f"Session not found: {pk}",
        hint="It may have been deleted. The session list and GET /api/v1/sessions show the existing sessions.",
    )


def find_run(run_id: str) -> Run:
    """Return a run with its session. What was sent and its traceback are loaded on access.

    Raises:
        NotFound: no such run.
    """
    runs = Run.objects.select_related("session").defer("request", "traceback")
    run = runs.filter(pk=run_id).first() if is_storable(run_id) else None
    if run is None:
        raise NotFound(
            f"Run not found: {run_id}",
            hint="It was deleted with its session. GET /api/v1/runs lists the runs.",
        )
    return run


MAX_DIGITS = 18
"""Most digits of an event's number, to fit into a 64-bit column."""


def find_event(
    session: AgentSession, *, event_id: str = "", seq: int | None = None, with_body: bool = False
) -> Event:
    """Return a session's event. Without `with_body` its body is loaded on access.

    Args:
        session: the event's session.
        event_id: ADK's id of the event, or its number as text. If both match, the id wins.
        seq: the event's number.
        with_body: load its body, too.

    Raises:
        EventMissing: the session has no such event; the hint names the nearest one.
    """
    events = Event.objects.filter(session=session).defer(
        *(("private",) if with_body else ("data", "private"))
    )
    event = events.filter(event_id=event_id).first() if event_id else None
    if event_id:
        seq = parse_number(event_id)
    if event is None and seq is not None:
        event = events.filter(seq=seq).first()
    if event is None:
        raise _event_missing(session, event_id, seq)
    return event


def parse_number(text: str) -> int | None:
    """Return a whole number that an address or a form has as text; None for other texts and for huge numbers."""
    is_number = text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS
    return int(text) if is_number else None


def _event_missing(session: AgentSession, event_id: str, seq: int | None) -> EventMissing:
    nearest = session.last_seq if seq is None else min(max(seq, 1), session.last_seq)
    near = f", the nearest of them is event {nearest}" if nearest else ""
    error = EventMissing(
        f"Session {session.session_id!r} has no event {(event_id if seq is None else seq)!r}.",
        hint=f"It has {session.last_seq:,} events{near}: GET /api/v1/sessions/{session.pk}/events lists them.",
    )
    error.back = f"{session_url(session)}?seq={nearest}" if nearest else session_url(session)
    return error


def load_event_body(pk: int, seq: int) -> str:
    """Return the JSON of an event by its session's primary key and its `seq`.

    Raises:
        SessionMissing: no such session exists, or it was deleted.
        EventMissing: the session has no such event.
    """
    return find_event(find_session(pk), seq=seq).data


def list_apps_with_sessions() -> list[str]:
    """Return the names of the apps that have sessions, sorted."""
    return sorted(distinct_values(AgentSession._meta.db_table, "app_name", {"realm": ""}))
