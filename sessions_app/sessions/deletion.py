"""Deleting sessions with a way back.

A deleted session gets a realm of its own, and its artifacts with it: from then on it is gone for everybody, and its id
is free. For a while it can come back as it was; then `purge.remove_deleted` removes it for good. User and app state
and memory are not touched.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from sessions_app import realms
from sessions_app.errors import AlreadyExists, NotFound
from sessions_app.models import AgentSession, Artifact, DeletedSession, Run
from sessions_app.runs import lifecycle as runs
from sessions_app.sessions import storage_location
from sessions_app.store import change_notification

UNDO_S = 86_400.0
"""Seconds in which what was deleted can come back."""

BATCHES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class DeletionBatch:
    """Sessions that were deleted together and can come back together."""

    id: str
    deleted_at: float
    sessions: list[AgentSession]

    @property
    def until(self) -> float:
        """When they are removed for good."""
        return self.deleted_at + UNDO_S


@dataclass(frozen=True, slots=True)
class DeletionResult:
    """What a deletion has done: the batch, None when nothing was deleted, and what was left alone, with the reason."""

    batch: DeletionBatch | None
    left: list[str]


def delete(pks: Collection[int], *, now: float | None = None) -> DeletionResult:
    """Delete sessions; those on which a run is active are left alone. What is gone already is no error.

    Raises:
        SessionBusy: a run is active on each of them.
        BadInput: agents go on with one of them elsewhere.
    """
    moment = time.time() if now is None else now
    batch = DeletionBatch(uuid.uuid4().hex, moment, [])
    left: list[AgentSession] = []
    with transaction.atomic():
        rows = realms.exclude_hidden(AgentSession.objects.select_for_update().filter(pk__in=pks)).order_by(
            "pk"
        )
        for session in rows:
            storage_location.refuse_deletion(session)
            (left if runs.active_run(session.pk) else batch.sessions).append(session)
        if left and not batch.sessions:
            runs.require_idle(left[0].pk, left[0].session_id)
        for session in batch.sessions:
            _set_aside(session, batch)
        change_notification.notify_after_commit()
    return DeletionResult(batch if batch.sessions else None, _busy_reasons(left))


def undo(batch_id: str) -> list[AgentSession]:
    """Bring back what was deleted together, all of it or nothing.

    Raises:
        NotFound: nothing of it can come back any more.
        AlreadyExists: the id of a session was taken again meanwhile.
    """
    with transaction.atomic():
        rows = DeletedSession.objects.select_for_update(of=("self",)).filter(batch=batch_id)
        found = list(rows.select_related("session").order_by("session__pk"))
        if not found:
            raise NotFound(
                "Nothing of this deletion can come back.",
                hint="It came back already, or it is more than a day ago and was removed for good.",
            )
        for row in found:
            _restore(row)
        rows.delete()
        change_notification.notify_after_commit()
    return [row.session for row in found]


def recent_batches(now: float | None = None) -> list[DeletionBatch]:
    """Return what was deleted and can come back, the newest first, at most `BATCHES_SHOWN` batches. Two queries."""
    moment = time.time() if now is None else now
    rows = DeletedSession.objects.filter(deleted_at__gte=moment - UNDO_S)
    ids = list(
        rows.order_by("-deleted_at", "batch").values_list("batch", flat=True).distinct()[:BATCHES_SHOWN]
    )
    batches: dict[str, DeletionBatch] = {}
    if ids:
        for row in rows.filter(batch__in=ids).select_related("session").order_by("-deleted_at", "pk"):
            batch = batches.setdefault(row.batch, DeletionBatch(row.batch, row.deleted_at, []))
            batch.sessions.append(row.session)
    return list(batches.values())


def find_batch(now: float | None = None, **columns: Any) -> DeletionBatch | None:
    """Return what can come back that has a session of these columns, such as its `pk`; the newest of several."""
    moment = time.time() if now is None else now
    wanted = {f"session__{name}": value for name, value in columns.items()}
    rows = DeletedSession.objects.filter(deleted_at__gte=moment - UNDO_S)
    found = rows.filter(**wanted).order_by("-deleted_at").first()
    if found is None:
        return None
    together = rows.filter(batch=found.batch).select_related("session").order_by("pk")
    return DeletionBatch(found.batch, found.deleted_at, [row.session for row in together])


def _set_aside(session: AgentSession, batch: DeletionBatch) -> None:
    aside = f"{realms.DELETED}{session.pk}"
    DeletedSession.objects.create(
        session=session, batch=batch.id, realm=session.realm, deleted_at=batch.deleted_at
    )
    Artifact.objects.filter(
        realm=session.realm,
        app_name=session.app_name,
        user_id=session.user_id,
        session_id=session.session_id,
    ).update(realm=aside)
    AgentSession.objects.filter(pk=session.pk).update(realm=aside)


def _restore(row: DeletedSession) -> None:
    session = row.session
    try:
        with transaction.atomic():
            AgentSession.objects.filter(pk=session.pk).update(realm=row.realm)
            Artifact.objects.filter(realm=f"{realms.DELETED}{session.pk}").update(realm=row.realm)
    except IntegrityError as error:
        raise AlreadyExists(
            f"Session {session.session_id!r} of user {session.user_id!r} in app {session.app_name!r} cannot come"
            " back: its id was taken again meanwhile.",
            hint="Delete the session that has its id now, or fork it under another id first; then undo again.",
        ) from error
    session.realm = row.realm


def _busy_reasons(left: list[AgentSession]) -> list[str]:
    active = Run.objects.filter(session__in=left, status__in=Run.ACTIVE).order_by("-created_at", "-pk")
    by_session = {run.session_id: run for run in active}
    return [
        f"{session.session_id}: run {by_session[session.pk].pk} is {by_session[session.pk].status}"
        for session in left
        if session.pk in by_session
    ]
