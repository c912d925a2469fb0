"""Sessions to which received traces belong: those that they name, or read-only ones of their own.

A trace joins a session of this store if it names the session's id and one of its invocations. Otherwise it belongs to a
session in the realm of traced sessions with the id of the conversation, or of the trace as long as that is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sessions_app.otlp.received import Sender
from sessions_app.store import realms, scopes
from sessions_app.store.ids import ID_BYTES, check_ids
from sessions_app.store.models import AgentSession, Event, LogRecord, ModelCall, ModelPiece, Span, Trace
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes

ORIGIN = "trace"
"""`origin` of traced sessions."""

UNKNOWN_USER = "unknown"
UNKNOWN_APP = "unknown"


def find_or_make_trace(trace_id: str, senders: Sequence[Sender], started_at: float) -> Trace:
    """Return the trace with an id, with its session, in the caller's transaction.

    A missing session is created. A missing trace of a traced session is returned without a key, to be stored.

    Args:
        trace_id: in hex.
        senders: of the spans and log records that have arrived, the outermost spans last, as exporters send them.
        started_at: start of the first of them, in epoch seconds.
    """
    conversation = _storable_id(_last(sender.conversation for sender in senders))
    trace = Trace.objects.select_related("session").filter(trace_id=trace_id).order_by("pk").first()
    if trace is None:
        trace = _find_local(conversation, senders) or _make_trace(trace_id, conversation, senders, started_at)
    elif trace.session.realm == realms.TRACED:
        _complete_key(trace, conversation, senders)
    return trace


def _find_local(conversation: str, senders: Sequence[Sender]) -> Trace | None:
    """Return the trace of an invocation of a session of this store that the senders name."""
    invocations = {sender.invocation for sender in senders if scopes.is_clean(sender.invocation)} - {""}
    if not conversation or not invocations:
        return None
    events = Event.objects.filter(
        session__session_id=conversation, session__realm="", invocation_id__in=invocations
    )
    event = events.select_related("session").order_by("pk").first()
    if event is None:
        return None
    trace, _ = Trace.objects.get_or_create(
        session=event.session,
        invocation_id=event.invocation_id,
        defaults={"started_at": event.timestamp, "finished_at": event.timestamp},
    )
    return trace


def _make_trace(trace_id: str, conversation: str, senders: Sequence[Sender], started_at: float) -> Trace:
    session = _find_traced(conversation or trace_id, senders)
    if session is None:
        key = SessionKey(
            realms.TRACED,
            _storable_id(
                _last(sender.service for sender in senders) or _last(sender.agent for sender in senders)
            )
            or UNKNOWN_APP,
            _storable_id(_last(sender.user for sender in senders)) or UNKNOWN_USER,
            conversation or trace_id,
        )
        session = writes.create_session(check_ids(key), origin=ORIGIN, now=started_at)
    return Trace(
        session=session,
        invocation_id=trace_id,
        trace_id=trace_id,
        started_at=started_at,
        finished_at=started_at,
    )


def _find_traced(conversation: str, senders: Sequence[Sender]) -> AgentSession | None:
    """Return the traced session of a conversation: of the service that sends, if it has a name."""
    sessions = AgentSession.objects.filter(realm=realms.TRACED, session_id=conversation)
    if service := _storable_id(_last(sender.service for sender in senders)):
        sessions = sessions.filter(app_name=service)
    return sessions.order_by("pk").first()


def _complete_key(trace: Trace, conversation: str, senders: Sequence[Sender]) -> None:
    """Give a traced session the id of its conversation and its user, once they are known."""
    session = trace.session
    user = _storable_id(_last(sender.user for sender in senders))
    if conversation and session.session_id == trace.trace_id != conversation:
        target = _find_traced(conversation, senders)
        if target is None:
            _rename(session, session_id=conversation)
        elif target.pk != session.pk and session.traces.count() == 1:
            _move_trace(trace, target)
            return
    if user and session.user_id == UNKNOWN_USER:
        _rename(session, user_id=user)


def _rename(session: AgentSession, **ids: str) -> None:
    key = {**session.key._asdict(), **ids}
    if not AgentSession.objects.filter(**key).exists():
        for name, value in ids.items():
            setattr(session, name, value)
        session.save(update_fields=list(ids))


def _move_trace(trace: Trace, target: AgentSession) -> None:
    """Move the only trace of a session to another one, and delete the session. Its events are read again."""
    former = trace.session
    for model in (Span, LogRecord):
        model._default_manager.filter(session=former, invocation_id=trace.invocation_id).update(
            session=target
        )
    ModelCall.objects.filter(session=former).delete()
    ModelPiece.objects.filter(session=former).delete()
    Trace.objects.filter(pk=trace.pk).update(session=target)
    trace.session = target
    writes.delete_session(former)


def _storable_id(value: str) -> str:
    """Return an id as the store can hold it."""
    return scopes.clean_text(value).encode()[:ID_BYTES].decode(errors="ignore")


def _last(values: Iterable[str]) -> str:
    """Return the last text that is not empty; empty if there is none."""
    return next((value for value in reversed(list(values)) if value), "")
