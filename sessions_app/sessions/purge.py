"""Permanent removal of sessions, many and large ones, while agents run.

A session is first set aside: one short transaction moves it and its artifacts to a realm of their own, so nobody sees
it any more. Its rows are then deleted in small batches, each in its own transaction, so that appends do not wait. A
later purge removes sessions that an interrupted one has set aside.

User and app state with their ledger, and memory, are retained.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import CASCADE, QuerySet

from sessions_app.sessions import deletion, storage_location
from sessions_app.store import expiry, realms
from sessions_app.store.artifacts import artifact_versions as artifacts
from sessions_app.store.database import change_notification, full_text
from sessions_app.store.database.batched_transactions import short_transaction
from sessions_app.store.database.stopwatch import ChangeTimer
from sessions_app.store.errors import BadInput
from sessions_app.store.index import index_entries
from sessions_app.store.models import (
    AgentSession,
    AppScope,
    Artifact,
    DeletedSession,
    ImportedScope,
    MemoryEntry,
    NestedRun,
    Scope,
    StateChange,
    UserScope,
)
from sessions_app.store.runs import session_runs

BATCH = 500
"""Rows deleted in one transaction."""

ABANDONED_S = 600.0
"""Seconds without progress after which a fork counts as abandoned: its process was killed."""

_progress = ChangeTimer()
"""The latest progress of unfinished forks, by their realm."""


@dataclass(frozen=True, slots=True)
class PurgeFilter:
    """Filter of sessions to purge. All given criteria must match.

    Attributes:
        older_than_s: minimum seconds since the last event.
        expired: only sessions that have outlived their app's TTL.
        app: only sessions of this app; None: of all apps.
    """

    older_than_s: float | None = None
    expired: bool = False
    app: str | None = None

    def due(self, now: float) -> QuerySet[AgentSession]:
        """Return the matching sessions."""
        rows = AgentSession.objects.filter(realm__in=realms.LASTING)
        if self.app is not None:
            rows = rows.filter(app_name=self.app)
        if self.older_than_s is not None:
            rows = rows.filter(updated_at__lt=now - self.older_than_s)
        return expiry.filter_by_age(rows, expiry.Age.EXPIRED, now) if self.expired else rows


@dataclass(slots=True)
class PurgeReport:
    """The result of a purge, or of its dry run.

    Attributes:
        memories: number of memories made of the sessions.
        files: number of artifact files removed from the data folder.
        finished: number of sessions that an earlier purge had set aside, or whose deletion can no longer be undone.
        copies: number of sessions owned by another service, of which the local copy was removed.
        names: the removed sessions.
        skipped: the other sessions, with reasons.
    """

    dry_run: bool = False
    sessions: int = 0
    events: int = 0
    artifacts: int = 0
    memories: int = 0
    files: int = 0
    finished: int = 0
    copies: int = 0
    names: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


def purge(
    criteria: PurgeFilter,
    *,
    remember: Callable[[AgentSession], int] | None = None,
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    now: float | None = None,
) -> PurgeReport:
    """Remove sessions. Sessions with an active run, or with new events meanwhile, are skipped and named.

    Args:
        remember: stores a session in memory before its removal, and returns the number of memories made.
        progress: called with the number of finished sessions, and their total.
    """
    started_at = time.time() if now is None else now
    report = PurgeReport(dry_run)
    if not dry_run:
        set_aside = AgentSession.objects.filter(realm__startswith=realms.PURGED)
        for pk in list(set_aside.values_list("pk", flat=True)):
            _remove_rows(pk, report)
            report.finished += 1
        remove_deleted(started_at - deletion.UNDO_S, report)
    pks = list(criteria.due(started_at).order_by("updated_at", "pk").values_list("pk", flat=True))
    for done, pk in enumerate(pks, start=1):
        _purge_one(pk, criteria, started_at, remember, report)
        progress(done, len(pks))
    return report


def remove_deleted(before: float, report: PurgeReport | None = None) -> PurgeReport:
    """Remove sessions that were deleted before a time and not restored.

    The isolated realm of a fork is removed with its last session.
    """
    report = report or PurgeReport()
    overdue = DeletedSession.objects.filter(deleted_at__lt=before).order_by("deleted_at")
    for row in list(overdue.only("pk", "session", "realm")):
        if not _end_undo(row):
            continue
        _remove_rows(row.session_id, report)
        report.finished += 1
        realm = row.realm
        if realm.startswith(realms.FORK) and not AgentSession.objects.filter(realm=realm).exists():
            delete_realm(realm)
    return report


def remove_abandoned() -> int:
    """Remove forks whose copying made no progress for `ABANDONED_S` in this process. Return their number.

    Call it repeatedly. Progress is timed by this process's monotonic clock, because the process that copies may have
    another clock, and wall clocks are adjusted.
    """
    forks = {fork.realm: fork for fork in AgentSession.objects.filter(realm__startswith=realms.COPYING)}
    progress = {realm: fork.updated_at for realm, fork in forks.items()}
    abandoned = _progress.find_unchanged(progress, ABANDONED_S)
    for realm in abandoned:
        remove_unfinished(forks[realm])
    return len(abandoned)


def remove_unfinished(session: AgentSession) -> None:
    """Remove an unfinished fork. Its row is deleted last, because it identifies the other rows."""
    if not AgentSession.objects.filter(pk=session.pk, realm__startswith=realms.COPYING).exists():
        return
    report = PurgeReport()
    _remove_shared(session.realm)
    _remove_artifacts(Artifact.objects.filter(realm=session.realm), report)
    _remove_rows(session.pk, report)


def delete_realm(realm: str) -> PurgeReport:
    """Remove an isolated realm: its sessions, shared state with its ledger, artifacts and memory.

    Nothing in it may be running. An interrupted call can be repeated.

    Raises:
        BadInput: the realm is empty.
    """
    if not realm:
        raise BadInput(
            "The default realm cannot be deleted.",
            hint="Name the realm of an eval attempt, a fork or a replay.",
        )
    report = PurgeReport()
    for pk in list(AgentSession.objects.filter(realm=realm).values_list("pk", flat=True)):
        _remove_rows(pk, report)
    _remove_shared(realm)
    _remove_artifacts(Artifact.objects.filter(realm=realm), report)
    for pks in _pk_batches(MemoryEntry.objects.filter(realm=realm)):
        with short_transaction():
            full_text.unindex_rows(MemoryEntry, pks)
            MemoryEntry.objects.filter(pk__in=pks).delete()
    return report


def _purge_one(
    pk: int,
    criteria: PurgeFilter,
    now: float,
    remember: Callable[[AgentSession], int] | None,
    report: PurgeReport,
) -> None:
    session = criteria.due(now).select_related("mirrored").filter(pk=pk).first()
    if session is None:
        return
    is_copy = storage_location.find_mirror(session) is not None
    name = f"{session.app_name} / {session.user_id} / {session.session_id}"
    if run := session_runs.active_run(pk):
        report.skipped.append(f"{name}: run {run.pk} is {run.status}")
        return
    if not report.dry_run:
        if remember is not None:
            report.memories += remember(session)
        if not _set_aside(pk, criteria, now):
            report.skipped.append(f"{name}: it has changed meanwhile")
            return
        _remove_rows(pk, report)
    report.sessions += 1
    report.copies += is_copy
    report.events += session.last_seq
    report.names.append(name)


def _set_aside(pk: int, criteria: PurgeFilter, now: float) -> bool:
    """Hide a session that still matches the criteria. Return whether it did."""
    with transaction.atomic():
        session = criteria.due(now).select_for_update().filter(pk=pk).first()
        if session is None or session_runs.active_run(pk):
            return False
        deletion.move_to_realm(session, f"{realms.PURGED}{pk}")
        change_notification.notify_after_commit()
    return True


def _end_undo(row: DeletedSession) -> bool:
    """Make a deletion final. Return whether it could still be undone."""
    with transaction.atomic():
        if not DeletedSession.objects.select_for_update().filter(pk=row.pk).exists():
            return False
        deletion.move_to_realm(row.session, f"{realms.PURGED}{row.session_id}")
        DeletedSession.objects.filter(pk=row.pk).delete()
    return True


def _remove_rows(pk: int, report: PurgeReport) -> None:
    """Delete a session that nobody uses any more, in small batches; its own row last."""
    session = AgentSession.objects.get(pk=pk)
    if session.realm.startswith(realms.PURGED):
        _remove_artifacts(Artifact.objects.filter(realm=session.realm), report)
    for nested in list(NestedRun.objects.filter(caller=pk).select_related("child")):
        _remove_shared(nested.child.realm)  # first: the run's rows name the realm
        _remove_rows(nested.child_id, report)
    _delete_rows(StateChange.objects.filter(scope=Scope.SESSION, owner_id=pk))
    index_entries.forget_session(pk)
    for relation in AgentSession._meta.related_objects:
        column = relation.field.name
        rows: QuerySet[Any] = relation.related_model._base_manager.filter(**{column: pk})
        if relation.on_delete is CASCADE:
            _delete_rows(rows)
        else:
            for pks in _pk_batches(rows):
                with short_transaction():
                    rows.model._base_manager.filter(pk__in=pks).update(**{column: None})
    with short_transaction():
        session.delete()
        change_notification.notify_after_commit()


def _remove_shared(realm: str) -> None:
    """Delete the state of a realm's users and apps."""
    owners: tuple[UserScope | AppScope, ...] = (
        *UserScope.objects.filter(realm=realm),
        *AppScope.objects.filter(realm=realm),
    )
    for owner in owners:
        scope = Scope.USER if isinstance(owner, UserScope) else Scope.APP
        _delete_rows(StateChange.objects.filter(scope=scope, owner_id=owner.pk))
        _delete_rows(owner.state_rows.all())
        with short_transaction():
            ImportedScope.objects.filter(scope=scope, owner_id=owner.pk).delete()
            index_entries.forget_owner(scope, owner.pk)
            owner.delete()


def _remove_artifacts(rows: QuerySet[Artifact], report: PurgeReport) -> None:
    """Delete artifacts, and after the commit the files that no row uses; a crash in between leaves files."""
    for pks in _pk_batches(rows):
        batch = Artifact.objects.filter(pk__in=pks)
        with short_transaction():
            beside = batch.filter(content=None).exclude(sha256="")
            hashes = set(beside.values_list("sha256", flat=True))
            batch.delete()
        report.artifacts += len(pks)
        if hashes:
            report.files += artifacts.remove_unused_content(hashes)


def _delete_rows(rows: QuerySet[Any]) -> None:
    for pks in _pk_batches(rows):
        with short_transaction():
            rows.model._base_manager.filter(pk__in=pks).delete()


def _pk_batches(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """Yield batches of primary keys until no row is left."""
    while pks := list(rows.order_by().values_list("pk", flat=True)[:BATCH]):
        yield pks
