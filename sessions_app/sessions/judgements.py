"""Judgements of people on events: good or bad, with a note. They are not part of an agent's state.

An event has at most one judgement: the latest replaces the one before. As labels do, judgements leave a session's
revision unchanged.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Sequence

from django.db import transaction
from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast, JSONObject

from sessions_app.lookup import find_event, find_session
from sessions_app.store import scopes
from sessions_app.store.database import change_notification
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.models import NOT_WITHDRAWN, AgentSession, Event, EventJudgement

NOTE_LENGTH = 2_000
"""Maximum characters of a note."""

MAX_CHANGES = 100
"""Judgements in one message to a live page."""

Verdict = EventJudgement.Verdict


def judge(
    session_pk: int, seq: int, verdict: str, note: str | None = None, *, person: str = ""
) -> EventJudgement:
    """Judge an event as good or bad. `person` is the name of who judges.

    Without a note (None), an equal judgement stays as it is, with its note and its person; another one loses its note.

    Raises:
        SessionMissing: no such session.
        EventMissing: the session has no such event.
        BadInput: the verdict is unknown, or the note is too long.
    """
    cleaned = _check_judgement(verdict, note or "")
    with transaction.atomic():
        find_event(find_session(session_pk), seq=seq)
        stored = find_judgement(session_pk, seq)
        if note is None and stored is not None and stored.verdict == verdict:
            return stored
        return _store_judgement(session_pk, seq, verdict, cleaned, person, time.time())


def withdraw(session_pk: int, seq: int, *, person: str = "") -> EventJudgement:
    """Withdraw the judgement of an event, and return it as withdrawn.

    Raises:
        SessionMissing: no such session.
        NotFound: the event is not judged.
    """
    with transaction.atomic():
        if find_judgement(find_session(session_pk).pk, seq) is None:
            raise NotFound(
                f"Event {seq} is not judged.", hint="Its judgement may have been withdrawn already."
            )
        return _store_judgement(session_pk, seq, Verdict.WITHDRAWN, "", person, time.time())


def restore(session_pk: int, seq: int, verdict: str, note: str, person: str, judged_at: float) -> None:
    """Store the judgement of another store on an event.

    Raises:
        BadInput: the verdict is unknown, the note is too long, or the time is no number.
    """
    if not math.isfinite(judged_at):
        raise BadInput("The time of a judgement is no number.", hint="Write it in seconds since the epoch.")
    cleaned = _check_judgement(verdict, note)
    _store_judgement(session_pk, seq, verdict, cleaned, scopes.clean_text(person), judged_at)


def _check_judgement(verdict: str, note: str) -> str:
    """Return the note as it is stored.

    Raises:
        BadInput: the verdict is unknown, or the note is too long.
    """
    if verdict not in (Verdict.GOOD, Verdict.BAD):
        raise BadInput(f"{verdict[:40]!r} is no judgement.", hint="An event is judged as 'good' or 'bad'.")
    cleaned = scopes.clean_text(note).replace("\r\n", "\n").strip()
    if len(cleaned) > NOTE_LENGTH:
        raise BadInput(
            f"The note has {len(cleaned):,} characters; at most {NOTE_LENGTH:,} are allowed.",
            hint="Shorten it.",
        )
    return cleaned


def _store_judgement(
    session_pk: int, seq: int, verdict: str, note: str, person: str, judged_at: float
) -> EventJudgement:
    values = {"verdict": verdict, "note": note, "person": person, "judged_at": judged_at}
    judgement, _ = EventJudgement.objects.update_or_create(session_id=session_pk, seq=seq, defaults=values)
    change_notification.notify_after_commit()
    return judgement


def find_judgement(session_pk: int, seq: int) -> EventJudgement | None:
    """Return the judgement of an event; None if it has none."""
    return EventJudgement.objects.filter(NOT_WITHDRAWN, session=session_pk, seq=seq).first()


def list_changed_judgements(session_pk: int, judged_at: float) -> list[EventJudgement]:
    """Return the newest judgements of a session that changed after a time, with those that were withdrawn."""
    changed = EventJudgement.objects.filter(session=session_pk, judged_at__gt=judged_at)
    return list(changed.order_by("-judged_at")[:MAX_CHANGES])


def window_judgement_rows(
    session: AgentSession, events: Sequence[Event]
) -> QuerySet[EventJudgement, tuple[int, str]]:
    """Return the query of the judgements of events: seq, and the other columns as JSON. See `parse_judgements`."""
    columns = JSONObject(verdict="verdict", note="note", person="person", judged_at="judged_at")
    seqs = [event.seq for event in events]
    rows = EventJudgement.objects.filter(NOT_WITHDRAWN, session=session, seq__in=seqs)
    return rows.annotate(body=Cast(columns, TextField())).values_list("seq", F("body"))


def parse_judgements(session: AgentSession, rows: Iterable[tuple[int, str]]) -> dict[int, EventJudgement]:
    """Return the judgements of the rows of `window_judgement_rows`, by the seq of their event."""
    return {seq: EventJudgement(session=session, seq=seq, **json.loads(body)) for seq, body in rows}
