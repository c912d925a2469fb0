"""Plain SQL statements of the append path store, refuse and roll back as Django's own."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

from sessions_app.store.database import statements
from sessions_app.store.models import AgentSession, AppScope
from sessions_app.store.sessions import event_rows, ledger, writes
from sessions_app.store.traces import records

pytestmark = pytest.mark.django_db(transaction=True)

ADD = "INSERT INTO sessions_app_appscope (realm, app_name, version) VALUES (%s, %s, %s)"
SEE = "SELECT version FROM sessions_app_appscope WHERE realm = %s AND app_name = %s"


def test_values_that_look_like_placeholders_are_data():
    name = "50 % of %s and ?"
    with transaction.atomic(), statements.open_statements() as cursor:
        cursor.execute(ADD, ["", name, 7])
        result, missing = cursor.first_rows((SEE, ["", name]), (SEE, ["", "another"]))
    assert tuple(result) == (7,)
    assert missing is None
    assert AppScope.objects.get(app_name=name).version == 7


def test_a_row_for_each_set_of_values():
    with transaction.atomic(), statements.open_statements() as cursor:
        cursor.executemany(ADD, [("", f"app {number}", number) for number in range(3)])
        cursor.execute("SELECT app_name FROM sessions_app_appscope WHERE realm = %s ORDER BY id", [""])
        assert cursor.fetchone()[0] == "app 0"
        assert [name for (name,) in cursor.fetchall()] == ["app 1", "app 2"]


def test_failed_statement_raises_djangos_error_and_rolls_back():
    def add_twice() -> None:
        with transaction.atomic(), statements.open_statements() as cursor:
            cursor.execute(ADD, ["", "app", 1])
            cursor.execute(ADD, ["", "app", 2])

    with pytest.raises(IntegrityError):
        add_twice()
    assert not AppScope.objects.exists()
    writes.create_session(writes.SessionKey("", "app", "user", "s"))  # the connection goes on
    assert AgentSession.objects.count() == 1


def test_no_statement_of_the_hot_path_holds_a_percent_sign_of_its_own():
    for module in (ledger, event_rows, writes, records):
        values = [
            value
            for attribute in vars(module).values()
            for value in (attribute.values() if type(attribute) is dict else [attribute])
        ]
        statements = [
            text for text in values if str(text).startswith(("INSERT", "SELECT", "UPDATE", "DELETE"))
        ]
        assert statements
        assert all("%" not in text.replace("%s", "") for text in statements)


@pytest.mark.skipif(connection.vendor != "sqlite", reason="the plan is SQLite's")
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("event", "session_id"),
        ("statechange", "session_id"),
        ("sessionstate", "owner_id"),
        ("run", "session_id"),
    ],
)
def test_session_rows_are_found_without_single_column_index(table: str, column: str):
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN QUERY PLAN SELECT * FROM sessions_app_{table} WHERE {column} = 1")
        assert "USING INDEX" in cursor.fetchone()[3]
