"""A store of many sessions with events, state, ledger and indexes, put there by SQL in bulk: 100,000 take minutes.

    DATABASE_URL=sqlite:////tmp/large.sqlite3 python -m benchmarks.large_store 100000

Per session 20 events and some 50 rows of the ledger. Some keys, tools and words are everywhere, some rare, and some
only in the oldest sessions, which is the worst case of a list that shows the newest first.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from django.core.management.color import no_style
from django.db import connection, transaction

from benchmarks.stores import ON_POSTGRES
from sessions_app import event_index, jsonsql
from sessions_app.models import AgentSession, UserScope

EVENTS = 20
"""Of each session."""

USERS, APPS = 1_000, 5
BATCH = 2_000
KEYS, WRITES = 8, 6
"""Keys of each session that are written again and again, and how often."""

TURNS = (("user", "user"), ("planner", "tool_call"), ("planner", "tool_result"), ("planner", "agent"))

SESSION = """
INSERT INTO sessions_app_agentsession (id, realm, app_name, user_id, session_id, created_at, updated_at, revision,
    last_seq, origin, title, first_text, last_text, error_count, total_tokens, lineage, indexed_seq)
VALUES (%s, '', %s, %s, %s, %s, %s, %s, %s, 'live', '', %s, %s, %s, %s, '', %s)
"""
EVENT = """
INSERT INTO sessions_app_event (session_id, seq, event_id, invocation_id, author, kind, timestamp, branch,
    app_version, user_version, is_final, total_tokens, summary, data)
VALUES (%s, %s, %s, %s, %s, %s, %s, '', 0, 0, %s, 60, %s, %s)
"""
STATE = """
INSERT INTO sessions_app_sessionstate (owner_id, key, key_id, value, note, position) VALUES (%s, %s, %s, %s, '', %s)
"""
CHANGE = """
INSERT INTO sessions_app_statechange (scope, owner_id, key, key_id, position, value, note, removed, cause, timestamp,
    session_id, from_user, from_session, seq, event_id, invocation_id, author, writer, writer_name, call_id, inferred)
VALUES ('session', %s, %s, %s, %s, %s, '', %s, 'append', %s, %s, %s, %s, %s, 'e', 'i', 'agent', 'tool', 'look', '', %s)
"""
VALUE = """
INSERT INTO sessions_app_statevalue (scope, key_id, mark, owner_id) VALUES ('session', %s, %s, %s)
ON CONFLICT DO NOTHING
"""
TRAIT = "INSERT INTO sessions_app_sessiontrait (session_id, name, value, seq) VALUES (%s, %s, %s, %s)"
USER_SCOPE = (
    "INSERT INTO sessions_app_userscope (id, realm, app_name, user_id, version) VALUES (%s, '', %s, %s, 1)"
)
USER_STATE = """
INSERT INTO sessions_app_userstate (owner_id, key, key_id, value, note, position) VALUES (%s, %s, %s, %s, '', 1)
"""


def fill(sessions: int) -> None:
    """Put so many sessions into an empty store, the last one the newest; and a user's tier into the state of each."""
    now = time.time()
    _fill_users()
    for start in range(1, sessions + 1, BATCH):
        numbers = range(start, min(start + BATCH, sessions + 1))
        with transaction.atomic(), connection.cursor() as cursor:
            for number in numbers:
                moment = now - (sessions - number) * 10.0
                _session(number, sessions, moment)
            for statement, rows in _waiting.items():
                cursor.executemany(statement, rows)
            event_index.put(_words)
        _waiting.clear()
        _words.clear()
        _seen.clear()
    if ON_POSTGRES:
        _advance_sequences()
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


_waiting: dict[str, list[tuple[object, ...]]] = {}
_words: list[event_index.EventEntry] = []
_seen: dict[int, set[str]] = {}


def _add(statement: str, *values: object) -> None:
    _waiting.setdefault(statement, []).append(values)


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
        cursor.executemany(
            "INSERT INTO sessions_app_statevalue (scope, key_id, mark, owner_id) VALUES ('user', 'tier', %s, %s)",
            [(jsonsql.mark(value), pk) for pk, _, _, value in tiers],
        )


def _session(number: int, sessions: int, moment: float) -> None:
    app, user = f"app{number % APPS}", f"user{number // APPS % USERS}"
    failed = number % 50 == 0
    first, last = f"How is the weather in town {number}?", f"It is sunny in town {number}, 24 degrees."
    _add(
        SESSION,
        *(number, app, user, f"s{number}", moment - 60, moment, EVENTS, EVENTS, first, last),
        *(int(failed), 60 * EVENTS, EVENTS),
    )
    for seq in range(1, EVENTS + 1):
        _event(number, seq, moment, first if seq == 1 else last, _odd_word(number, sessions))
    for name, value in _traits(number, sessions, failed=failed):
        _add(TRAIT, number, name, value, EVENTS)
    for key, values in _state(number, sessions):
        _add(STATE, number, key, key, values[-1], EVENTS)
        for place, value in enumerate(values, 1):
            position = min(place * EVENTS // len(values), EVENTS)
            _add(
                CHANGE,
                *(number, key, key, position, value, False, moment, number, user, f"s{number}"),
                position,
                True,
            )
        for value in dict.fromkeys(values):
            _add(VALUE, key, jsonsql.mark(value), number)


def _event(number: int, seq: int, moment: float, text: str, odd: str) -> None:
    author, kind = TURNS[seq % len(TURNS) - 1]
    said = f"{text} {odd}" if seq == EVENTS // 2 else text
    summary, data = f'{{"text":"{said}"}}', f'{{"content":{{"parts":[{{"text":"{said}"}}]}}}}'
    event_id, invocation = f"e{number}-{seq}", f"i{number}-{(seq - 1) // len(TURNS)}"
    _add(
        EVENT,
        number,
        seq,
        event_id,
        invocation,
        author,
        kind,
        moment - EVENTS + seq,
        seq % 4 == 0,
        summary,
        data,
    )
    words = said.lower().replace("?", "").replace(",", "").replace(".", "").split()
    ids = {"event": event_id, "invocation": invocation}
    _words.append(event_index.entry(number, seq, words, ids, _seen.setdefault(number, set())))


def _odd_word(number: int, sessions: int) -> str:
    """Return a word that few sessions hold, or that only the oldest half does."""
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
    """Yield the keys of a session with their values, in the order they were written."""
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
    """Let PostgreSQL go on behind the keys that were given here."""
    with connection.cursor() as cursor:
        for statement in connection.ops.sequence_reset_sql(no_style(), [AgentSession, UserScope]):
            cursor.execute(statement)


if __name__ == "__main__":
    fill(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
