"""Drift: stored values that no write explains, and the reasons for values that differ from the session's events.

A session's events are not the only writers of its state: seeds, imports and forks bring values, other sessions write
shared keys, and the event of a removal says null. These are normal and reported with their cause. Drift is what none of
them explains: a row changed by something other than DevUI, or an imported value that differs from the imported events.

The sum of the events is read from the ledger: the last write of each key by an event of this session, a few seeks a
key. The database skips keys whose stored value is what the session's own event wrote last. `from_events=True` folds the
events themselves instead, page by page, which takes time in proportion to the session's length.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, models

from sessions_app.store import scopes
from sessions_app.store.models import (
    STATE_ROWS,
    AgentSession,
    ChangeCause,
    Event,
    Scope,
    StateChange,
    StateRow,
    UntrackedKey,
)
from sessions_app.store.state import history, points

WRITES_SEARCHED = 500
"""Writes of a key searched for the last one by this session; beyond them the value is "not known"."""

PAGE = 500
MAX_UNTRACKED = 200
"""Untracked keys that are listed; the others are counted."""


class DriftCause(models.TextChoices):
    """The origin of a stored value that differs from the sum of the session's events."""

    SEED = "seed", "initial state"
    OTHER_SESSION = "other_session", "written by another session"
    IMPORT = "import", "came with an import"
    FORK = "fork", "taken over by a fork"
    REMOVED = "removed", "removed by hand"
    REWIND = "rewind", "taken back by a rewind"
    FOREIGN = "foreign", "changed by something else than DevUI"


@dataclass(frozen=True, slots=True)
class Drift:
    """A key whose stored value differs from the sum of the session's events.

    Attributes:
        stored, folded: JSON without credentials; None: no value.
        is_known: whether `folded` is known; else the session's last write is too long ago.
        change: the ledger's last write of the key by any session; None if there is none.
    """

    scope: Scope
    key: str
    stored: str | None
    folded: str | None
    is_known: bool
    why: DriftCause
    change: StateChange | None

    @property
    def name(self) -> str:
        """The key with its scope's prefix."""
        return scopes.PREFIX[self.scope] + self.key

    @property
    def is_drift(self) -> bool:
        """Return whether nothing explains the value: no event, seed, fork, other session or removal.

        An import explains a key that no event of the session wrote, as a seed does. An imported value that differs from
        the events is drift of the source.
        """
        return self.why == DriftCause.FOREIGN or (self.why == DriftCause.IMPORT and self.folded is not None)


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Keys whose value the session's events do not explain: session, user, app; untracked ones newest first.

    Attributes:
        keys: all of them, explained or not.
        untracked_count: number of untracked keys, listed or not.
        unread: number of keys that were not checked; none of them is foreign.
    """

    keys: list[Drift]
    untracked: list[UntrackedKey]
    untracked_count: int = 0
    unread: int = 0

    @property
    def drifts(self) -> list[Drift]:
        """The keys that nothing explains."""
        return [entry for entry in self.keys if entry.is_drift]

    @property
    def explained_drifts(self) -> list[Drift]:
        """The keys that a seed, an import, a fork, another session, a removal or a rewind explains."""
        return [entry for entry in self.keys if not entry.is_drift]


@dataclass(frozen=True, slots=True)
class _ValueTexts:
    """A value without and with credentials; both None: no value."""

    public: str | None = None
    whole: str | None = None


_NOTHING = _ValueTexts()

_OWN_WRITES = """
SELECT last.id,
    (SELECT id FROM (SELECT id, position, session_id, seq FROM sessions_app_statechange
                     WHERE scope = last.scope AND owner_id = last.owner_id AND key_id = last.key_id
                     ORDER BY position DESC, id DESC LIMIT %s) AS recent
     WHERE session_id = %s AND seq > 0 ORDER BY position DESC, id DESC LIMIT 1),
    (SELECT count(*) FROM (SELECT 1 FROM sessions_app_statechange
                           WHERE scope = last.scope AND owner_id = last.owner_id AND key_id = last.key_id
                           LIMIT %s) AS counted)
FROM sessions_app_statechange AS last WHERE last.id IN ({places})
"""
"""For the last writes of keys: this session's last write by an event among the newest, and the number of writes."""

_ANYWHERE = 2**62
"""A position above all others."""


def find_drift(session: AgentSession, *, from_events: bool = False, most: int = 0) -> DriftReport:
    """Compare the stored state with the sum of the session's events, in every scope.

    Args:
        session: the session.
        from_events: fold the events' own deltas instead of reading the ledger; a ledger that differs is reported as
            foreign. Takes time in proportion to the session's length.
        most: stop checking a scope once so many keys have drifted; 0: check all.
    """
    folded = fold_events(session) if from_events else None
    owners = history.owners_at(session)
    keys: list[Drift] = []
    unread = 0
    for scope in (Scope.SESSION, Scope.USER, Scope.APP):
        if scope not in owners.ids:
            continue
        suspects = _find_suspects(session, scope, owners.ids[scope], every=from_events)
        drifted, checked = _check_suspects(session, scope, suspects, folded, most)
        keys += drifted
        unread += len(suspects) - checked
    untracked = UntrackedKey.objects.filter(session=session).order_by("-pk")
    newest = list(untracked[:MAX_UNTRACKED])
    count = len(newest) if len(newest) < MAX_UNTRACKED else untracked.count()
    return DriftReport(keys, newest, count, unread)


def fold_events(session: AgentSession) -> dict[str, Any]:
    """Return the sum of the deltas of a session's events: values by prefixed key. Reads every event, in pages."""
    folded: dict[str, Any] = {}
    seq = 0
    events = Event.objects.filter(session=session).order_by("seq").values_list("seq", "data", "private")
    while page := list(events.filter(seq__gt=seq)[:PAGE]):
        for _, data, private in page:
            folded.update((json.loads(private or data).get("actions") or {}).get("stateDelta") or {})
        seq = page[-1][0]
    return folded


@dataclass(frozen=True, slots=True, order=True)
class _Suspect:
    """A key that may have drifted: the primary keys of its last ledger row and its state row, if any."""

    is_explained: bool
    key_id: str
    change_pk: int | None
    row_pk: int | None


_LAST_AND_STORED = f"""
SELECT CASE WHEN {{is_explained}} THEN 1 ELSE 0 END, keys.key_id, last.id, stored.id
FROM keys
JOIN sessions_app_statechange AS last ON last.id = {history.last_write_sql("anywhere")}
LEFT JOIN {{table}} AS stored ON stored.owner_id = %(owner)s AND stored.key_id = keys.key_id
WHERE keys.key_id IS NOT NULL {{besides}}
"""  # noqa: S608 - pieces of our own
"""Keys with their last ledger row and their stored row, and whether the ledger explains the stored value."""

_IS_EXPLAINED = """(
    last.removed <> %(no)s AND stored.id IS NULL
    OR last.removed = %(no)s AND COALESCE(last.private, last.value) = COALESCE(stored.private, stored.value)
    AND last.value = stored.value
)"""
"""Condition that the ledger explains the stored value."""

_IS_OWN = f"""
    AND NOT (last.removed = %(no)s AND COALESCE(last.session_id, 0) = %(session)s AND last.seq > 0
        AND CASE WHEN {_IS_EXPLAINED} THEN 1 ELSE 0 END = 1)
"""
"""Excludes keys whose last write is the session's own and equals the stored value."""

_UNRECORDED = """
SELECT 0, stored.key_id, NULL, stored.id FROM {table} AS stored
WHERE stored.owner_id = %(owner)s AND (
    SELECT written.key_id FROM sessions_app_statechange AS written
    WHERE written.scope = %(scope)s AND written.owner_id = %(owner)s AND written.key_id = stored.key_id
    ORDER BY written.position LIMIT 1) IS NULL
"""
"""Stored keys without a ledger row."""


def _find_suspects(session: AgentSession, scope: Scope, owner_id: int, *, every: bool) -> list[_Suspect]:
    """Return the keys that may have drifted, first those that the ledger does not explain. `every`: return all keys."""
    table = STATE_ROWS[scope]._meta.db_table
    statement = points.written_keys_sql(scope, owner_id) + _LAST_AND_STORED.format(
        is_explained=_IS_EXPLAINED, table=table, besides="" if every else _IS_OWN
    )
    params: dict[str, str | int] = {
        "scope": str(scope),
        "owner": owner_id,
        "session": session.pk,
        "anywhere": _ANYWHERE,
        "no": False,
    }
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        rows = cursor.fetchall()
        cursor.execute(_UNRECORDED.format(table=table), params)
        rows += cursor.fetchall()
    suspects = [_Suspect(bool(row[0]), *row[1:]) for row in rows]
    return sorted(suspects, key=lambda suspect: (suspect.is_explained, suspect.key_id))


def _check_suspects(
    session: AgentSession,
    scope: Scope,
    suspects: Sequence[_Suspect],
    folded: Mapping[str, Any] | None,
    most: int,
) -> tuple[list[Drift], int]:
    """Return the keys that have drifted, sorted, and the number of keys checked."""
    drifted: list[Drift] = []
    checked = 0
    for start in range(0, len(suspects), PAGE):
        batch = suspects[start : start + PAGE]
        if most and len(drifted) >= most and batch[0].is_explained:
            break
        checked += len(batch)
        last = _ledger_rows([suspect.change_pk for suspect in batch if suspect.change_pk])
        session_writes = _own_writes(session, last)
        rows = [suspect.row_pk for suspect in batch if suspect.row_pk]
        stored: Mapping[int, StateRow] = STATE_ROWS[scope]._default_manager.in_bulk(rows)
        for suspect in batch:
            write, row = last.get(suspect.change_pk or 0), stored.get(suspect.row_pk or 0)
            mine, is_known = session_writes[write.pk] if write else (None, True)
            key = write.key if write else row.key if row else suspect.key_id
            ledger = _NOTHING if write is None or write.removed else _value_texts(write)
            now, expected = _value_texts(row) if row else _NOTHING, _event_value(mine)
            disagrees = False
            if folded is not None:
                name = scopes.PREFIX[scope] + key
                exact = _canonical_texts(folded[name], key) if name in folded else _NOTHING
                disagrees = is_known and exact != expected
                expected, is_known = exact, True
            is_foreign = ledger != now or disagrees
            if is_foreign or not is_known or expected != now:
                why = DriftCause.FOREIGN if is_foreign else _find_cause(session, write)
                drifted.append(Drift(scope, key, now.public, expected.public, is_known, why, write))
    return sorted(drifted, key=lambda entry: entry.key), checked


def _own_writes(
    session: AgentSession, last: Mapping[int, StateChange]
) -> dict[int, tuple[StateChange | None, bool]]:
    """Return this session's last write by an event, and whether it is known, by the last write of each key."""
    session_writes = {pk: row for pk, row in last.items() if row.session_id == session.pk and row.seq}
    other_pks = [pk for pk in last if pk not in session_writes]
    rows: list[tuple[int, int | None, int]] = []
    with connection.cursor() as cursor:
        for batch in (other_pks[start : start + PAGE] for start in range(0, len(other_pks), PAGE)):
            placeholders = ", ".join(["%s"] * len(batch))
            cursor.execute(
                _OWN_WRITES.format(places=placeholders),
                [WRITES_SEARCHED, session.pk, WRITES_SEARCHED, *batch],
            )
            rows += cursor.fetchall()
    earlier = _ledger_rows([mine for _, mine, _ in rows if mine])
    searched = {
        pk: (earlier.get(mine or 0), mine is not None or count < WRITES_SEARCHED) for pk, mine, count in rows
    }
    return {**{pk: (row, True) for pk, row in session_writes.items()}, **searched}


def _ledger_rows(pks: Sequence[int]) -> dict[int, StateChange]:
    return StateChange.objects.select_related("session").in_bulk(pks) if pks else {}


def _value_texts(row: StateRow | StateChange) -> _ValueTexts:
    return _ValueTexts(row.value, row.private or row.value)


def _event_value(write: StateChange | None) -> _ValueTexts:
    """Return the value that the session's last event for a key gives; null for a removal."""
    if write is None:
        return _NOTHING
    return _ValueTexts("null", "null") if write.removed else _value_texts(write)


def _find_cause(session: AgentSession, last: StateChange | None) -> DriftCause:
    if last is None:
        return DriftCause.FOREIGN
    is_own = last.session_id == session.pk
    if is_own and last.removed and last.seq:
        return DriftCause.REWIND if last.cause == ChangeCause.REWIND else DriftCause.REMOVED
    if last.cause == ChangeCause.FORK:
        return DriftCause.FORK
    if last.cause == ChangeCause.IMPORT and not last.seq:
        return DriftCause.IMPORT
    return DriftCause.SEED if is_own else DriftCause.OTHER_SESSION


def _canonical_texts(value: Any, key: str) -> _ValueTexts:
    text = scopes.canonicalize(value, key)
    return _ValueTexts(text.public, text.private or text.public)
