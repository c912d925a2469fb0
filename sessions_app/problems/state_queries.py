"""Queries for the evidence of a session's state: bounded reads of the ledger, other sessions and recorder data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import (
    CharField,
    Count,
    F,
    Func,
    IntegerField,
    OuterRef,
    Q,
    Subquery,
    Sum,
    TextField,
    Value,
)
from django.db.models.functions import Coalesce, Substr

from sessions_app.agents import cards
from sessions_app.problems.evidence import TempKey
from sessions_app.problems.state_evidence import (
    FailureText,
    InstructionKey,
    Invocation,
    KeyEvidence,
    KeyWriteEvidence,
    SameValue,
    StateEvidence,
)
from sessions_app.store import scopes
from sessions_app.store.events.conditions import IS_ERROR
from sessions_app.store.models import (
    STATE_ROWS,
    AgentSession,
    Event,
    Run,
    Scope,
    SessionState,
    StateChange,
    TempWrite,
)
from sessions_app.store.state import history
from sessions_app.store.state.keys import first_keys
from sessions_app.store.state.points import PointPair

MAX_KEYS = 300
"""Maximum keys of a scope that are checked."""

WRITES_READ = 20
"""Newest writes of a key that are read."""

KEYS_A_QUERY = 250
TEXT_READ = 8_192
"""Characters of a value that are read."""

VALUE_READ = 200
SESSIONS_READ = 20
EVENTS_READ = 300
TEMP_WRITES_READ = 1_000
FAILURES_READ = 20


def read_state_evidence(session: AgentSession) -> StateEvidence:
    """Read the evidence of the current state that a session reads. The number of queries is constant."""
    keys = _read_keys(session, history.owners_at(session))
    others = _other_sessions(session)
    invocations = _read_invocations(session)
    return StateEvidence(
        session_pk=session.pk,
        user_id=session.user_id,
        keys=keys,
        same_values=_same_values(session, others, keys),
        other_sessions=sum(other.user_id == session.user_id for other in others.values()),
        temp_keys=_temp_keys(session, invocations),
        invocations=invocations,
        failures=_read_failures(session),
        instruction_keys=list(_read_instruction_keys(cards.read_description(session.app_name))),
    )


@dataclass(frozen=True, slots=True)
class StateSize:
    """Size of the current state that a session reads.

    Attributes:
        sizes: total UTF-8 bytes of the values of each scope that has keys.
        unread: number of keys beyond the limit, which no detector checks.
    """

    sizes: dict[str, int]
    unread: int


def read_state_size(session: AgentSession) -> StateSize:
    """Return the size of the state that a session reads. Three queries."""
    owners = history.owners_at(session)
    whole = [
        rows._default_manager.filter(owner=owners.ids.get(scope))
        .values(name=Value(scope.value))
        .annotate(size=Sum(_Octets("value")), number=Count("pk"))
        for scope, rows in STATE_ROWS.items()
    ]
    totals = {row["name"]: row for row in whole[0].union(*whole[1:], all=True)}
    sizes = {scope.value: totals[scope]["size"] for scope in STATE_ROWS if totals[scope]["number"]}
    return StateSize(sizes, sum(max(0, total["number"] - MAX_KEYS) for total in totals.values()))


class _Octets(Func):
    """Bytes of a text in UTF-8."""

    function = "OCTET_LENGTH"
    output_field = IntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="LENGTH(CAST(%(expressions)s AS BLOB))", **context)


def _read_keys(session: AgentSession, owners: history.Owners) -> list[KeyEvidence]:
    at = PointPair(session, owners, owners)
    last = first_keys(at, dict.fromkeys(Scope, ""), MAX_KEYS)
    pks = [key.later for scope in Scope for key in last[scope] if key.later is not None]
    rows = (
        StateChange.objects.filter(pk__in=pks)
        .annotate(text=Substr("value", 1, TEXT_READ, output_field=CharField()), size=_Octets("value"))
        .values("pk", "scope", "owner_id", "key", "key_id", "note", "text", "size")
    )
    by_pk = {row["pk"]: row for row in rows}
    current = [by_pk[pk] for pk in pks if pk in by_pk]
    writes = _recent_writes(current)
    return [
        KeyEvidence(
            row["scope"],
            row["key"],
            row["text"] or "null",
            row["size"] or 0,
            row["note"],
            writes.get((row["scope"], row["key_id"]), ()),
        )
        for row in current
    ]


def _recent_writes(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[str, str], list[KeyWriteEvidence]]:
    """Return the newest writes of keys, by scope and key id: one seek a key."""
    writes: dict[tuple[str, str], list[KeyWriteEvidence]] = {}
    for start in range(0, len(rows), KEYS_A_QUERY):
        batch = rows[start : start + KEYS_A_QUERY]
        keys = [(row["scope"], row["owner_id"], row["key_id"]) for row in batch]
        for row in history.read_newest_writes(keys, WRITES_READ, VALUE_READ):
            writes.setdefault(row[:2], []).append(KeyWriteEvidence(*row[2:]))
    return writes


def _other_sessions(session: AgentSession) -> dict[int, AgentSession]:
    """Return other recent sessions of the app: the user's own, and some of other users."""
    others_of_app = AgentSession.objects.filter(realm=session.realm, app_name=session.app_name).exclude(
        pk=session.pk
    )
    newest = others_of_app.order_by("-updated_at", "-pk").only("pk", "session_id", "user_id")
    user_sessions = newest.filter(user_id=session.user_id)[:SESSIONS_READ]
    others = newest.exclude(user_id=session.user_id)[:SESSIONS_READ]
    return {session_row.pk: session_row for session_row in [*user_sessions, *others]}


def _same_values(
    session: AgentSession, others: Mapping[int, AgentSession], keys: Sequence[KeyEvidence]
) -> list[SameValue]:
    """Return the other sessions with the same value of a key. The database compares whole values."""
    session_key_ids = [scopes.key_id(key.key) for key in keys if key.scope == Scope.SESSION]
    if not session_key_ids or not others:
        return []
    full_value = Coalesce("private", "value", output_field=TextField())
    own_value = SessionState.objects.filter(owner=session, key_id=OuterRef("key_id")).values(whole=full_value)
    rows = SessionState.objects.filter(owner__in=others, key_id__in=session_key_ids).annotate(
        whole=full_value, here=Subquery(own_value)
    )
    same = rows.filter(whole=F("here")).order_by("-owner_id").values_list("key", "owner_id")
    return [SameValue(key, pk, others[pk].session_id, others[pk].user_id) for key, pk in same]


def _read_invocations(session: AgentSession) -> list[Invocation]:
    events = Event.objects.filter(session=session, seq__gt=session.last_seq - EVENTS_READ).order_by("seq")
    first: dict[str, int] = {}
    authors: dict[str, set[str]] = {}
    for seq, invocation_id, author in events.values_list("seq", "invocation_id", "author"):
        first.setdefault(invocation_id, seq)
        authors.setdefault(invocation_id, set()).add(author)
    return [Invocation(name, seq, frozenset(authors[name])) for name, seq in first.items() if name]


def _temp_keys(session: AgentSession, invocations: Sequence[Invocation]) -> list[TempKey]:
    writes = TempWrite.objects.filter(
        session=session, invocation_id__in=[each.id for each in invocations]
    ).order_by("seq", "id")
    rows = writes.values_list("key", "seq", "invocation_id")[:TEMP_WRITES_READ]
    return [TempKey(scopes.TEMP_PREFIX + key, seq, invocation_id) for key, seq, invocation_id in rows]


def _read_failures(session: AgentSession) -> list[FailureText]:
    """Return the errors of events, and of runs that left no event."""
    events = Event.objects.filter(IS_ERROR, session=session).order_by("-seq")
    runs = Run.objects.filter(Q(session=session) & ~Q(error="")).order_by("-created_at")
    return [
        *(FailureText(*row) for row in events.values_list("seq", "invocation_id", "summary")[:FAILURES_READ]),
        *(
            FailureText(last_seq or first_seq or 0, invocation_id, error)
            for first_seq, last_seq, invocation_id, error in runs.values_list(
                "first_seq", "last_seq", "invocation_id", "error"
            )[:FAILURES_READ]
        ),
    ]


_STATE_REFERENCE = re.compile(r"\{+\s*(temp:\w+)\??\s*\}+")
"""References to state in ADK's instructions (`google/adk/utils/instructions_utils.py`)."""


def _read_instruction_keys(agent: Mapping[str, Any]) -> Iterator[InstructionKey]:
    texts = [agent.get(name) or "" for name in ("instruction", "global_instruction")]
    for name in dict.fromkeys(_STATE_REFERENCE.findall("\n".join(texts))):
        yield InstructionKey(agent.get("name") or "", name)
    for child in [*(agent.get("sub_agents") or []), *(agent.get("nodes") or [])]:
        yield from _read_instruction_keys(child)
