"""Nested runs become sessions: their events and state get the tables of sessions.

Before, `NestedEvent` had the events, and `NestedRun` named the run around it by `parent_ref`.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import django.db.models.deletion
from django.db import migrations, models
from django.db.migrations.exceptions import IrreversibleError

from sessions_app.store import scopes
from sessions_app.store.database.json_sql import COUNTS_AS_ERROR
from sessions_app.store.database.migration_operations import CreateModels

FORMER_TABLE = "sessions_app_nestedrunbefore"
HAS_CALLS = '"calls":['
PREVIEW_LIMIT = 200


def move_to_sessions(apps: Any, schema_editor: Any) -> None:
    """Make a session of each nested run, and link it to its call. Events of a run keep their order and their ids."""
    children: dict[tuple[int, str], Any] = {}
    for old in _rows(schema_editor):
        children[old.session_id, old.ref] = _create_session(apps, old)
    for old in _rows(schema_editor):
        child, parent = children[old.session_id, old.ref], children.get((old.session_id, old.parent_ref))
        apps.get_model("sessions_app", "NestedRun").objects.create(
            caller_id=parent.pk if parent else old.session_id,
            caller_seq=_find_call(apps, parent, old.call_id) if parent else old.seq,
            outer_id=old.session_id,
            outer_seq=old.seq,
            child=child,
            invocation_id=old.invocation_id,
            call_id=old.call_id,
            agent=old.agent,
            started_at=old.started_at,
            finished_at=old.finished_at,
            changed_at=old.changed_at,
            error=old.error,
            state_omitted=old.state_omitted,
            event_count=old.event_count,
            stored_count=child.last_seq,
            indexed_count=min(old.indexed_count, child.last_seq),
        )


def refuse_to_lose_runs(apps: Any, schema_editor: Any) -> None:
    """Refuse to go back to the former tables, which the sessions of nested runs do not fit into.

    Raises:
        IrreversibleError: there are nested runs.
    """
    if apps.get_model("sessions_app", "NestedRun").objects.exists():
        raise IrreversibleError("The sessions of nested runs cannot be moved back: delete the outer sessions first.")


def _rows(schema_editor: Any) -> Iterator[SimpleNamespace]:
    """Yield the rows of the former table, oldest first."""
    with schema_editor.connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {FORMER_TABLE} ORDER BY id")
        columns = [column[0] for column in cursor.description]
        rows = cursor.fetchall()
    return (SimpleNamespace(**dict(zip(columns, row, strict=True))) for row in rows)


def _create_session(apps: Any, old: Any) -> Any:
    """Store the session of a nested run with its events and its state."""
    sessions, events = apps.get_model("sessions_app", "AgentSession"), apps.get_model("sessions_app", "Event")
    outer = sessions.objects.get(pk=old.session_id)
    child = sessions.objects.create(
        realm=f"nested/{outer.pk}/{old.ref}",
        app_name=outer.app_name,
        user_id=outer.user_id,
        session_id=old.ref,
        created_at=old.started_at,
        updated_at=old.started_at,
        origin="nested",
    )
    ledger = _Ledger(apps, child)
    ledger.write(json.loads(old.state), "seed", {"timestamp": old.started_at, "seq": 0})
    ids: set[str] = set()
    rows = apps.get_model("sessions_app", "NestedEvent").objects.filter(session=outer, ref=old.ref).order_by("number")
    for row in rows.iterator(100):
        child.last_seq += 1
        event_id = row.event_id if row.event_id not in ids else f"{row.event_id}-{row.number}"
        ids.add(event_id)
        event = {"timestamp": row.timestamp, "event_id": event_id, "invocation_id": old.ref, "author": row.author}
        delta = (json.loads(row.data).get("actions") or {}).get("stateDelta") or {}
        ledger.write(delta, "append", {**event, "seq": child.last_seq})
        events.objects.create(
            **event,
            session=child,
            seq=child.last_seq,
            kind=row.kind,
            branch=row.branch,
            app_version=ledger.version("app"),
            user_version=ledger.version("user"),
            is_final=row.is_final,
            total_tokens=row.total_tokens,
            summary=row.summary,
            data=row.data,
        )
        text = scopes.clean_text(" ".join(json.loads(row.summary).get("text", "").split())[:PREVIEW_LIMIT])
        child.first_text = child.first_text or (text if row.author == "user" else "")
        child.last_text = text or child.last_text
        child.total_tokens += row.total_tokens
        child.updated_at = row.timestamp
    child.revision = child.last_seq
    child.error_count = events.objects.filter(COUNTS_AS_ERROR, session=child).count()
    child.save()
    ledger.save_versions()
    return child


def _find_call(apps: Any, parent: Any, call_id: str) -> int | None:
    """Return the number of the newest event of a nested session with a call of an id."""
    rows = apps.get_model("sessions_app", "Event").objects.filter(session=parent, summary__contains=HAS_CALLS)
    for seq, summary in rows.order_by("-seq").values_list("seq", "summary").iterator(100):
        if any(call["id"] == call_id for call in json.loads(summary).get("calls", ())):
            return int(seq)
    return None


class _Ledger:
    """Writes the state of a nested session: one row per key, and one of the ledger per write."""

    def __init__(self, apps: Any, child: Any) -> None:
        self._apps = apps
        self._child = child
        self._owners: dict[str, Any] = {"session": child}
        self._versions: defaultdict[str, int] = defaultdict(int)

    def version(self, scope: str) -> int:
        """Return the number of writes to a shared scope so far."""
        return self._versions[scope]

    def write(self, delta: dict[str, Any], cause: str, event: dict[str, Any]) -> None:
        """Store the keys of a delta."""
        scoped = scopes.split_delta(delta)
        for scope, values in (("session", scoped.session), ("user", scoped.user), ("app", scoped.app)):
            if values:
                self._versions[scope] += 1
            for key, value in sorted(values.items()):
                self._write_key(scope, key, scopes.dumps(value), cause, event)

    def save_versions(self) -> None:
        """Store the versions of the owners of shared scopes."""
        for scope, owner in self._owners.items():
            if scope != "session":
                owner.version = self._versions[scope]
                owner.save()

    def _write_key(self, scope: str, key: str, value: str, cause: str, event: dict[str, Any]) -> None:
        owner = self._owner(scope)
        position = event["seq"] if scope == "session" else self._versions[scope]
        row = {"key": key, "value": value, "position": position}
        self._apps.get_model("sessions_app", f"{scope}state").objects.update_or_create(
            owner=owner, key_id=scopes.key_id(key), defaults=row
        )
        self._apps.get_model("sessions_app", "StateChange").objects.create(
            **row,
            **event,
            scope=scope,
            owner_id=owner.pk,
            key_id=scopes.key_id(key),
            cause=cause,
            session=self._child,
            from_user=self._child.user_id,
            from_session=self._child.session_id,
        )

    def _owner(self, scope: str) -> Any:
        if scope not in self._owners:
            names = {"realm": self._child.realm, "app_name": self._child.app_name}
            if scope == "user":
                names["user_id"] = self._child.user_id
            self._owners[scope] = self._apps.get_model("sessions_app", f"{scope}scope").objects.create(**names)
        return self._owners[scope]


class Migration(migrations.Migration):

    dependencies = [("sessions_app", "0001_schema")]

    operations = [
        migrations.RunSQL(
            f"CREATE TABLE {FORMER_TABLE} AS SELECT * FROM sessions_app_nestedrun",
            reverse_sql=f"DROP TABLE {FORMER_TABLE}",
        ),
        migrations.DeleteModel("NestedRun"),
        CreateModels(
            migrations.CreateModel(
                name="NestedRun",
                fields=[
                    ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                    (
                        "caller",
                        models.ForeignKey(
                            db_index=False,
                            help_text="Session with the call; itself a child, if the agent that called is nested.",
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="called_runs",
                            to="sessions_app.agentsession",
                        ),
                    ),
                    (
                        "caller_seq",
                        models.BigIntegerField(
                            help_text="seq of the event of `caller` with the call; null: not stored yet.", null=True
                        ),
                    ),
                    (
                        "outer",
                        models.ForeignKey(
                            db_index=False,
                            help_text="The outermost session: the one that lists show.",
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="inner_runs",
                            to="sessions_app.agentsession",
                        ),
                    ),
                    (
                        "outer_seq",
                        models.BigIntegerField(
                            help_text="seq of the event of `outer` with the outermost call; null: not stored yet.", null=True
                        ),
                    ),
                    (
                        "child",
                        models.OneToOneField(
                            on_delete=django.db.models.deletion.CASCADE,
                            related_name="nested_run",
                            to="sessions_app.agentsession",
                        ),
                    ),
                    ("invocation_id", models.TextField(help_text="Invocation of `outer` that it belongs to.")),
                    ("call_id", models.TextField(help_text="Id of the function call that it carries out.")),
                    ("agent", models.TextField()),
                    ("started_at", models.FloatField()),
                    (
                        "finished_at",
                        models.FloatField(help_text="Null: unfinished, or its process was killed.", null=True),
                    ),
                    ("changed_at", models.FloatField(help_text="Time of the last write, for live pages.")),
                    (
                        "error",
                        models.TextField(default="", help_text="Why it failed or was cut off; empty: it did not."),
                    ),
                    (
                        "state_omitted",
                        models.IntegerField(default=0, help_text="Keys of the state at its start that are not stored."),
                    ),
                    ("event_count", models.IntegerField(default=0, help_text="Number of its events.")),
                    ("stored_count", models.IntegerField(default=0, help_text="Number of its events that are stored.")),
                    (
                        "indexed_count",
                        models.IntegerField(
                            db_default=0, default=0, help_text="Stored events in the search index of `outer`."
                        ),
                    ),
                ],
                options={
                    "indexes": [
                        models.Index(fields=["caller", "caller_seq"], name="nested_run_by_event"),
                        models.Index(fields=["outer", "outer_seq"], name="nested_run_by_outer_event"),
                        models.Index(fields=["outer", "changed_at"], name="nested_run_by_change"),
                        models.Index(
                            condition=models.Q(
                                ("finished_at__isnull", False),
                                ("outer_seq__isnull", False),
                                ("stored_count__gt", models.F("indexed_count")),
                            ),
                            fields=["id"],
                            name="nested_run_to_index",
                        ),
                    ],
                },
            ),
        ),
        migrations.RunPython(move_to_sessions, refuse_to_lose_runs),
        migrations.RunSQL(
            f"DROP TABLE {FORMER_TABLE}", reverse_sql=f"CREATE TABLE {FORMER_TABLE} (id integer)"
        ),
        migrations.DeleteModel("NestedEvent"),
    ]
