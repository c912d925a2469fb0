"""Removing sessions for good, many and large ones, while agents run.

A session is first set aside: one short transaction gives it and its artifacts a realm of their own, and from then on
it is gone for everybody. Its rows are then deleted in small batches, each a transaction of its own, so that no
append waits long. What a killed purge has set aside, the next one removes.

User and app state survive with their ledger, and so does memory.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import connection, transaction
from django.db.models import CASCADE, QuerySet

from sessions_app import expiry, realms
from sessions_app.artifacts import artifact_versions as artifacts
from sessions_app.errors import BadInput
from sessions_app.models import (
    AgentSession,
    AppScope,
    Artifact,
    DeletedSession,
    ImportedScope,
    MemoryEntry,
    Scope,
    StateChange,
    UserScope,
)
from sessions_app.runs import lifecycle as runs
from sessions_app.search import indexing
from sessions_app.sessions import deletion, storage_location
from sessions_app.store import change_notification, full_text
from sessions_app.store.stopwatch import ChangeTimer

BATCH = 500
"""Rows deleted in one transaction."""

ABANDONED_S = 600.0
"""Seconds without progress after which a fork is no longer being copied: its process was killed."""

_progress = ChangeTimer()
"""The latest progress of unfinished forks, by their realm."""


@dataclass(frozen=True, slots=True)
class PurgeFilter:
    """Which sessions are to go: those for which everything given is true.

    Attributes:
        older_than_s: seconds since the last event.
        expired: only sessions that have outlived their app's TTL.
        app: only sessions of this app; None: of all.
    """

    older_than_s: float | None = None
    expired: bool = False
    app: str | None = None

    def due(self, now: float) -> QuerySet[AgentSession]:
        """Return the sessions that are to go."""
        rows = AgentSession.objects.filter(realm="")
        if self.app is not None:
            rows = rows.filter(app_name=self.app)
        if self.older_than_s is not None:
            rows = rows.filter(updated_at__lt=now - self.older_than_s)
        return expiry.filter_by_age(rows, expiry.Age.EXPIRED, now) if self.expired else rows


@dataclass(slots=True)
class PurgeReport:
    """What a purge has done, or with `dry_run` would do.

    Attributes:
        memories: what was handed over to memory.
        files: content of artifacts that was removed from beside the store.
        finished: sessions that an earlier purge had set aside, or that people deleted long enough ago.
        copies: sessions that one of ADK's services keeps: what was removed is the copy here.
        left: sessions left alone, each with the reason.
    """

    dry_run: bool = False
    sessions: int = 0
    events: int = 0
    artifacts: int = 0
    memories: int = 0
    files: int = 0
    finished: int = 0
    copies: int = 0
    named: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)


def purge(
    wanted: PurgeFilter,
    *,
    remember: Callable[[AgentSession], int] | None = None,
    dry_run: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
    now: float | None = None,
) -> PurgeReport:
    """Remove sessions; one on which a run is active, or that goes on meanwhile, is left alone and named.

    Args:
        remember: hands a session over to memory before it goes, and returns how many memories that made.
        progress: told how many sessions are done, of how many.
    """
    moment = time.time() if now is None else now
    report = PurgeReport(dry_run)
    if not dry_run:
        for pk in _pks_set_aside():
            _remove_rows(pk, report)
            report.finished += 1
        remove_deleted(moment - deletion.UNDO_S, report)
    pks = list(wanted.due(moment).order_by("updated_at", "pk").values_list("pk", flat=True))
    for done, pk in enumerate(pks, start=1):
        _purge_one(pk, wanted, moment, remember, report)
        progress(done, len(pks))
    return report


def remove_deleted(before: float, report: PurgeReport | None = None) -> PurgeReport:
    """Remove for good what people deleted before a moment and did not take back.

    Of a fork with a private world, that goes with it.
    """
    report = report or PurgeReport()
    overdue = DeletedSession.objects.filter(deleted_at__lt=before).order_by("deleted_at")
    for row in list(overdue.only("pk", "session", "realm")):
        if not _end_undo(row):
            continue
        _remove_rows(row.session_id, report)
        report.finished += 1
        world = row.realm
        if world.startswith(realms.FORK) and not AgentSession.objects.filter(realm=world).exists():
            delete_realm(world)
    return report


def remove_abandoned() -> int:
    """Remove forks that made no progress for `STOOD_STILL_S` while this process looked on. Return how many.

    Call it again and again. Progress is timed by this process's monotonic clock: who copies a fork may be another
    process with another clock, and clocks are set.
    """
    forks = {fork.realm: fork for fork in AgentSession.objects.filter(realm__startswith=realms.COPYING)}
    progress = {realm: fork.updated_at for realm, fork in forks.items()}
    abandoned = _progress.unchanged(progress, ABANDONED_S)
    for realm in abandoned:
        remove_unfinished(forks[realm])
    return len(abandoned)


def remove_unfinished(session: AgentSession) -> None:
    """Remove a fork that did not get its place. Its row goes last: it is what finds the others."""
    if not AgentSession.objects.filter(pk=session.pk, realm__startswith=realms.COPYING).exists():
        return
    report = PurgeReport()
    _remove_shared(session.realm)
    _remove_artifacts(Artifact.objects.filter(realm=session.realm), report)
    _remove_rows(session.pk, report)


def delete_realm(realm: str) -> PurgeReport:
    """Remove a private world: its sessions, the state that they share with its ledger, artifacts and memory.

    Nothing of it may be running. What is killed half-way is gone on with by calling again.

    Raises:
        BadInput: the realm is empty: that is real life.
    """
    if not realm:
        raise BadInput(
            "The empty realm is real life and cannot be deleted.",
            hint="Name an attempt's, a fork's or a replay's.",
        )
    report = PurgeReport()
    for pk in list(AgentSession.objects.filter(realm=realm).values_list("pk", flat=True)):
        _remove_rows(pk, report)
    _remove_shared(realm)
    _remove_artifacts(Artifact.objects.filter(realm=realm), report)
    for pks in _pk_batches(MemoryEntry.objects.filter(realm=realm)):
        with _short_transaction():
            full_text.unindex_rows(MemoryEntry, pks)
            MemoryEntry.objects.filter(pk__in=pks).delete()
    return report


def _purge_one(
    pk: int,
    wanted: PurgeFilter,
    now: float,
    remember: Callable[[AgentSession], int] | None,
    report: PurgeReport,
) -> None:
    session = wanted.due(now).select_related("mirrored").filter(pk=pk).first()
    if session is None:
        return
    is_copy = storage_location.mirror_of(session) is not None
    name = f"{session.app_name} / {session.user_id} / {session.session_id}"
    if run := runs.active_run(pk):
        report.left.append(f"{name}: run {run.pk} is {run.status}")
        return
    if not report.dry_run:
        if remember is not None:
            report.memories += remember(session)
        if not _set_aside(pk, wanted, now):
            report.left.append(f"{name}: it went on meanwhile")
            return
        _remove_rows(pk, report)
    report.sessions += 1
    report.copies += is_copy
    report.events += session.last_seq
    report.named.append(name)


def _set_aside(pk: int, wanted: PurgeFilter, now: float) -> bool:
    """Let a session be gone for everybody, if it is still to go. Return whether it is."""
    with transaction.atomic():
        session = wanted.due(now).select_for_update().filter(pk=pk).first()
        if session is None or runs.active_run(pk):
            return False
        aside = f"{realms.PURGED}{pk}"
        Artifact.objects.filter(
            realm="", app_name=session.app_name, user_id=session.user_id, session_id=session.session_id
        ).update(realm=aside)
        AgentSession.objects.filter(pk=pk).update(realm=aside)
        change_notification.notify_after_commit()
    return True


def _end_undo(row: DeletedSession) -> bool:
    """Let a deleted session not come back any more. Return whether it still could."""
    pk = row.session_id
    with transaction.atomic():
        if not DeletedSession.objects.select_for_update().filter(pk=row.pk).exists():
            return False
        Artifact.objects.filter(realm=f"{realms.DELETED}{pk}").update(realm=f"{realms.PURGED}{pk}")
        AgentSession.objects.filter(pk=pk).update(realm=f"{realms.PURGED}{pk}")
        DeletedSession.objects.filter(pk=row.pk).delete()
    return True


def _pks_set_aside() -> list[int]:
    rows = AgentSession.objects.filter(realm__startswith=realms.PURGED)
    return list(rows.values_list("pk", flat=True))


def _remove_rows(pk: int, report: PurgeReport) -> None:
    """Delete a session that nobody uses any more, in small batches; its own row comes last."""
    session = AgentSession.objects.get(pk=pk)
    if session.realm.startswith(realms.PURGED):
        _remove_artifacts(Artifact.objects.filter(realm=session.realm), report)
    _delete(StateChange.objects.filter(scope=Scope.SESSION, owner_id=pk))
    indexing.forget_session(pk)
    for relation in AgentSession._meta.related_objects:
        column = relation.field.name
        rows: QuerySet[Any] = relation.related_model._base_manager.filter(**{column: pk})
        if relation.on_delete is CASCADE:
            _delete(rows)
        else:
            _detach(rows, column)
    with _short_transaction():
        session.delete()
        change_notification.notify_after_commit()


def _remove_shared(realm: str) -> None:
    """Delete the state of a realm's users and apps."""
    for scope, owners in ((Scope.USER, UserScope), (Scope.APP, AppScope)):
        for pk in list(owners.objects.filter(realm=realm).values_list("pk", flat=True)):
            _remove_scope(scope, owners, pk)


def _remove_scope(scope: Scope, owners: type[UserScope | AppScope], pk: int) -> None:
    owner = owners.objects.get(pk=pk)
    _delete(StateChange.objects.filter(scope=scope, owner_id=pk))
    _delete(owner.state_rows.all())
    with _short_transaction():
        ImportedScope.objects.filter(scope=scope, owner_id=pk).delete()
        indexing.forget_owner(scope, pk)
        owner.delete()


def _remove_artifacts(rows: QuerySet[Artifact], report: PurgeReport) -> None:
    """Delete artifacts, and the files that no row needs any more: after the commit, which a crash may prevent."""
    for pks in _pk_batches(rows):
        batch = Artifact.objects.filter(pk__in=pks)
        with _short_transaction():
            beside = batch.filter(content=None).exclude(sha256="")
            hashes = set(beside.values_list("sha256", flat=True))
            batch.delete()
        report.artifacts += len(pks)
        if hashes:
            report.files += artifacts.remove_unused_content(hashes)


def _delete(rows: QuerySet[Any]) -> None:
    for pks in _pk_batches(rows):
        with _short_transaction():
            rows.model._base_manager.filter(pk__in=pks).delete()


def _detach(rows: QuerySet[Any], column: str) -> None:
    for pks in _pk_batches(rows):
        with _short_transaction():
            rows.model._base_manager.filter(pk__in=pks).update(**{column: None})


def _pk_batches(rows: QuerySet[Any]) -> Iterator[list[Any]]:
    """Yield the primary keys of what is left, until nothing is left."""
    while pks := list(rows.order_by().values_list("pk", flat=True)[:BATCH]):
        yield pks


@contextmanager
def _short_transaction() -> Iterator[None]:
    """Run one transaction. Afterwards SQLite's one write lock is left to others for as long as it was held."""
    began = time.monotonic()
    with transaction.atomic():
        yield
    if connection.vendor == "sqlite":
        time.sleep(time.monotonic() - began)
