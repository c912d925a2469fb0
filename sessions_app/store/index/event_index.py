"""The full-text index of events, for SQLite and PostgreSQL.

The key of an entry is computed from its event's session and seq, so a key names both without reading the event,
and the entries of a session are adjacent.
"""

# ruff: noqa: S608 - what is put into statements are names of our own tables, and numbers

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models import BooleanField, Func
from django.db.models.expressions import RawSQL
from django.db.models.sql.compiler import SQLCompiler

from sessions_app.store.database import tokens
from sessions_app.store.database.full_text import SQLITE
from sessions_app.store.database.tokens import Phrase
from sessions_app.store.models import AgentSession, EventWords, SessionWords

SEQ_BITS = 26
"""Bits of a key that hold the seq: 67 million events a session, 137 thousand million sessions."""

MAX_SEQ = 2**SEQ_BITS - 1

_ID_PREFIX = "\ue000"

FIRST_PAGE, MAX_PAGE = 500, 32_000
"""Entries read at a time: doubled after each page. The rest of the session that a page ends in is skipped."""

FREQUENT = 100_000
"""Entries with a phrase above which PostgreSQL reads them newest first instead of listing them."""

SUM_BYTES = 400_000
"""Maximum bytes of words in one row of a session, unless one event alone has more. A tsvector holds 1 MB."""

EVENT_BYTES = 500_000
"""Maximum bytes of an event's words in rows of a session: when it is indexed again, a row holds them twice."""

RARE = 1_000
"""Entries with a phrase up to which PostgreSQL may list all of them for each session it searches."""

NEWEST_COMPARED = 1_000
"""Newest entries of a session, for each of several phrases, searched for one that contains them all."""


def entry_key(session_pk: int, seq: int) -> int:
    """Return the key of an event's entry."""
    key: int = session_pk * (MAX_SEQ + 1) + min(seq, MAX_SEQ)
    return key


class EventEntry(NamedTuple):
    """An event as the index stores it.

    Attributes:
        key: its key (see `entry_key`).
        words: the words of its text.
        names: the words made of its ids (see `id_word`).
        fresh: words and names that no earlier entry of this session and batch has. A search for sessions reads these
            alone, so it reads few entries a word.
    """

    key: int
    words: Sequence[str]
    names: Sequence[str]
    fresh: set[str]


def make_entry(
    session_pk: int, seq: int, words: Sequence[str], ids: Mapping[str, str], earlier_words: set[str]
) -> EventEntry:
    """Return the entry of an event.

    Args:
        session_pk: its session.
        seq: its seq in the session.
        words: the words of its text.
        ids: its ids, by the name of the query term, such as `invocation`.
        earlier_words: the words of earlier entries of this session and batch; its own are added.
    """
    names = [id_word(field, text) for field, text in ids.items() if text]
    fresh = {*words, *names} - earlier_words
    earlier_words |= fresh
    return EventEntry(entry_key(session_pk, seq), words, names, fresh)


def id_word(field: str, text: str) -> str:
    """Return the word that stands for an id in the index. No word of a text contains its first character."""
    return f"{_ID_PREFIX}{sha256(json.dumps([field, text]).encode()).hexdigest()[:16]}"


def id_phrase(field: str, text: str) -> Phrase:
    """Return the phrase that matches the events with an id."""
    return Phrase((id_word(field, text),))


def session_words(entries: Iterable[EventEntry]) -> Iterator[tuple[int, set[str]]]:
    """Yield rows (key of the first event, words) that each combine the words of many events of one session."""
    first, words, size = -1, set[str](), 0
    for entry in entries:
        fresh, fresh_size = _bounded_words(entry.fresh.difference(entry.names))
        if first >> SEQ_BITS != entry.key >> SEQ_BITS or size + fresh_size > SUM_BYTES:
            if words:
                yield first, words
            first, words, size = entry.key, set(), 0
        words |= fresh
        size += fresh_size
    if words:
        yield first, words


def _bounded_words(words: Iterable[str]) -> tuple[set[str], int]:
    """Return as many of an event's words as a row of its session may hold, and their bytes."""
    bounded, size = set[str](), 0
    for word in words:
        if size + len(word.encode()) <= EVENT_BYTES:
            bounded.add(word)
            size += len(word.encode())
    return bounded, size


def write_entries(entries: Sequence[EventEntry]) -> None:
    """Write the entries of events, replacing existing ones."""
    with connection.cursor() as cursor:
        if connection.vendor == SQLITE:
            cursor.executemany(
                "INSERT OR REPLACE INTO event_words (rowid, owner, words) VALUES (%s, %s, %s)",
                [(entry.key, " ".join(entry.fresh), " ".join(entry.words)) for entry in entries],
            )
        else:
            cursor.executemany(
                f"INSERT INTO {_TABLE} (id, words) VALUES (%s, %s::tsvector)"
                " ON CONFLICT (id) DO UPDATE SET words = excluded.words",
                [
                    (entry.key, tokens.tsvector([*entry.names, *entry.words], entry.fresh))
                    for entry in entries
                ],
            )
            cursor.executemany(
                f"INSERT INTO {_SESSION_TABLE} (id, words) VALUES (%s, %s::tsvector)"
                # Words are added: an event that is indexed again may begin the row of many events.
                f" ON CONFLICT (id) DO UPDATE SET words = {_SESSION_TABLE}.words || excluded.words",
                [(key, tokens.tsvector_without_positions(words)) for key, words in session_words(entries)],
            )


def delete_entries(session_pk: int, limit: int) -> int:
    """Delete at most `limit` entries of a session; return how many were deleted."""
    table, key, _ = _sql_names()
    tables = [table] if connection.vendor == SQLITE else [table, _SESSION_TABLE]
    removed = 0
    with connection.cursor() as cursor:
        for index_table in tables:
            cursor.execute(
                f"DELETE FROM {index_table} WHERE {key} IN"
                f" (SELECT {key} FROM {index_table} WHERE {key} BETWEEN %s AND %s LIMIT %s)",
                [*_key_range(session_pk), limit],
            )
            removed = max(removed, cursor.rowcount)
    return removed


def find_sessions(phrase: Phrase, limit: int) -> set[int] | None:
    """Return the sessions with an event that contains a phrase; None if there are more than about `limit` entries."""
    if connection.vendor == SQLITE or _is_frequent(phrase):
        return _read_sessions(phrase, limit if len(phrase.tokens) == 1 else limit // 3)
    table, expression = (
        (_SESSION_TABLE, _match_expression([phrase]))
        if _has_session_rows(phrase)
        else (_TABLE, _fresh_expression(phrase))
    )
    with connection.cursor() as cursor:  # in no order: PostgreSQL would walk very many entries to have one
        cursor.execute(f"SELECT id FROM {table} WHERE words @@ %s::tsquery LIMIT %s", [expression, limit + 1])
        keys = [key for (key,) in cursor.fetchall()]
    return {key >> SEQ_BITS for key in keys} if len(keys) <= limit else None


def _is_frequent(phrase: Phrase) -> bool:
    """Return whether PostgreSQL expects too many entries with a phrase to list them: it would read each."""
    if connection.vendor == SQLITE or _has_session_rows(phrase):
        return False
    return _estimate_entries([phrase])[0] > FREQUENT


def _has_session_rows(phrase: Phrase) -> bool:
    """Return whether a phrase is a single word of a text, for which PostgreSQL has one row for many events."""
    return len(phrase.tokens) == 1 and not phrase.tokens[0].startswith(_ID_PREFIX)


def _estimate_entries(phrase: Sequence[Phrase]) -> list[int]:
    """Return PostgreSQL's estimate of the number of entries for each phrase."""
    word_query = [f"SELECT id FROM {_TABLE} WHERE words @@ %s::tsquery" for _ in phrase]
    with connection.cursor() as cursor:
        cursor.execute(
            f"EXPLAIN (FORMAT JSON) {' UNION ALL '.join(word_query)}",
            [_match_expression([word]) for word in phrase],
        )
        (answer,) = cursor.fetchone()
    plan = (json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]
    return [word_query["Plan Rows"] for word_query in (plan["Plans"] if len(phrase) > 1 else [plan])]


def _read_sessions(phrase: Phrase, limit: int) -> set[int] | None:
    """Read sessions, newest first. After a page, the other entries of its last session are skipped."""
    table, key, match = _sql_names()
    pks: set[int] = set()
    before, entries_read, size = 2**63 - 1, 0, FIRST_PAGE
    with connection.cursor() as cursor:
        while entries_read < limit:
            cursor.execute(
                f"SELECT {key} FROM {table} WHERE {match} AND {key} < %s ORDER BY {key} DESC LIMIT %s",
                [_fresh_expression(phrase), before, size],
            )
            keys = [row[0] for row in cursor.fetchall()]
            pks.update(event_key >> SEQ_BITS for event_key in keys)
            if len(keys) < size:
                return pks
            before = keys[-1] >> SEQ_BITS << SEQ_BITS
            entries_read, size = entries_read + size, min(2 * size, MAX_PAGE)
    return None


class HoldsPhrase(Func):
    """Condition that an event of a session, named by its primary key, contains a phrase."""

    output_field = BooleanField()
    conditional = True

    def __init__(self, session_pk: Any, phrase: Phrase | None = None, **extra: Any) -> None:
        """Take the column and the phrase."""
        super().__init__(session_pk, **extra)
        self.phrase = phrase

    def as_sql(
        self, compiler: SQLCompiler, connection: BaseDatabaseWrapper, *args: Any, **context: Any
    ) -> tuple[str, tuple[str | int, ...]]:
        """Return an index seek in the session's entries."""
        table, key, _ = _sql_names()
        if connection.vendor != SQLITE and self.phrase and _has_session_rows(self.phrase):
            table = _SESSION_TABLE
        match = _match_in_session(is_rare=False)
        pk, params = compiler.compile(self.source_expressions[0])
        sql = f"EXISTS (SELECT 1 FROM {table} WHERE {match} AND {key} BETWEEN ({pk} << {SEQ_BITS}) AND {_last_key(pk)})"
        expression = _match_expression([self.phrase] if self.phrase else [])
        return sql, (expression, *params, *params)


def seqs_subquery(session_pk: int, phrase: Phrase, first: int = 0, last: int = MAX_SEQ) -> RawSQL:
    """Return a subquery of the seqs from `first` to `last` of a session's events that contain a phrase."""
    table, key, match = _sql_names()
    return RawSQL(  # noqa: S611 - names of our own
        f"SELECT {key} & {MAX_SEQ} FROM {table} WHERE {match} AND {key} BETWEEN %s AND %s",
        [_match_expression([phrase]), entry_key(session_pk, first), entry_key(session_pk, last)],
    )


def newest_seqs(session_pks: Collection[int], phrase: Sequence[Phrase], *, every: bool) -> dict[int, int]:
    """Return the seq of each session's newest event that contains every phrase, or any of them. One query.

    Each phrase is searched on its own: an index that searches for two at once leaves the session until it has both.
    """
    if not session_pks or not phrase:
        return {}
    table, key, _ = _sql_names()
    in_session = f"{key} BETWEEN (s.id << {SEQ_BITS}) AND {_last_key('s.id')}"
    limit = NEWEST_COMPARED if every else 1
    pks = (" INTERSECT " if every else " UNION ").join(
        f"SELECT place FROM (SELECT {key} AS place FROM {table} WHERE {_match_in_session(is_rare=is_rare)}"
        f" AND {in_session} ORDER BY {key} DESC LIMIT {limit}) AS one"
        for is_rare in _are_rare(phrase)
    )
    placeholders = ", ".join(["%s"] * len(session_pks))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT s.id, (SELECT max(place) & {MAX_SEQ} FROM ({pks}) AS found)"
            f" FROM {_SESSIONS} s WHERE s.id IN ({placeholders})",
            [*(_match_expression([word]) for word in phrase), *session_pks],
        )
        return {pk: seq for pk, seq in cursor.fetchall() if seq is not None}


_TABLE = EventWords._meta.db_table
_SESSION_TABLE = SessionWords._meta.db_table
_SESSIONS = AgentSession._meta.db_table


def _sql_names() -> tuple[str, str, str]:
    """Return the table of entries, its key column, and the condition that an entry matches."""
    if connection.vendor == SQLITE:
        return "event_words", "rowid", "event_words MATCH %s"
    return _TABLE, "id", "words @@ %s::tsquery"


def _are_rare(phrase: Sequence[Phrase]) -> list[bool]:
    if connection.vendor == SQLITE:
        return [True] * len(phrase)
    return [entries <= RARE for entries in _estimate_entries(phrase)]


def _match_in_session(*, is_rare: bool) -> str:
    """Return the condition that an entry of one session matches.

    With the operator, PostgreSQL would list all entries of a frequent word for each session; the function form keeps it
    from using the index.
    """
    return _sql_names()[2] if is_rare or connection.vendor == SQLITE else "ts_match_vq(words, %s::tsquery)"


def _match_expression(phrase: Sequence[Phrase]) -> str:
    return f"words : ({tokens.fts5_match(phrase)})" if connection.vendor == SQLITE else tokens.tsquery(phrase)


def _last_key(session_pk: str) -> str:
    return f"(({session_pk} << {SEQ_BITS}) + {MAX_SEQ})"


def _fresh_expression(phrase: Phrase) -> str:
    """Return the match expression for entries in which a word is fresh; for a phrase, for all its entries."""
    if len(phrase.tokens) > 1:
        return _match_expression([phrase])
    if connection.vendor == SQLITE:
        return f"owner : ({tokens.fts5_match([phrase])})"
    return tokens.tsquery([phrase], label="A")


def _key_range(session_pk: int) -> tuple[int, int]:
    return entry_key(session_pk, 0), entry_key(session_pk, MAX_SEQ)
