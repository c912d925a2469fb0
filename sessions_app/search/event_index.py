"""The full-text index of events, on both databases: which events hold the words of a text.

An entry's key is made of its event's session and seq, so that it names both without a look at the event, and the
entries of a session stand side by side.
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

from sessions_app.models import AgentSession, EventWords, SessionWords
from sessions_app.store import tokens
from sessions_app.store.full_text import SQLITE
from sessions_app.store.tokens import Phrase

SEQ_BITS = 26
"""Bits of a key that hold the seq: 67 million events a session, 137 thousand million sessions."""

MAX_SEQ = 2**SEQ_BITS - 1

_ID_PREFIX = "\ue000"

FIRST_PAGE, LARGEST_PAGE = 500, 32_000
"""Entries that are read at a time, twice as many each time; then the rest of the session they end in is skipped."""

FREQUENT = 100_000
"""Entries with a phrase from which on PostgreSQL walks them from the newest on, and makes no list of them."""

LONGEST_LIST = 160_000
"""Sessions with a word, by PostgreSQL's own guess, of which it can hold a list in its memory (`work_mem`)."""

SUM_BYTES = 400_000
"""Most bytes of words that stand in one row for a session, unless an event alone has more. A tsvector holds 1 MB."""

RARE = 1_000
"""Entries with a phrase up to which PostgreSQL may list them for each session that it looks for them in."""

NEWEST_COMPARED = 1_000
"""Newest entries of a session, for each of several phrases, among which one that holds them all is looked for."""


class PhraseSessions(NamedTuple):
    """Sessions that hold a phrase; there may be more when `is_all` is false."""

    pks: set[int]
    is_all: bool


def entry_key(session_pk: int, seq: int) -> int:
    """Return the key of an event's entry."""
    key: int = session_pk * (MAX_SEQ + 1) + min(seq, MAX_SEQ)
    return key


class EventEntry(NamedTuple):
    """An event to be found.

    Attributes:
        place: its key.
        words: the words of its text.
        names: the words that its ids give it (see `name`).
        fresh: those of both that no entry before it, of this session and batch, has. They make the entries of a word
            few where only sessions are asked for.
    """

    place: int
    words: Sequence[str]
    names: Sequence[str]
    fresh: set[str]


def make_entry(
    session_pk: int, seq: int, words: Sequence[str], ids: Mapping[str, str], seen: set[str]
) -> EventEntry:
    """Return the entry of an event.

    Args:
        session_pk: its session.
        seq: its place in it.
        words: those of its text.
        ids: what it is called by: the name of a term, such as `invocation`, and the id.
        seen: the words of entries before it, of this session and batch; its own are added.
    """
    names = [id_word(field, text) for field, text in ids.items() if text]
    fresh = {*words, *names} - seen
    seen |= fresh
    return EventEntry(entry_key(session_pk, seq), words, names, fresh)


def id_word(field: str, text: str) -> str:
    """Return the word that an id gives an event to be found by. No word of a text holds its first character."""
    return f"{_ID_PREFIX}{sha256(json.dumps([field, text]).encode()).hexdigest()[:16]}"


def id_phrase(field: str, text: str) -> Phrase:
    """Return what finds the events that are called so."""
    return Phrase((id_word(field, text),))


def session_words(entries: Iterable[EventEntry]) -> Iterator[tuple[int, set[str]]]:
    """Yield the words of sessions, of many events in one row each: its key, that of its first event, and the words."""
    first, words, size = -1, set[str](), 0
    for each in entries:
        if first >> SEQ_BITS != each.place >> SEQ_BITS or size > SUM_BYTES:
            if words:
                yield first, words
            first, words, size = each.place, set(), 0
        fresh = each.fresh.difference(each.names)
        words |= fresh
        size += sum(len(word.encode()) for word in fresh)
    if words:
        yield first, words


def write_entries(entries: Sequence[EventEntry]) -> None:
    """Index events, in place of what was there."""
    with connection.cursor() as cursor:
        if connection.vendor == SQLITE:
            cursor.executemany(
                "INSERT OR REPLACE INTO event_words (rowid, owner, words) VALUES (%s, %s, %s)",
                [(each.place, " ".join(each.fresh), " ".join(each.words)) for each in entries],
            )
        else:
            cursor.executemany(
                f"INSERT INTO {_TABLE} (id, words) VALUES (%s, %s::tsvector)"
                " ON CONFLICT (id) DO UPDATE SET words = excluded.words",
                [(each.place, tokens.tsvector([*each.words, *each.names], each.fresh)) for each in entries],
            )
            cursor.executemany(
                f"INSERT INTO {_SESSION_TABLE} (id, words) VALUES (%s, %s::tsvector)"
                " ON CONFLICT (id) DO UPDATE SET words = excluded.words",
                [(key, tokens.tsvector_without_positions(words)) for key, words in session_words(entries)],
            )


def delete_entries(session_pk: int, limit: int) -> int:
    """Remove at most so many entries of a session; return how many were there."""
    table, key, _ = _sql_names()
    tables = [table] if connection.vendor == SQLITE else [table, _SESSION_TABLE]
    removed = 0
    with connection.cursor() as cursor:
        for each in tables:
            cursor.execute(
                f"DELETE FROM {each} WHERE {key} IN"
                f" (SELECT {key} FROM {each} WHERE {key} BETWEEN %s AND %s LIMIT %s)",
                [*_key_range(session_pk), limit],
            )
            removed = max(removed, cursor.rowcount)
    return removed


def find_sessions(wanted: Phrase, limit: int) -> PhraseSessions:
    """Return the sessions with an event that holds a phrase, looking at no more than about `limit` entries."""
    if connection.vendor == SQLITE or is_frequent(wanted):
        return _newest_sessions(wanted, limit if len(wanted.tokens) == 1 else limit // 3)
    table, expression = (
        (_SESSION_TABLE, _match_expression([wanted]))
        if _has_session_rows(wanted)
        else (_TABLE, _fresh_expression(wanted))
    )
    with connection.cursor() as cursor:  # in no order: PostgreSQL would walk very many entries to have one
        cursor.execute(f"SELECT id FROM {table} WHERE words @@ %s::tsquery LIMIT %s", [expression, limit + 1])
        keys = [key for (key,) in cursor.fetchall()]
    return PhraseSessions({key >> SEQ_BITS for key in keys}, is_all=len(keys) <= limit)


def is_frequent(wanted: Phrase) -> bool:
    """Tell whether PostgreSQL expects very many entries with a phrase: it reads each to know where its words stand."""
    if connection.vendor == SQLITE or _has_session_rows(wanted):
        return False
    return _estimate_entries([wanted])[0] > FREQUENT


def _has_session_rows(wanted: Phrase) -> bool:
    """Tell whether a phrase is one word of a text: PostgreSQL has the words of many events in one row (see `sums`)."""
    return len(wanted.tokens) == 1 and not wanted.tokens[0].startswith(_ID_PREFIX)


def _estimate_entries(wanted: Sequence[Phrase], table: str = "") -> list[int]:
    """Return how many entries with each of some phrases PostgreSQL expects."""
    each = [f"SELECT id FROM {table or _TABLE} WHERE words @@ %s::tsquery" for _ in wanted]
    with connection.cursor() as cursor:
        cursor.execute(
            f"EXPLAIN (FORMAT JSON) {' UNION ALL '.join(each)}", [_match_expression([one]) for one in wanted]
        )
        (answer,) = cursor.fetchone()
    plan = (json.loads(answer) if isinstance(answer, str) else answer)[0]["Plan"]
    return [each["Plan Rows"] for each in (plan["Plans"] if len(wanted) > 1 else [plan])]


def _newest_sessions(wanted: Phrase, limit: int) -> PhraseSessions:
    """Return sessions, newest ones first. Of one that has many entries, the rest is skipped."""
    table, key, match = _sql_names()
    found: set[int] = set()
    before, looked, size = 2**63 - 1, 0, FIRST_PAGE
    with connection.cursor() as cursor:
        while looked < limit:
            cursor.execute(
                f"SELECT {key} FROM {table} WHERE {match} AND {key} < %s ORDER BY {key} DESC LIMIT %s",
                [_fresh_expression(wanted), before, size],
            )
            keys = [row[0] for row in cursor.fetchall()]
            found.update(place >> SEQ_BITS for place in keys)
            if len(keys) < size:
                return PhraseSessions(found, is_all=True)
            before = keys[-1] >> SEQ_BITS << SEQ_BITS
            looked, size = looked + size, min(2 * size, LARGEST_PAGE)
    return PhraseSessions(found, is_all=False)


def sessions_subquery(wanted: Phrase, most: int) -> tuple[str, tuple[str]] | None:
    """Return the sessions with an event that holds a phrase, as a subquery; None: there are more than `most` entries.

    Nor is there a list where PostgreSQL had better test each session. The limit tells it, as it may expect more, that
    the list fits its memory.
    """
    table, key, match = _sql_names()
    found = f"SELECT {key} >> {SEQ_BITS} FROM {table} WHERE {match}"
    if connection.vendor != SQLITE and _has_session_rows(wanted):
        if _estimate_entries([wanted], _SESSION_TABLE)[0] > min(most, LONGEST_LIST):
            return None
        return f"SELECT id >> {SEQ_BITS} FROM {_SESSION_TABLE} WHERE {match}", (_match_expression([wanted]),)
    if is_frequent(wanted):
        return None
    if connection.vendor == SQLITE and most >= LONGEST_LIST:
        return found, (_fresh_expression(wanted),)  # it makes a list as fast as it counts its entries
    most = min(most, FREQUENT)
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT count(*) FROM ({found} LIMIT {most + 1}) AS found", [_fresh_expression(wanted)]
        )
        if cursor.fetchone()[0] > most:
            return None
    return f"{found} LIMIT {most}", (_fresh_expression(wanted),)


class HoldsPhrase(Func):
    """Whether an event of a session, named by its primary key, holds a phrase."""

    output_field = BooleanField()
    conditional = True

    def __init__(self, session_pk: Any, wanted: Phrase | None = None, **extra: Any) -> None:
        """Take the column and the phrase."""
        super().__init__(session_pk, **extra)
        self.wanted = wanted

    def as_sql(
        self,
        compiler: SQLCompiler,
        connection: BaseDatabaseWrapper,
        function: str | None = None,
        template: str | None = None,
        arg_joiner: str | None = None,
        **extra_context: Any,
    ) -> tuple[str, tuple[str | int, ...]]:
        """Write a seek of the session's entries."""
        table, key, _ = _sql_names()
        if connection.vendor != SQLITE and self.wanted and _has_session_rows(self.wanted):
            table = _SESSION_TABLE
        match = _match_in_session(is_rare=False)
        pk, params = compiler.compile(self.source_expressions[0])
        sql = f"EXISTS (SELECT 1 FROM {table} WHERE {match} AND {key} BETWEEN ({pk} << {SEQ_BITS}) AND {_last_key(pk)})"
        expression = _match_expression([self.wanted] if self.wanted else [])
        return sql, (expression, *params, *params)


def seqs_subquery(session_pk: int, wanted: Phrase, first: int = 0, last: int = MAX_SEQ) -> RawSQL:
    """Return the seqs of a session's events that hold a phrase, from the first to the last, as a subquery."""
    table, key, match = _sql_names()
    return RawSQL(  # noqa: S611 - names of our own
        f"SELECT {key} & {MAX_SEQ} FROM {table} WHERE {match} AND {key} BETWEEN %s AND %s",
        [_match_expression([wanted]), entry_key(session_pk, first), entry_key(session_pk, last)],
    )


def newest_seqs(session_pks: Collection[int], wanted: Sequence[Phrase], *, every: bool) -> dict[int, int]:
    """Return for each session the seq of its newest event that holds every phrase, or any of them. One query.

    Each phrase is looked for on its own: an index that looks for two at once leaves the session until it has both.
    """
    if not session_pks or not wanted:
        return {}
    table, key, _ = _sql_names()
    in_session = f"{key} BETWEEN (s.id << {SEQ_BITS}) AND {_last_key('s.id')}"
    limit = NEWEST_COMPARED if every else 1
    found = (" INTERSECT " if every else " UNION ").join(
        f"SELECT place FROM (SELECT {key} AS place FROM {table} WHERE {_match_in_session(is_rare=is_rare)}"
        f" AND {in_session} ORDER BY {key} DESC LIMIT {limit}) AS one"
        for is_rare in _are_rare(wanted)
    )
    places = ", ".join(["%s"] * len(session_pks))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT s.id, (SELECT max(place) & {MAX_SEQ} FROM ({found}) AS found)"
            f" FROM {_SESSIONS} s WHERE s.id IN ({places})",
            [*(_match_expression([each]) for each in wanted), *session_pks],
        )
        return {pk: seq for pk, seq in cursor.fetchall() if seq is not None}


_TABLE = EventWords._meta.db_table
_SESSION_TABLE = SessionWords._meta.db_table
_SESSIONS = AgentSession._meta.db_table


def _sql_names() -> tuple[str, str, str]:
    """Return the table of entries, the column of their keys, and the condition that one matches."""
    if connection.vendor == SQLITE:
        return "event_words", "rowid", "event_words MATCH %s"
    return _TABLE, "id", "words @@ %s::tsquery"


def _are_rare(wanted: Sequence[Phrase]) -> list[bool]:
    if connection.vendor == SQLITE:
        return [True] * len(wanted)
    return [entries <= RARE for entries in _estimate_entries(wanted)]


def _match_in_session(*, is_rare: bool) -> str:
    """Return the condition that an entry of one session matches.

    For each session anew PostgreSQL would list all entries with a word of many: by its function it sees no index.
    """
    return _sql_names()[2] if is_rare or connection.vendor == SQLITE else "ts_match_vq(words, %s::tsquery)"


def _match_expression(wanted: Sequence[Phrase]) -> str:
    return f"words : ({tokens.fts5_match(wanted)})" if connection.vendor == SQLITE else tokens.tsquery(wanted)


def _last_key(session_pk: str) -> str:
    return f"(({session_pk} << {SEQ_BITS}) + {MAX_SEQ})"


def _fresh_expression(wanted: Phrase) -> str:
    """Return the expression for entries in which a word is fresh; of more words side by side, for all entries."""
    if len(wanted.tokens) > 1:
        return _match_expression([wanted])
    if connection.vendor == SQLITE:
        return f"owner : ({tokens.fts5_match([wanted])})"
    return tokens.tsquery([wanted], label="A")


def _key_range(session_pk: int) -> tuple[int, int]:
    return entry_key(session_pk, 0), entry_key(session_pk, MAX_SEQ)
