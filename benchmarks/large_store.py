"""A store of many sessions with events, state, ledger and indexes, put there by SQL in bulk: 100,000 take minutes.

    DATABASE_URL=sqlite:////tmp/large.sqlite3 python -m benchmarks.large_store 100000
    DATABASE_URL=postgresql://postgres@127.0.0.1:5432/large python -m benchmarks.large_store 100000

Both hold the same. Migrate the store first; on PostgreSQL the tables are copied into, by a superuser, and their indexes
made at the end.

Per session 20 events and some 50 rows of the ledger. Some keys, tools and words are everywhere, some rare, and some
only in the oldest sessions, which is the worst case of a list that shows the newest first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

from django.core.management.color import no_style
from django.db import connection, transaction

from benchmarks.stores import ON_POSTGRES
from sessions_app.store.database import json_sql, tokens
from sessions_app.store.index import event_index
from sessions_app.store.models import AgentSession, EventWords, SessionWords, UserScope

EVENTS = 20
"""Events per session."""

USERS, APPS = 1_000, 5
BATCH = 2_000
KEYS, WRITES = 8, 6
"""Keys of each session that are written repeatedly, and the number of writes."""

TURNS = (("user", "user"), ("planner", "tool_call"), ("planner", "tool_result"), ("planner", "agent"))


class Rows(NamedTuple):
    """Destination of bulk rows: a table and its columns."""

    table: str
    columns: str


SESSION = Rows(
    "sessions_app_agentsession",
    "id, realm, app_name, user_id, session_id, created_at, updated_at, revision, last_seq, origin, title,"
    " first_text, last_text, error_count, total_tokens, lineage, indexed_seq",
)
EVENT = Rows(
    "sessions_app_event",
    "session_id, seq, event_id, invocation_id, author, kind, timestamp, branch, app_version, user_version,"
    " is_final, total_tokens, summary, data",
)
STATE = Rows("sessions_app_sessionstate", "owner_id, key, key_id, value, note, position")
CHANGE = Rows(
    "sessions_app_statechange",
    "scope, owner_id, key, key_id, position, value, note, removed, cause, timestamp, session_id, from_user,"
    " from_session, seq, event_id, invocation_id, author, writer, writer_name, call_id, inferred",
)
VALUE = Rows("sessions_app_statevalue", "scope, key_id, mark, owner_id")
TRAIT = Rows("sessions_app_sessiontrait", "session_id, name, value, seq")
BULK = (SESSION, EVENT, STATE, CHANGE, VALUE, TRAIT)
USER_SCOPE = (
    "INSERT INTO sessions_app_userscope (id, realm, app_name, user_id, version) VALUES (%s, '', %s, %s, 1)"
)
USER_STATE = """
INSERT INTO sessions_app_userstate (owner_id, key, key_id, value, note, position) VALUES (%s, %s, %s, %s, '', 1)
"""
USER_CHANGE = """
INSERT INTO sessions_app_statechange (scope, owner_id, key, key_id, position, value, note, removed, cause, timestamp,
    from_user, from_session, seq, event_id, invocation_id, author, writer, writer_name, call_id, inferred)
VALUES ('user', %s, 'tier', 'tier', 1, %s, '', false, 'append', 0, %s, '', 0, '', '', '', '', '', '', true)
"""


def fill(sessions: int) -> None:
    """Fill an empty store with that many sessions, oldest first, and the state of each with a user's tier."""
    now = time.time()
    _fill_users()
    with _without_indexes() if ON_POSTGRES else nullcontext():
        for start in range(1, sessions + 1, BATCH):
            for number in range(start, min(start + BATCH, sessions + 1)):
                _session(number, sessions, now - (sessions - number) * 10.0)
            _flush()
    if ON_POSTGRES:
        _advance_sequences()
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE" if ON_POSTGRES else "ANALYZE")


_waiting: dict[Rows, list[tuple[object, ...]]] = {}
_words: list[event_index.EventEntry] = []
_seen: dict[int, set[str]] = {}


def _add(rows: Rows, *values: object) -> None:
    _waiting.setdefault(rows, []).append(values)


def _flush() -> None:
    """Write the collected rows, sessions first."""
    with transaction.atomic(), connection.cursor() as cursor:
        if ON_POSTGRES:
            cursor.execute("SET LOCAL session_replication_role = replica")  # no look-up of foreign keys
        for rows in BULK:
            _insert(cursor, rows, _waiting.pop(rows, []))
        if ON_POSTGRES:
            _copy(cursor, Rows(EventWords._meta.db_table, "id, words"), [_vector(each) for each in _words])
            sets = [
                (place, tokens.tsvector_without_positions(words))
                for place, words in event_index.session_words(_words)
            ]
            _copy(cursor, Rows(SessionWords._meta.db_table, "id, words"), sets)
        else:
            event_index.write_entries(_words)
    _words.clear()
    _seen.clear()


def _insert(cursor: Any, rows: Rows, values: Sequence[tuple[object, ...]]) -> None:
    if ON_POSTGRES:
        _copy(cursor, rows, values)
        return
    places = ", ".join(["%s"] * len(rows.columns.split(",")))
    cursor.executemany(f"INSERT INTO {rows.table} ({rows.columns}) VALUES ({places})", values)


def _copy(cursor: Any, rows: Rows, values: Sequence[tuple[object, ...]]) -> None:
    with cursor.copy(f"COPY {rows.table} ({rows.columns}) FROM STDIN") as copy:
        for row in values:
            copy.write_row(row)


def _vector(entry: event_index.EventEntry) -> tuple[int, str]:
    return entry.key, tokens.tsvector([*entry.words, *entry.names], entry.fresh)


@contextmanager
def _without_indexes() -> Iterator[None]:
    """Drop the indexes without a constraint, and create them again at the end, which is far faster."""
    tables = [EventWords._meta.db_table, SessionWords._meta.db_table, *(rows.table for rows in BULK)]
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = ANY(%s)"
            " AND indexname NOT IN (SELECT conname FROM pg_constraint)",
            [tables],
        )
        indexes = cursor.fetchall()
        for name, _ in indexes:
            cursor.execute(f'DROP INDEX "{name}"')
        yield
        for _, definition in indexes:
            cursor.execute(definition)


def _fill_users() -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        owners = [
            (app * USERS + user + 1, f"app{app}", f"user{user}")
            for app in range(APPS)
            for user in range(USERS)
        ]
        cursor.executemany(USER_SCOPE, owners)
        tiers = [(pk, "tier", "tier", '"gold"' if pk % 50 == 0 else '"basic"') for pk, _, _ in owners]
        cursor.executemany(USER_STATE, tiers)
        cursor.executemany(USER_CHANGE, [(pk, value, f"user{(pk - 1) % USERS}") for pk, _, _, value in tiers])
        cursor.executemany(
            "INSERT INTO sessions_app_statevalue (scope, key_id, mark, owner_id) VALUES ('user', 'tier', %s, %s)",
            [(mark, pk) for pk, _, _, value in tiers for mark in (json_sql.ANY, json_sql.mark(value))],
        )


def _session(number: int, sessions: int, moment: float) -> None:
    app, user = f"app{number % APPS}", f"user{number // APPS % USERS}"
    failed = number % 50 == 0
    first, last = f"How is the weather in town {number}?", f"It is sunny in town {number}, 24 degrees."
    _add(
        SESSION,
        *(number, "", app, user, f"s{number}", moment - 60, moment, EVENTS, EVENTS, "live", "", first, last),
        *(int(failed), 60 * EVENTS, "", EVENTS),
    )
    for seq in range(1, EVENTS + 1):
        _event(number, seq, moment, first if seq == 1 else last, _odd_word(number, sessions))
    for name, value in _traits(number, sessions, failed=failed):
        _add(TRAIT, number, name, value, EVENTS)
    for key, values in _state(number, sessions):
        _add(STATE, number, key, key, values[-1], "", EVENTS)
        for place, value in enumerate(values, 1):
            position = min(place * EVENTS // len(values), EVENTS)
            _add(
                CHANGE,
                *("session", number, key, key, position, value, "", False, "append", moment, number, user),
                *(f"s{number}", position, "e", "i", "agent", "tool", "look", "", True),
            )
        for mark in dict.fromkeys([json_sql.ANY, *map(json_sql.mark, values)]):
            _add(VALUE, "session", key, mark, number)


def _event(number: int, seq: int, moment: float, text: str, odd: str) -> None:
    author, kind = TURNS[seq % len(TURNS) - 1]
    content = f"{text} {odd}" if seq == EVENTS // 2 else text
    summary, data = f'{{"text":"{content}"}}', f'{{"content":{{"parts":[{{"text":"{content}"}}]}}}}'
    event_id, invocation = f"e{number}-{seq}", f"i{number}-{(seq - 1) // len(TURNS)}"
    _add(
        EVENT,
        *(number, seq, event_id, invocation, author, kind, moment - EVENTS + seq, "", 0, 0, seq % 4 == 0, 60),
        *(summary, data),
    )
    words = content.lower().replace("?", "").replace(",", "").replace(".", "").split()
    ids = {"event": event_id, "invocation": invocation}
    _words.append(event_index.make_entry(number, seq, words, ids, _seen.setdefault(number, set())))


def _odd_word(number: int, sessions: int) -> str:
    """Return a word that few sessions contain, or only the oldest half."""
    if number % 1_000 == 0:
        return "thunderstorm"
    return "antique" if number <= sessions // 2 else "modern"


def _traits(number: int, sessions: int, *, failed: bool) -> Iterator[tuple[str, str]]:
    for kind in ("user", "tool_call", "tool_result", "agent", *(["error"] if failed else [])):
        yield "kind", kind
    for author in ("user", "planner"):
        yield "author", author
    yield (
        "tool",
        "rare_tool" if number % 1_000 == 0 else "old_tool" if number <= sessions // 2 else "get_weather",
    )
    if failed:
        yield "error", f"QUOTA exhausted for town {number}"


def _state(number: int, sessions: int) -> Iterator[tuple[str, list[str]]]:
    """Yield keys and values of a session in write order."""
    for key in range(KEYS):
        yield f"key{key}", [str(number % 100 + turn) for turn in range(WRITES)]
    yield "retries", [str(value) for value in range(min(6, number % 7) + 1)]
    if number % 500 == 0:
        yield "order_id", [str(number)]
    if number != sessions // 3:
        yield "nearly_everywhere", ["true"]
    if number <= sessions // 2:
        yield "old_key", ['"antique"']


def _advance_sequences() -> None:
    """Advance PostgreSQL's sequences beyond the keys assigned here."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [AgentSession, UserScope]):
            cursor.execute(statement)


if __name__ == "__main__":
    fill(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
