"""Deletion of sessions with undo.

A deleted session and its artifacts move to a realm of their own: nobody sees it any more, and its id is free. It can be
restored until `purge.remove_deleted` removes it for good. User state, app state and memory are not changed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from sessions_app.sessions import storage_location
from sessions_app.store import realms
from sessions_app.store.database import change_notification
from sessions_app.store.errors import AlreadyExists, NotFound
from sessions_app.store.models import AgentSession, Artifact, DeletedSession, Run
from sessions_app.store.runs import session_runs
from sessions_app.store.sessions import writes

UNDO_S = 86_400.0
"""Seconds for which a deletion can be undone."""

BATCHES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class DeletionBatch:
    """Sessions that were deleted together and are restored together."""

    id: str
    deleted_at: float
    sessions: list[AgentSession]

    @property
    def until(self) -> float:
        """The time after which they are removed for good."""
        return self.deleted_at + UNDO_S


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """The result of a deletion: the batch (None if nothing was deleted), and the reasons for skipped sessions."""

    batch: DeletionBatch | None
    skipped: list[str]


def delete(pks: Collection[int], *, now: float | None = None) -> DeletionResult:
    """Delete sessions. Sessions with an active run are skipped; missing ones are ignored.

    Raises:
        SessionBusy: each session has an active run.
        BadInput: another service owns one of the sessions, so it would reappear.
    """
    deleted_at = time.time() if now is None else now
    batch = DeletionBatch(uuid.uuid4().hex, deleted_at, [])
    busy: list[AgentSession] = []
    with transaction.atomic():
        rows = realms.exclude_hidden(AgentSession.objects.select_for_update().filter(pk__in=pks)).order_by(
            "pk"
        )
        for session in rows:
            storage_location.refuse_deletion(session)
            (busy if session_runs.active_run(session.pk) else batch.sessions).append(session)
        if busy and not batch.sessions:
            session_runs.require_idle(busy[0].pk, busy[0].session_id)
        for session in batch.sessions:
            DeletedSession.objects.create(
                session=session, batch=batch.id, realm=session.realm, deleted_at=batch.deleted_at
            )
            move_to_realm(session, f"{realms.DELETED}{session.pk}")
        change_notification.notify_after_commit()
    return DeletionResult(batch if batch.sessions else None, _busy_reasons(busy))


def delete_for_good(session_pk: int) -> None:
    """Delete a session without a way to restore it, as ADK's REST API does. A missing session is ignored.

    Raises:
        SessionBusy: the session has an active run.
    """
    with transaction.atomic():
        session = AgentSession.objects.select_for_update().filter(pk=session_pk).first()
        if session is not None:
            session_runs.require_idle(session.pk, session.session_id)
            writes.delete_session(session)


def undo(batch_id: str) -> list[AgentSession]:
    """Restore all sessions of a batch, or none.

    Raises:
        NotFound: the batch cannot be restored any more.
        AlreadyExists: the id of a session is in use again.
    """
    with transaction.atomic():
        rows = DeletedSession.objects.select_for_update(of=("self",)).filter(batch=batch_id)
        deleted_rows = list(rows.select_related("session").order_by("session__pk"))
        if not deleted_rows:
            raise NotFound(
                "This deletion cannot be undone any more.",
                hint="It was undone already, or its sessions were removed for good a day after the deletion.",
            )
        for row in deleted_rows:
            _restore_session(row)
        rows.delete()
        change_notification.notify_after_commit()
    return [row.session for row in deleted_rows]


def recent_batches(now: float | None = None) -> list[DeletionBatch]:
    """Return the batches that can be restored, newest first, at most `BATCHES_SHOWN`. Two queries."""
    rows = _restorable_rows(now)
    ids = list(
        rows.order_by("-deleted_at", "batch").values_list("batch", flat=True).distinct()[:BATCHES_SHOWN]
    )
    return _make_batches(rows.filter(batch__in=ids)) if ids else []


def find_batch(now: float | None = None, **columns: Any) -> DeletionBatch | None:
    """Return the newest restorable batch with a session of these columns, such as `pk`."""
    conditions = {f"session__{name}": value for name, value in columns.items()}
    rows = _restorable_rows(now)
    newest = rows.filter(**conditions).order_by("-deleted_at").first()
    return _make_batches(rows.filter(batch=newest.batch))[0] if newest else None


def _restorable_rows(now: float | None) -> QuerySet[DeletedSession]:
    return DeletedSession.objects.filter(deleted_at__gte=(time.time() if now is None else now) - UNDO_S)


def _make_batches(rows: QuerySet[DeletedSession]) -> list[DeletionBatch]:
    batches: dict[str, DeletionBatch] = {}
    for row in rows.select_related("session").order_by("-deleted_at", "pk"):
        batch = batches.setdefault(row.batch, DeletionBatch(row.batch, row.deleted_at, []))
        batch.sessions.append(row.session)
    return list(batches.values())


def move_to_realm(session: AgentSession, realm: str) -> None:
    """Move a session and its artifacts to another realm, in the caller's transaction."""
    Artifact.objects.filter(
        realm=session.realm,
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.session_id,
    ).update(realm=realm)
    AgentSession.objects.filter(pk=session.pk).update(realm=realm)


def _restore_session(row: DeletedSession) -> None:
    session = row.session
    try:
        with transaction.atomic():
            move_to_realm(session, row.realm)
    except IntegrityError as error:
        raise AlreadyExists(
            f"Session {session.session_id!r} of user {session.user_id!r} in app {session.app_name!r} cannot be"
            " restored: another session has its id now.",
            hint="Delete the session that has its id now, or fork it under another id first; then undo again.",
        ) from error
    session.realm = row.realm


def _busy_reasons(sessions: list[AgentSession]) -> list[str]:
    active = Run.objects.filter(session__in=sessions, status__in=Run.ACTIVE).order_by("-created_at", "-pk")
    by_session = {run.session_id: run for run in active}
    return [
        f"{session.session_id}: run {by_session[session.pk].pk} is {by_session[session.pk].status}"
        for session in sessions
        if session.pk in by_session
    ]
