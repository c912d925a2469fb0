"""State of each session of a source in the store: new, imported earlier, or not to be changed."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from sessions_app.sessions import labels
from sessions_app.store import scopes
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession, ImportedSession, ImportSource
from sessions_app.store.runs.session_runs import active_run
from sessions_app.store.session_key import SessionKey
from sessions_app.transfer.readers.records import StoredSession


@dataclass(slots=True)
class SessionPlan:
    """Session of the source and its state in the store.

    Attributes:
        pk: of the stored session; None for a new session in a dry run.
        stored_seq: seq of its last stored event when the import began.
        events_read: number of the source's events read so far.
        is_new: this import created it.
        is_ours: it was imported from this source and has no events of its own since.
        was_settled: an earlier import completed it.
        skip_reason: reason why it is not imported; empty if it is.
    """

    stored: StoredSession
    key: SessionKey
    pk: int | None = None
    stored_seq: int = 0
    events_read: int = 0
    is_new: bool = False
    is_ours: bool = True
    was_settled: bool = False
    skip_reason: str = ""

    @property
    def is_unchanged(self) -> bool:
        """True if an earlier import has completed it."""
        return self.skip_reason == UNCHANGED

    @property
    def is_whole(self) -> bool:
        """True if the store has exactly the source's events."""
        return not self.skip_reason and self.events_read >= self.stored_seq and (self.is_new or self.is_ours)

    @property
    def last_seq(self) -> int:
        """Expected last seq of the session, if there is no other writer."""
        return max(self.stored_seq, self.events_read)

    def why_not_append(self, position: int) -> str:
        """Return the reason why the source's event must not be appended, or ""."""
        if position <= self.stored_seq:
            return f"its event {position} differs from the stored one"
        if not (self.is_new or self.is_ours):
            return "a session of this name exists here that is not from this source or has events of its own"
        return ""


UNCHANGED = "unchanged"


def plan_session(
    stored: StoredSession, key: SessionKey, location: str, source: ImportSource | None
) -> SessionPlan:
    """Look up a session in the store, or create it.

    Args:
        stored: the session in its source.
        key: its key in the store.
        location: of the source.
        source: row of the source; None in a dry run, which creates nothing.
    """
    plan = SessionPlan(stored, key)
    row = AgentSession.objects.filter(**key._asdict()).first()
    if row is None:
        plan.is_new = True
        plan.pk = _create_session(stored, key, source).pk if source else None
        return plan
    mark = ImportedSession.objects.filter(session=row, source__location=location).first()
    plan.pk, plan.stored_seq = row.pk, row.last_seq
    plan.is_ours = mark is not None and mark.last_seq == row.last_seq
    plan.was_settled = mark is not None and mark.is_settled
    if plan.is_ours and plan.was_settled and row.updated_at == stored.updated_at:
        plan.skip_reason = UNCHANGED
    elif run := active_run(row.pk):
        plan.skip_reason = f"run {run.id} is active on it; import again after its end"
    return plan


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
        with suppress(BadInput):  # a tag that this store does not allow
            labels.tag([session.pk], name)
    return session
