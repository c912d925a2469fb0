"""The place of each session of a source: new here, here from an earlier import, or not ours to change."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from sessions_app import scopes
from sessions_app.errors import BadInput
from sessions_app.ids import SessionKey
from sessions_app.models import AgentSession, ImportedSession, ImportSource
from sessions_app.runs.lifecycle import active_run
from sessions_app.sessions import labels
from sessions_app.transfer.readers import StoredSession


@dataclass(slots=True)
class SessionPlan:
    """A session of the source and its place here.

    Attributes:
        pk: of the session here; None: it is new, and this is a dry run.
        here: seq of its last event here when the import began.
        came: how many of the source's events were seen.
        is_new: this import made it.
        is_ours: it came from this source, and did not go on here.
        was_settled: an earlier import brought it to its end.
        closed: why nothing is to be done about it; empty: it is open.
    """

    stored: StoredSession
    key: SessionKey
    pk: int | None = None
    here: int = 0
    came: int = 0
    is_new: bool = False
    is_ours: bool = True
    was_settled: bool = False
    closed: str = ""

    @property
    def is_unchanged(self) -> bool:
        """An earlier import has brought all of it."""
        return self.closed == UNCHANGED

    @property
    def is_whole(self) -> bool:
        """All that is here came from the source, and all of the source is here."""
        return not self.closed and self.came >= self.here and (self.is_new or self.is_ours)

    @property
    def last_seq(self) -> int:
        """What the session's last seq must be, if nobody else writes to it."""
        return max(self.here, self.came)

    def why_not_append(self, place: int) -> str:
        """Return why the source's event must not be appended; empty: it may."""
        if place <= self.here:
            return f"its event {place} is another one here"
        if not (self.is_new or self.is_ours):
            return "a session of this name is here that came from elsewhere or went on here"
        return ""


UNCHANGED = "unchanged"


def plan_session(
    stored: StoredSession, key: SessionKey, location: str, source: ImportSource | None
) -> SessionPlan:
    """Find a session's place here, or make it one.

    Args:
        stored: the session in its source.
        key: its name here.
        location: of the source.
        source: the source's row; None: a dry run, which makes nothing.
    """
    seat = SessionPlan(stored, key)
    row = AgentSession.objects.filter(**key._asdict()).first()
    if row is None:
        seat.is_new = True
        seat.pk = _create_session(stored, key, source).pk if source else None
        return seat
    mark = ImportedSession.objects.filter(session=row, source__location=location).first()
    seat.pk, seat.here = row.pk, row.last_seq
    seat.is_ours = mark is not None and mark.last_seq == row.last_seq
    seat.was_settled = mark is not None and mark.is_settled
    if seat.is_ours and seat.was_settled and row.updated_at == stored.updated_at:
        seat.closed = UNCHANGED
    elif run := active_run(row.pk):
        seat.closed = f"run {run.id} is active on it; import again after its end"
    return seat


def _create_session(stored: StoredSession, key: SessionKey, source: ImportSource) -> AgentSession:
    session = AgentSession.objects.create(
        **key._asdict(),
        created_at=stored.created_at,
        updated_at=stored.updated_at,
        origin="import",
        title=scopes.clean_text(stored.title),
    )
    ImportedSession.objects.create(session=session, source=source)
    for name in stored.tags:
        with suppress(BadInput):  # of another store's making
            labels.tag([session.pk], name)
    return session
