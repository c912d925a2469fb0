"""Writes nested runs into an empty store as DevUI stored them before they were sessions, migrates, and prints them.

python -m tests.sessions.nested_runs_before DATABASE_URL
"""

from __future__ import annotations

import json
import sys
from typing import Any

from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor

import devui

OUTER = {
    "realm": "",
    "app_name": "weather",
    "user_id": "ann",
    "session_id": "s1",
    "created_at": 1,
    "updated_at": 1,
}
RUN = {"invocation_id": "i1", "started_at": 10.0, "finished_at": 12.0, "changed_at": 12.0, "seq": 2}
CALL = {"functionCall": {"id": "d1", "name": "deep", "args": {}}}


def write_former_rows() -> None:
    """Write a session with a nested run, and one inside it."""
    apps = MigrationExecutor(connection).loader.project_state([("sessions_app", "0001_schema")]).apps
    session = apps.get_model("sessions_app", "AgentSession").objects.create(**OUTER)
    runs, events = apps.get_model("sessions_app", "NestedRun"), apps.get_model("sessions_app", "NestedEvent")
    state = json.dumps({"city": "Rome", "user:name": "Ann"})
    counts = {"event_count": 3, "stored_count": 2, "total_tokens": 7}
    runs.objects.create(session=session, ref="r1", call_id="c1", agent="helper", state=state, **counts, **RUN)
    runs.objects.create(
        session=session, ref="r2", parent_ref="r1", call_id="d1", agent="deep", error="lost", **RUN
    )
    summary = {"text": "Paris?\0", "calls": [{"id": "d1", "name": "deep", "args": {}}]}
    delta = {"actions": {"stateDelta": {"city": "Oslo", "user:name": "Ben"}}}
    row = {"session": session, "ref": "r1", "event_id": "e1", "kind": "tool_call", "timestamp": 11.0}
    events.objects.create(
        **row,
        number=1,
        author="user",
        summary=json.dumps(summary, separators=(",", ":")),
        data=json.dumps(delta),
        total_tokens=7,
    )
    events.objects.create(**row, number=3, author="helper", summary="{}", data="{}")


def read_sessions() -> list[dict[str, Any]]:
    """Return what pages and the API show of the nested runs."""
    from sessions_app.lookup import find_event
    from sessions_app.store.models import Event, NestedRun
    from sessions_app.store.state.history import state_at

    sessions = []
    for run in NestedRun.objects.select_related("child", "caller", "outer").order_by("pk"):
        events = list(Event.objects.filter(session=run.child).order_by("seq"))
        start = state_at(run.child, find_event(run.child, seq=1)).merge_scopes() if events else {}
        sessions.append(
            {
                "caller": run.caller.session_id,
                "numbers": [run.caller_seq, run.outer_seq],
                "names": [run.outer.session_id, run.child.session_id, run.agent, run.error],
                "tokens": run.child.total_tokens,
                "first_text": run.child.first_text,
                "counts": [run.event_count, run.stored_count, run.child.last_seq],
                "events": [[event.seq, event.event_id, event.author] for event in events],
                "state": start,
            }
        )
    return sessions


if __name__ == "__main__":
    devui.setup(sys.argv[1], migrate=False)
    call_command("migrate", "sessions_app", "0001", verbosity=0)
    write_former_rows()
    call_command("migrate", verbosity=0)
    print(json.dumps(read_sessions()))
