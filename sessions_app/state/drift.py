"""Drift: where nothing explains a stored value, key by key; and what explains those that the events do not give.

A session's own events are not all that sets its state: seeds, imports and forks bring values, other sessions write
shared keys, and a removal's event says null. That is ordinary, and told as what it is. Drift is what none of that
explains: a row that something else than DevUI changed, or a value that an import found other than its events say.

The sum of the events is read off the ledger: the last write of each key by an event of this session, a few seeks a
key. Only keys that may have drifted are read: the database passes over those whose stored value is what the session's
own event wrote last. `from_events=True` folds the events themselves instead, page by page; that takes as long as the
session is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db import connection, models

from sessions_app import scopes
from sessions_app.models import (
    STATE_ROWS,
    AgentSession,
    ChangeCause,
    Event,
    Scope,
    StateChange,
    StateRow,
    UntrackedKey,
)
from sessions_app.state import diff, history

WRITES_SEARCHED = 500
"""Writes of a key that are searched for the last one by this session; busier shared keys say "not known"."""

PAGE = 500
MOST_UNTRACKED = 200


class DriftCause(models.TextChoices):
    """What a stored value comes from that is not what the session's events add up to."""

    SEED = "seed", "initial state"
    OTHER_SESSION = "other_session", "written by another session"
    IMPORT = "import", "came with an import"
    FORK = "fork", "taken over by a fork"
    REMOVED = "removed", "removed by hand"
    REWIND = "rewind", "taken back by a rewind"
    FOREIGN = "foreign", "changed by something else than DevUI"


@dataclass(frozen=True, slots=True)
class Drift:
    """A key whose stored value is not what the session's events add up to.

    Attributes:
        stored, folded: JSON with credentials left out; None: no value.
        is_known: `folded` is; else the session's last write lies too far back.
        change: the ledger's last write of the key, by whomever; None when the ledger has none.
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
        """Tell whether nothing explains the value: no event, seed or fork, no other session, no removal.

        An import explains what no event of the session wrote, as a seed does. Where it found another value than the
        events say, the source had drifted.
        """
        return self.why == DriftCause.FOREIGN or (self.why == DriftCause.IMPORT and self.folded is not None)


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Keys whose value the session's events do not give, in the order session, user, app; untracked ones newest first.

    Attributes:
        keys: all of them, explained or not.
        unread: keys of which some may belong to them and were not looked at; none of them is foreign.
    """

    keys: list[Drift]
    untracked: list[UntrackedKey]
    unread: int = 0

    @property
    def drifted(self) -> list[Drift]:
        """The keys that nothing explains."""
        return [entry for entry in self.keys if entry.is_drift]

    @property
    def explained(self) -> list[Drift]:
        """The keys that a seed, an import, a fork, another session, a removal or a rewind explains."""
        return [entry for entry in self.keys if not entry.is_drift]


@dataclass(frozen=True, slots=True)
class _ValueTexts:
    """A value twice: as it is shown and whole. No value has neither."""

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
"""For the last writes of keys: this session's last one by an event among the `REACH` newest, and how many there are."""

_ANYWHERE = 2**62
"""Above every position."""


def find_drift(session: AgentSession, *, from_events: bool = False, most: int = 0) -> DriftReport:
    """Compare the stored state with what the session's events add up to, in every scope.

    Args:
        session: whose state it is.
        from_events: fold the events' own deltas instead of asking the ledger; what the ledger tells otherwise is
            foreign. Takes as long as the session is.
        most: in each scope no further key is looked at once so many have drifted; 0: all are.
    """
    folded = fold_events(session) if from_events else None
    owners = history.owners_at(session)
    keys: list[Drift] = []
    unread = 0
    for scope in (Scope.SESSION, Scope.USER, Scope.APP):
        if scope not in owners.ids:
            continue
        for limit in (most + PAGE, _ANYWHERE) if most else (_ANYWHERE,):
            suspects, total = _find_suspects(
                session, scope, owners.ids[scope], every=from_events, limit=limit
            )
            found, looked_at = _check_suspects(session, scope, suspects, folded, most)
            if len(found) >= most or looked_at == total:
                break
        keys += found
        unread += total - looked_at
    noticed = UntrackedKey.objects.filter(session=session).order_by("-pk")
    return DriftReport(keys, list(noticed[:MOST_UNTRACKED]), unread)


def fold_events(session: AgentSession) -> dict[str, Any]:
    """Return what the deltas of a session's events add up to: prefixed keys and values. Reads every event, in pages."""
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
    """A key that may have drifted: its last row of the ledger and its row of the state, None where there is none."""

    is_explained: bool
    key_id: str
    change_pk: int | None
    row_pk: int | None


_LAST_AND_STORED = f"""
, suspects(is_explained, key_id, change_id, row_id) AS (
    SELECT CASE WHEN {{is_explained}} THEN 1 ELSE 0 END, keys.key_id, last.id, stored.id
    FROM keys
    JOIN sessions_app_statechange AS last ON last.id = {history.last_write_sql("anywhere")}
    LEFT JOIN {{table}} AS stored ON stored.owner_id = %(owner)s AND stored.key_id = keys.key_id
    WHERE keys.key_id IS NOT NULL {{besides}}
)
SELECT * FROM suspects WHERE is_explained = 0
UNION ALL SELECT * FROM (SELECT * FROM suspects WHERE is_explained = 1 ORDER BY key_id LIMIT %(limit)s) AS first
UNION ALL SELECT {{total}}, NULL, NULL, count(*) FROM suspects WHERE is_explained = 1
"""  # noqa: S608 - pieces of our own
"""Of the keys that the ledger explains the first, and in the last row how many there are."""

_TOTAL = 2
"""Stands in the row that counts."""

_IS_EXPLAINED = """(
    last.removed <> %(no)s AND stored.id IS NULL
    OR last.removed = %(no)s AND COALESCE(last.private, last.value) = COALESCE(stored.private, stored.value)
    AND last.value = stored.value
)"""
"""The ledger tells how the stored value came about."""

_IS_OWN = f"""
    AND NOT (last.removed = %(no)s AND COALESCE(last.session_id, 0) = %(session)s AND last.seq > 0
        AND CASE WHEN {_IS_EXPLAINED} THEN 1 ELSE 0 END = 1)
"""
"""Leaves out what the session's own event wrote last and what is stored as it wrote it."""

_UNRECORDED = """
SELECT 0, stored.key_id, NULL, stored.id FROM {table} AS stored
WHERE stored.owner_id = %(owner)s AND (
    SELECT written.key_id FROM sessions_app_statechange AS written
    WHERE written.scope = %(scope)s AND written.owner_id = %(owner)s AND written.key_id = stored.key_id
    ORDER BY written.position LIMIT 1) IS NULL
"""
"""Stored keys that the ledger has never heard of."""


def _find_suspects(
    session: AgentSession, scope: Scope, owner_id: int, *, every: bool, limit: int = _ANYWHERE
) -> tuple[list[_Suspect], int]:
    """Return the keys that may have drifted, those first that the ledger does not explain, and how many there are.

    Args:
        session: whose state it is.
        scope: whose keys.
        owner_id: the owner of the scope.
        every: return all keys.
        limit: how many are returned of those that the ledger explains.
    """
    table = STATE_ROWS[scope]._meta.db_table
    told = diff.written_keys_sql(scope, owner_id) + _LAST_AND_STORED.format(
        is_explained=_IS_EXPLAINED, table=table, besides="" if every else _IS_OWN, total=_TOTAL
    )
    given: dict[str, str | int] = {
        "scope": str(scope),
        "owner": owner_id,
        "session": session.pk,
        "anywhere": _ANYWHERE,
        "no": False,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(told, given)
        *rows, (_, _, _, explained) = cursor.fetchall()
        cursor.execute(_UNRECORDED.format(table=table), given)
        rows += cursor.fetchall()
    found = [_Suspect(bool(row[0]), *row[1:]) for row in rows]
    total = explained + sum(not suspect.is_explained for suspect in found)
    return sorted(found, key=lambda suspect: (suspect.is_explained, suspect.key_id)), total


def _check_suspects(
    session: AgentSession,
    scope: Scope,
    suspects: Sequence[_Suspect],
    folded: Mapping[str, Any] | None,
    most: int,
) -> tuple[list[Drift], int]:
    """Return which of some keys have drifted, sorted, and how many were looked at."""
    drifted: list[Drift] = []
    looked_at = 0
    for start in range(0, len(suspects), PAGE):
        batch = suspects[start : start + PAGE]
        if most and len(drifted) >= most and batch[0].is_explained:
            break
        looked_at += len(batch)
        last = _ledger_rows([suspect.change_pk for suspect in batch if suspect.change_pk])
        own = _own_writes(session, last)
        rows = [suspect.row_pk for suspect in batch if suspect.row_pk]
        stored: Mapping[int, StateRow] = STATE_ROWS[scope]._default_manager.in_bulk(rows)
        for suspect in batch:
            write, row = last.get(suspect.change_pk or 0), stored.get(suspect.row_pk or 0)
            mine, is_known = own[write.pk] if write else (None, True)
            key = write.key if write else row.key if row else suspect.key_id
            found = _compare(scope, key, _KeyFacts(session, row, write, mine, is_known), folded)
            drifted += [found] if found else []
    return sorted(drifted, key=lambda entry: entry.key), looked_at


def _own_writes(
    session: AgentSession, last: Mapping[int, StateChange]
) -> dict[int, tuple[StateChange | None, bool]]:
    """Return, by the last write of each key, this session's last write by an event and whether that is known."""
    own = {pk: row for pk, row in last.items() if row.session_id == session.pk and row.seq}
    others = [pk for pk in last if pk not in own]
    found: list[tuple[int, int | None, int]] = []
    with connection.cursor() as cursor:
        for batch in (others[start : start + PAGE] for start in range(0, len(others), PAGE)):
            places = ", ".join(["%s"] * len(batch))
            cursor.execute(
                _OWN_WRITES.format(places=places), [WRITES_SEARCHED, session.pk, WRITES_SEARCHED, *batch]
            )
            found += cursor.fetchall()
    earlier = _ledger_rows([mine for _, mine, _ in found if mine])
    searched = {
        pk: (earlier.get(mine or 0), mine is not None or count < WRITES_SEARCHED) for pk, mine, count in found
    }
    return {**{pk: (row, True) for pk, row in own.items()}, **searched}


def _ledger_rows(pks: Sequence[int]) -> dict[int, StateChange]:
    return StateChange.objects.select_related("session").in_bulk(pks) if pks else {}


@dataclass(frozen=True, slots=True)
class _KeyFacts:
    """What is known of a key: its row, the last write, and the session's own last write by an event."""

    session: AgentSession
    row: StateRow | None
    last: StateChange | None
    own: StateChange | None
    is_known: bool


def _compare(scope: Scope, key: str, seen: _KeyFacts, folded: Mapping[str, Any] | None) -> Drift | None:
    row, last, is_known = seen.row, seen.last, seen.is_known
    now = _ValueTexts(row.value, row.private or row.value) if row else _NOTHING
    says = _event_value(seen.own)
    disagrees = False
    if folded is not None:
        name = scopes.PREFIX[scope] + key
        exact = _canonical_texts(folded[name], key) if name in folded else _NOTHING
        disagrees = is_known and exact != says
        says, is_known = exact, True
    ledger = _NOTHING if last is None or last.removed else _ValueTexts(last.value, last.private or last.value)
    if ledger != now or disagrees:
        why = DriftCause.FOREIGN
    elif is_known and says == now:
        return None
    else:
        why = _cause_of(seen.session, last)
    return Drift(scope, key, now.public, says.public, is_known, why, last)


def _event_value(own: StateChange | None) -> _ValueTexts:
    """Return what the session's last event for a key says; a removal says null, as ADK's deltas cannot remove."""
    if own is None:
        return _NOTHING
    return _ValueTexts("null", "null") if own.removed else _ValueTexts(own.value, own.private or own.value)


def _cause_of(session: AgentSession, last: StateChange | None) -> DriftCause:
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
