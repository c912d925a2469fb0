"""Stores on PostgreSQL and MySQL servers, read through their URLs. The tables are those ADK makes there."""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from sessions_app.store.errors import DevUIError
from sessions_app.store.redaction import without_password
from sessions_app.transfer.readers.detection import open_source
from tests.importers import stores
from tests.required_programs import missing

POSTGRES = os.environ.get("DEVUI_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres")
MYSQL = os.environ.get("DEVUI_TEST_MYSQL", "mysql://root@127.0.0.1:3306/")

# The types of `sessions/schemas/shared.py`: PreciseTimestamp, DynamicJSON, PickleType.
TYPES = {
    "postgresql": {"json": "JSONB", "time": "TIMESTAMP", "blob": "BYTEA"},
    "mysql": {"json": "LONGTEXT", "time": "DATETIME(6)", "blob": "LONGBLOB"},
}
JSON_COLUMNS = {
    "state",
    "event_data",
    "content",
    "grounding_metadata",
    "custom_metadata",
    "usage_metadata",
    "citation_metadata",
    "input_transcription",
    "output_transcription",
}
TIME_COLUMNS = {"create_time", "update_time", "timestamp"}


def kind_of(column: str, types: dict[str, str]) -> str:
    if column in JSON_COLUMNS:
        return types["json"]
    if column in TIME_COLUMNS:
        return types["time"]
    if column == "actions":
        return types["blob"]
    if column in {"partial", "turn_complete", "interrupted"}:
        return "BOOLEAN"
    return "VARCHAR(128)" if column in {"id", "app_name", "user_id", "session_id", "key"} else "TEXT"


def copy_tables(store: Any, cursor: Any, types: dict[str, str], quote: str) -> None:
    """Copy a golden SQLite file into a server, in the column types that ADK uses there."""
    with sqlite3.connect(store) as source:
        source.row_factory = sqlite3.Row
        tables = [row[0] for row in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            columns = [
                row["name"] for row in source.execute("SELECT name FROM pragma_table_info(?)", [table])
            ]
            typed = ", ".join(f"{quote}{name}{quote} {kind_of(name, types)}" for name in columns)
            cursor.execute(f"CREATE TABLE {table} ({typed})")
            marks = ", ".join(["%s"] * len(columns))
            for row in source.execute(f"SELECT * FROM {table}"):
                values = [
                    bool(value) if value is not None and kind_of(name, types) == "BOOLEAN" else value
                    for name, value in zip(columns, row, strict=True)
                ]
                cursor.execute(f"INSERT INTO {table} VALUES ({marks})", values)


@pytest.fixture
def postgres() -> Iterator[str]:
    """The URL of an empty database."""
    import psycopg

    name = f"import_{uuid.uuid4().hex[:12]}"
    try:
        admin = psycopg.connect(POSTGRES, autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        why = str(error).splitlines()[0]
        missing(f"no PostgreSQL answers at {without_password(POSTGRES)} (DEVUI_TEST_POSTGRES): {why}")
    admin.execute(f"CREATE DATABASE {name}")
    yield POSTGRES.rpartition("/")[0] + f"/{name}"
    admin.execute(f"DROP DATABASE {name} WITH (FORCE)")
    admin.close()


@pytest.fixture
def mysql() -> Iterator[str]:
    """The URL of an empty database."""
    pymysql = pytest.importorskip("pymysql", reason="PyMySQL is not installed: pip install 'devui[mysql]'")
    from urllib.parse import urlsplit

    parts, name = urlsplit(MYSQL), f"import_{uuid.uuid4().hex[:12]}"
    try:
        admin = pymysql.connect(
            host=parts.hostname, port=parts.port or 3306, user=parts.username, password=parts.password or ""
        )
    except pymysql.OperationalError as error:
        pytest.skip(f"no MySQL to test with: {error}")
    with admin.cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
    yield MYSQL.rpartition("/")[0] + f"/{name}"
    with admin.cursor() as cursor:
        cursor.execute(f"DROP DATABASE {name}")
    admin.close()


def fill_postgres(url: str, store: Any) -> None:
    import psycopg

    with psycopg.connect(url) as connection, connection.cursor() as cursor:
        copy_tables(store, cursor, TYPES["postgresql"], '"')


def fill_mysql(url: str, store: Any) -> None:
    import pymysql

    from sessions_app.transfer.readers.databases import MySqlDatabase

    database = MySqlDatabase(url)
    parameters = {"host": database._connection.host, "port": database._connection.port}
    database.close()
    name = url.rpartition("/")[2]
    with pymysql.connect(**parameters, user="root", database=name, charset="utf8mb4") as connection:
        with connection.cursor() as cursor:
            copy_tables(store, cursor, TYPES["mysql"], "`")
        connection.commit()


def check(report: Any, read: Any, kind: str) -> None:
    assert report.format == kind
    assert report.is_complete, report
    for session in stores.expected_sessions()[:2]:
        assert read(session["appName"], session["userId"], session["id"]) == session


@pytest.mark.parametrize(
    ("golden", "kind"),
    [
        (stores.V1, "ADK DatabaseSessionService (v1)"),
        (stores.V0, "ADK DatabaseSessionService (v0, pickled actions)"),
    ],
)
def test_a_store_on_postgresql_comes_in_as_adk_reads_it(golden, kind, postgres, load, read):
    fill_postgres(postgres, golden)

    check(load(postgres), read, kind)
    assert load(postgres.replace("postgresql:", "postgresql+asyncpg:")).format == kind


@pytest.mark.parametrize(
    ("golden", "kind"),
    [
        (stores.V1, "ADK DatabaseSessionService (v1)"),
        (stores.V0, "ADK DatabaseSessionService (v0, pickled actions)"),
    ],
)
def test_a_store_on_mysql_comes_in_as_adk_reads_it(golden, kind, mysql, load, read):
    fill_mysql(mysql, golden)

    check(load(mysql), read, kind)


def test_a_server_is_opened_so_that_nothing_can_be_written(postgres):
    import psycopg

    fill_postgres(postgres, stores.V1)
    source = open_source(postgres)

    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        source._database._connection.execute("DELETE FROM events")
    source.close()


def test_a_database_without_sessions_is_refused(postgres):
    with pytest.raises(DevUIError, match="no store of ADK sessions"):
        open_source(postgres)


@pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
def test_unreachable_server_is_reported_without_password(scheme):
    with pytest.raises(DevUIError, match="cannot be read") as refused:
        open_source(f"{scheme}://me:hush@127.0.0.1:1/name")

    assert "hush" not in f"{refused.value.message} {refused.value.hint}"


def test_location_is_stored_without_password():
    assert (
        without_password("mysql+pymysql://me:hush@host:3306/name?ssl=x")
        == "mysql+pymysql://me@host:3306/name"
    )
