"""Copy of a session up to an event, inside the database, in batches of short transactions.

Only rows that never change are copied, and their keys are read before, so concurrent writes have no effect.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Model, QuerySet

from sessions_app.branches import artifact_versions
from sessions_app.store import realms
from sessions_app.store.database.batched_transactions import BatchedTransactions
from sessions_app.store.errors import StaleSession
from sessions_app.store.models import (
    AgentSession,
    AppScope,
    AppState,
    Artifact,
    ChangeCause,
    Event,
    NestedRun,
    Scope,
    SessionState,
    StateChange,
    TempWrite,
    UserScope,
    UserState,
)
from sessions_app.store.sessions.lineage import Ancestor
from sessions_app.store.state import history

CHUNK = 2_000
"""Row keys fetched at a time."""

NOT_REMOVED = "NOT removed"

LIST_FIELDS = ("first_text", "last_text", "error_count", "total_tokens", "last_seq", "revision")
"""Columns of a session that follow from its events."""


class SqlExpression(NamedTuple):
    """SQL with the values of its placeholders."""

    sql: str
    values: Sequence[Any] = ()


class SessionCopy:
    """A copy of a session up to an event, in progress."""

    def __init__(
        self,
        source: AgentSession,
        new: AgentSession,
        event: Event,
        ancestors: Sequence[Ancestor],
        *,
        progress_of: AgentSession | None = None,
    ) -> None:
        """Copy into `new`, a hidden session without events.

        Args:
            progress_of: the session whose time shows the progress; default: `new`.
        """
        self.source = source
        self.new = new
        self.event = event
        self.ancestors = ancestors
        self._progress_of = progress_of or new
        self._slices = BatchedTransactions()

    def session(self) -> None:
        """Copy the ledger of the session's own keys, its state and its ghost keys."""
        ledger = StateChange.objects.filter(
            scope=Scope.SESSION, owner_id=self.source.pk, position__lte=self.event.seq
        )
        self._copy_rows(StateChange, ledger, {"owner_id": self.new.pk, "session_id": self.new.pk})
        ghosts = TempWrite.objects.filter(session=self.source, seq__lte=self.event.seq)
        self._copy_rows(TempWrite, ghosts, {"session_id": self.new.pk})
        self._settle_state(SessionState, Scope.SESSION, self.new.pk, self.event.seq)

    def shared_state(self) -> None:
        """Create owners in the new realm with the shared state at the event."""
        start, then = history.owners_at_start(self.source), history.owners_at(self.source, self.event)
        new_owner = {"realm": self.new.realm, "app_name": self.new.app_name}
        if Scope.USER in then.ids:
            owner = UserScope.objects.create(
                **new_owner, user_id=self.new.user_id, version=then.positions[Scope.USER]
            )
            self._copy_shared(Scope.USER, owner.pk, start, then)
            self._settle_state(UserState, Scope.USER, owner.pk, owner.version)
        if Scope.APP in then.ids:
            app = AppScope.objects.create(**new_owner, version=then.positions[Scope.APP])
            self._copy_shared(Scope.APP, app.pk, start, then)
            self._settle_state(AppState, Scope.APP, app.pk, app.version)

    def events(self, versions: dict[str, int]) -> None:
        """Copy the events.

        Args:
            versions: versions of shared state for all events; empty: each keeps its own.
        """
        changed = {"session_id": self.new.pk, **versions}

        def copy(seqs: Sequence[int]) -> None:
            which = "session_id = %s AND seq BETWEEN %s AND %s"
            _insert_copies(Event, which, [self.source.pk, seqs[0], seqs[-1]], changed, order="seq")

        self._in_batches(range(1, self.event.seq + 1), copy)

    def nested_runs(self) -> None:
        """Copy the nested runs inside the calls of the copied events. An unfinished run ends in the copy."""
        runs = NestedRun.objects.filter(caller=self.source, caller_seq__lte=self.event.seq)
        self._copy_nested_runs(runs, self.new, None)

    def _copy_nested_runs(
        self, runs: QuerySet[NestedRun], caller: AgentSession, outer_seq: int | None
    ) -> None:
        """Copy runs, with their sessions and the runs inside them, to calls of the session `caller`.

        Args:
            outer_seq: number of the event of the fork with the outermost call; None: that of each run.
        """
        for run in runs.select_related("child").order_by("pk"):
            source = run.child
            run.pk, run.caller, run.outer, run.indexed_count = None, caller, self.new, 0
            run.outer_seq = run.caller_seq if outer_seq is None else outer_seq
            run.finished_at = run.changed_at if run.finished_at is None else run.finished_at
            run.child = AgentSession(
                **realms.nested_key(self.new.key, self.new.pk, source.session_id)._asdict(),
                created_at=source.created_at,
                updated_at=source.updated_at,
                origin=source.origin,
            )
            with self._slices.one():
                self._go_on()
                run.child.save(force_insert=True)
                run.child_id = run.child.pk
                run.save(force_insert=True)
            self._copy_nested_session(source, run.child)
            self._copy_nested_runs(NestedRun.objects.filter(caller=source), run.child, run.outer_seq)

    def _copy_nested_session(self, source: AgentSession, new: AgentSession) -> None:
        """Copy state and events of a nested session; its numbers last, so that the index sees all events at once."""
        newest = Event.objects.filter(session=source).order_by("-seq").first()
        if newest is None:
            return
        nested = SessionCopy(source, new, newest, [], progress_of=self.new)
        nested.session()
        nested.shared_state()
        nested.events({})
        new.first_text, new.last_text = source.first_text, source.last_text
        new.error_count, new.total_tokens = source.error_count, source.total_tokens
        new.last_seq = new.revision = newest.seq
        with self._slices.one():
            new.save(update_fields=LIST_FIELDS)

    def artifacts(self, *, with_users: bool) -> None:
        """Copy the versions of the session's artifacts; `with_users`: also those of its user."""
        owner: dict[str, Any] = {
            "realm": self.new.realm,
            "app_name": self.new.app_name,
            "user_id": self.new.user_id,
        }
        pks = artifact_versions.artifact_pks_at(self.source, self.event)
        self._copy_artifacts(
            pks, {**owner, "session_id": self.new.session_id, "from_session": self.new.session_id}
        )
        if with_users:
            users = Artifact.objects.filter(
                realm=self.source.realm,
                app_name=self.source.app_name,
                user_id=self.source.user_id,
                session_id="",
                created_at__lte=self.event.timestamp,
            )
            self._copy_artifacts(_sorted_pks(users), owner)

    def _copy_artifacts(self, pks: Sequence[int], changed: dict[str, Any]) -> None:
        def copy(pks: Sequence[int]) -> None:
            # The lock keeps the rows, and thus the files they refer to, until the copies refer to them too.
            list(Artifact.objects.select_for_update().filter(pk__in=pks).values_list("pk"))
            _insert_copies(Artifact, _id_condition(pks), pks, changed)

        self._in_batches(pks, copy)

    def _copy_shared(self, scope: Scope, owner_id: int, start: history.Owners, then: history.Owners) -> None:
        """Copy a shared scope's ledger: each key's last write before the events as the fork's, and all later writes."""
        source, first, last = then.ids[scope], start.positions.get(scope, 0), then.positions[scope]
        before = sorted(history.newest_writes(scope, source, first))
        new_values = {"owner_id": owner_id, "cause": str(ChangeCause.FORK), "session_id": None}
        self._in_batches(
            before,
            lambda pks: _insert_copies(
                StateChange, f"{_id_condition(pks)} AND {NOT_REMOVED}", pks, new_values
            ),
        )
        since = StateChange.objects.filter(
            scope=scope, owner_id=source, position__gt=first, position__lte=last
        )
        self._copy_rows(StateChange, since, {"owner_id": owner_id}, {"session_id": self._writer_sql()})

    def _writer_sql(self) -> SqlExpression:
        """Return the SQL for `session_id` of a copied row of shared state.

        It is the fork for copied events, else NULL: rows of other sessions stay theirs.
        """
        copied = [Ancestor(self.source.pk, self.event.seq)]
        copied += [
            Ancestor(ancestor.pk, min(ancestor.last_seq, self.event.seq)) for ancestor in self.ancestors
        ]
        cases = " ".join(["WHEN session_id = %s AND seq <= %s THEN %s"] * len(copied))
        values = [value for ancestor in copied for value in (ancestor.pk, ancestor.last_seq, self.new.pk)]
        return SqlExpression(f"CASE {cases} ELSE NULL END", values)

    def _settle_state(self, table: type[Model], scope: Scope, owner_id: int, position: int) -> None:
        """Write an owner's state from the last write of each key in its ledger."""
        target, ledger = table._meta.db_table, StateChange._meta.db_table
        columns = "owner_id, key, key_id, value, private, note, position"

        def write(pks: Sequence[int]) -> None:
            with connection.cursor() as cursor:
                cursor.execute(
                    f"INSERT INTO {target} ({columns}) SELECT {columns} FROM {ledger}"  # noqa: S608 - our own tables
                    f" WHERE {_id_condition(pks)} AND {NOT_REMOVED} ORDER BY id",
                    pks,
                )

        self._in_batches(sorted(history.newest_writes(scope, owner_id, position)), write)

    def _copy_rows(
        self,
        table: type[Model],
        rows: QuerySet[Any],
        changed: dict[str, Any],
        computed: dict[str, SqlExpression] | None = None,
    ) -> None:
        def copy(pks: Sequence[int]) -> None:
            _insert_copies(table, _id_condition(pks), pks, changed, computed)

        self._in_batches(_sorted_pks(rows), copy)

    def _in_batches(self, pks: Sequence[int], copy: Callable[[Sequence[int]], None]) -> None:
        start = 0
        while start < len(pks):
            batch = pks[start : start + self._slices.rows]
            with self._slices.one():
                self._go_on()
                copy(batch)
            start += len(batch)

    def _go_on(self) -> None:
        """Refresh the timestamp of the copy in progress.

        Raises:
            StaleSession: the copy paused for so long that it was considered abandoned and removed.
        """
        if not AgentSession.objects.filter(pk=self._progress_of.pk).update(updated_at=time.time()):
            raise StaleSession(
                f"The fork of session {self.source.session_id!r} paused for too long and was removed.",
                hint="Fork it again.",
            )


def _sorted_pks(rows: QuerySet[Any]) -> Sequence[int]:
    """Return the sorted primary keys of rows, as a compact array."""
    return array("q", rows.order_by("pk").values_list("pk", flat=True).iterator(CHUNK))


def _id_condition(pks: Sequence[int]) -> str:
    return f"id IN ({', '.join(['%s'] * len(pks))})"


def _insert_copies(
    table: type[Model],
    which: str,
    values: Sequence[Any],
    changed: dict[str, Any],
    computed: dict[str, SqlExpression] | None = None,
    *,
    order: str = "id",
) -> None:
    """Copy rows of a table inside the database: all columns except the key, some with new values.

    Args:
        table: the table.
        which: SQL condition with placeholders.
        values: values of the placeholders.
        changed: new values by column.
        computed: SQL expressions by column.
        order: column that determines the order of the copies.
    """
    expressions = {column: SqlExpression("%s", [value]) for column, value in changed.items()} | (
        computed or {}
    )
    columns = [str(field.column) for field in table._meta.concrete_fields if not field.primary_key]
    chosen = [expressions.get(column, SqlExpression(column)) for column in columns]
    name = table._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {name} ({', '.join(columns)})"  # noqa: S608 - our own tables and columns
            f" SELECT {', '.join(copied_column.sql for copied_column in chosen)} FROM {name}"
            f" WHERE {which} ORDER BY {order}",
            [*(value for copied_column in chosen for value in copied_column.values), *values],
        )
