"""Full-text indexes on both databases, over the tokens of `tokens`.

On SQLite the index is an FTS5 table beside the model's table, with the row's pk as rowid. On PostgreSQL it is a
tsvector column with a GIN index. The databases' own tokenizers are not used: they differ from each other and do not
split Japanese, Chinese or Korean.
"""

# ruff: noqa: S608 - only names of our own tables are put into statements

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from django.db import connection, models
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.backends.ddl_references import Statement

from sessions_app.store.database import tokens
from sessions_app.store.database.tokens import Phrase

SQLITE = "sqlite"


class WordsField(models.TextField):  # type: ignore[type-arg]  # generic in the stubs alone
    """The words of a row, written only by `index_rows`. On SQLite it stays empty: the FTS5 table holds the words."""

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        """Return the column type."""
        return "text" if connection.vendor == SQLITE else "tsvector"


class WordSetIndex(models.Index):
    """An index over a `WordsField` that is used on PostgreSQL only."""

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
    """An index over a `WordsField`, declared in a model's Meta. On SQLite it is an FTS5 table."""

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
        """Return the statement that drops the index."""
        if schema_editor.connection.vendor == SQLITE:
            return f"DROP TABLE IF EXISTS {schema_editor.quote_name(self.name)}"
        return super().remove_sql(model, schema_editor, **kwargs)


class IndexEntry(NamedTuple):
    """A row to index: its pk, its owner, and its text."""

    pk: int
    owner: str
    text: str


def owner_id(*names: str) -> str:
    """Return the hash that stands for an owner in the index. A search covers one owner's rows."""
    return sha256(json.dumps(names).encode()).hexdigest()[:32]


def index_rows(model: type[models.Model], entries: Iterable[IndexEntry]) -> None:
    """Index rows, replacing their earlier entries."""
    tokenized = [(entry, tokens.tokenize(entry.text)) for entry in entries]
    with connection.cursor() as cursor:
        if connection.vendor == SQLITE:
            cursor.executemany(
                f"INSERT OR REPLACE INTO {_index_name(model)} (rowid, owner, words) VALUES (%s, %s, %s)",
                [(entry.pk, entry.owner, " ".join(words)) for entry, words in tokenized],
            )
        else:
            cursor.executemany(
                f"UPDATE {_table_name(model)} SET words = %s::tsvector WHERE id = %s",
                [
                    (f"{_owner_word(entry.owner)} {tokens.tsvector(words)}", entry.pk)
                    for entry, words in tokenized
                ],
            )


def unindex_rows(model: type[models.Model], pks: Iterable[int]) -> None:
    """Remove rows from the index."""
    rows = [(pk,) for pk in pks]
    with connection.cursor() as cursor:
        if connection.vendor == SQLITE:
            cursor.executemany(f"DELETE FROM {_index_name(model)} WHERE rowid = %s", rows)
        else:
            cursor.executemany(f"UPDATE {_table_name(model)} SET words = NULL WHERE id = %s", rows)


def find_ranked(
    model: type[models.Model], owner: str, phrases: Sequence[Phrase], limit: int, *, every: bool = True
) -> list[int]:
    """Return the pks of an owner's rows that contain every phrase, or any of them: best first, then newest first.

    Rare phrases weigh more: by bm25 on SQLite; on PostgreSQL, whose ts_rank considers single rows only, by ts_rank
    times the phrase's rarity among the matching rows.
    """
    if not phrases:
        return []
    table = _table_name(model)
    if connection.vendor == SQLITE:
        index = _index_name(model)
        statement = (
            f"SELECT {table}.id FROM {index} JOIN {table} ON {table}.id = {index}.rowid"
            f" WHERE {index} MATCH %s ORDER BY bm25({index}, 0, 1), {table}.id DESC LIMIT %s"
        )
        params: list[Any] = [
            f'owner : "{owner}" AND words : ({tokens.fts5_match(phrases, every=every)})',
            limit,
        ]
    else:
        statement = (
            f"WITH hit AS MATERIALIZED (SELECT id, words FROM {table} WHERE words @@ %s::tsquery),"
            " rarity AS (SELECT query, ln(1 + (SELECT count(*) FROM hit)::float / count(*)) AS weight"
            "   FROM hit JOIN unnest(%s::tsquery[]) AS query ON words @@ query GROUP BY query)"
            " SELECT id FROM hit JOIN rarity ON words @@ query"
            " GROUP BY id ORDER BY sum(weight * ts_rank(words, query, 1)) DESC, id DESC LIMIT %s"
        )
        match = f"{_owner_word(owner)} & ({tokens.tsquery(phrases, every=every)})"
        params = [match, [tokens.tsquery([phrase]) for phrase in phrases], limit]
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        return [pk for (pk,) in cursor.fetchall()]


def _owner_word(owner: str) -> str:
    """Return an owner as a word of the tsvector. Words of a text never contain `=`."""
    return f"'={owner}'"


def _index_name(model: type[models.Model]) -> str:
    names = [index.name for index in model._meta.indexes if isinstance(index, WordIndex)]
    return connection.ops.quote_name(names[0])


def _table_name(model: type[models.Model]) -> str:
    return connection.ops.quote_name(model._meta.db_table)
