"""Full-text indexes on both databases, over the words that `search` finds in a text.

SQLite keeps an FTS5 table of its own beside the model's, named as the index, with the row's pk as rowid.
PostgreSQL keeps a tsvector in the row, in the `simple` configuration: the words are indexed as they are. Neither
database's own word splitter is used: they split differently, and find no Japanese, Chinese or Korean word.
"""

# ruff: noqa: S608 - what is put into statements are names of our own tables

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement

from sessions_app.store import tokens
from sessions_app.store.tokens import Phrase

SQLITE = "sqlite"


class WordsField(models.TextField):  # type: ignore[type-arg]  # generic in the stubs alone
    """The words of a row, written by `put` alone. On SQLite it stays empty: there the index keeps them."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Return the column's type."""
        return "text" if connection.vendor == SQLITE else "tsvector"


class WordSetIndex(models.Index):
    """An index over a `WordsField` that has rows on PostgreSQL alone."""

    def create_sql(
        self,
        model: type[models.Model],
        schema_editor: BaseDatabaseSchemaEditor,
        using: str = "",
        **kwargs: Any,
    ) -> Statement:
        """Return the statement that makes the index."""
        kind = "" if schema_editor.connection.vendor == SQLITE else " USING gin"
        return super().create_sql(model, schema_editor, using=kind, **kwargs)


class WordIndex(WordSetIndex):
    """An index over a `WordsField`, declared in a model's Meta. On SQLite it is a table that outlives rebuilds."""

    def create_sql(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor, *args: Any, **kwargs: Any
    ) -> Statement:
        """Return the statement that makes the index."""
        if schema_editor.connection.vendor == SQLITE:
            return Statement(
                "CREATE VIRTUAL TABLE IF NOT EXISTS %(name)s USING fts5(owner, words, tokenize = 'ascii')",
                name=schema_editor.quote_name(self.name),
            )
        return super().create_sql(model, schema_editor, *args, **kwargs)

    def remove_sql(
        self, model: type[models.Model], schema_editor: BaseDatabaseSchemaEditor, **kwargs: Any
    ) -> str:
        """Return the statement that removes the index."""
        if schema_editor.connection.vendor == SQLITE:
            return f"DROP TABLE IF EXISTS {schema_editor.quote_name(self.name)}"
        return super().remove_sql(model, schema_editor, **kwargs)


class IndexEntry(NamedTuple):
    """A row to be found: its pk, who may find it, and its text."""

    pk: int
    owner: str
    text: str


def owner_id(*names: str) -> str:
    """Return the mark of an owner, by which the index keeps owners apart."""
    return sha256(json.dumps(names).encode()).hexdigest()[:32]


def index_rows(model: type[models.Model], entries: Iterable[IndexEntry]) -> None:
    """Index rows, in place of what they were found by before."""
    found = [(entry, tokens.tokenize(entry.text)) for entry in entries]
    with connection.cursor() as cursor:
        if connection.vendor == SQLITE:
            cursor.executemany(
                f"INSERT OR REPLACE INTO {_index(model)} (rowid, owner, words) VALUES (%s, %s, %s)",
                [(entry.pk, entry.owner, " ".join(words)) for entry, words in found],
            )
        else:
            cursor.executemany(
                f"UPDATE {_table(model)} SET words = %s::tsvector WHERE id = %s",
                [
                    (f"{_owner_word(entry.owner)} {tokens.tsvector(words)}", entry.pk)
                    for entry, words in found
                ],
            )


def unindex_rows(model: type[models.Model], pks: Iterable[int]) -> None:
    """Let rows be found no more."""
    rows = [(pk,) for pk in pks]
    with connection.cursor() as cursor:
        if connection.vendor == SQLITE:
            cursor.executemany(f"DELETE FROM {_index(model)} WHERE rowid = %s", rows)
        else:
            cursor.executemany(f"UPDATE {_table(model)} SET words = NULL WHERE id = %s", rows)


def find_ranked(
    model: type[models.Model], owner: str, wanted: Sequence[Phrase], limit: int, *, every: bool = True
) -> list[int]:
    """Return the pks of an owner's rows that hold every phrase, or any of them: best first, then newest first.

    Rare phrases weigh more than common ones: by bm25 on SQLite; on PostgreSQL, whose ts_rank looks at one row
    alone, by ts_rank times the phrase's rarity among the rows found.
    """
    if not wanted:
        return []
    find = _find_ranked_on_sqlite if connection.vendor == SQLITE else _find_ranked_on_postgres
    return find(model, owner, wanted, limit, every)


def _find_ranked_on_sqlite(
    model: type[models.Model], owner: str, wanted: Sequence[Phrase], limit: int, every: bool
) -> list[int]:
    index, table = _index(model), _table(model)
    match = f'owner : "{owner}" AND words : ({tokens.fts5_match(wanted, every=every)})'
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {table}.id FROM {index} JOIN {table} ON {table}.id = {index}.rowid"
            f" WHERE {index} MATCH %s ORDER BY bm25({index}, 0, 1), {table}.id DESC LIMIT %s",
            [match, limit],
        )
        return [pk for (pk,) in cursor.fetchall()]


def _find_ranked_on_postgres(
    model: type[models.Model], owner: str, wanted: Sequence[Phrase], limit: int, every: bool
) -> list[int]:
    match = f"{_owner_word(owner)} & ({tokens.tsquery(wanted, every=every)})"
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH hit AS MATERIALIZED (SELECT id, words FROM {_table(model)} WHERE words @@ %s::tsquery),"
            " rarity AS (SELECT query, ln(1 + (SELECT count(*) FROM hit)::float / count(*)) AS weight"
            "   FROM hit JOIN unnest(%s::tsquery[]) AS query ON words @@ query GROUP BY query)"
            " SELECT id FROM hit JOIN rarity ON words @@ query"
            " GROUP BY id ORDER BY sum(weight * ts_rank(words, query, 1)) DESC, id DESC LIMIT %s",
            [match, [tokens.tsquery([each]) for each in wanted], limit],
        )
        return [pk for (pk,) in cursor.fetchall()]


def _owner_word(owner: str) -> str:
    """Return an owner as a word of the tsvector. No word of a text holds `=`."""
    return f"'={owner}'"


def _index(model: type[models.Model]) -> str:
    names = [index.name for index in model._meta.indexes if isinstance(index, WordIndex)]
    return connection.ops.quote_name(names[0])


def _table(model: type[models.Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)
