"""Stores of other programs as the tests need them: the golden files, and synthetic ones of known schemas."""

from __future__ import annotations

import json
import pickle
import shutil
import sqlite3
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "data" / "stores"
SQLITE = DATA / "adk-python-2.13-sqlite.db"
V1 = DATA / "adk-python-2.13-database-v1.db"
V0 = DATA / "adk-python-2.13-database-v0.db"
JSON = DATA / "adk-python-2.13-sessions.json"
JS = DATA / "adk-js-2.0.0.db"

T0 = 1_767_225_600.0
ISO = "2026-01-01T00:00:0{}.5Z"


def expected_sessions() -> list[dict[str, Any]]:
    """Return the sessions of the Python stores as ADK itself reads them.

    ADK reads an auth scheme's `type_`, the name its own dump gave `type`, as a field more: that one is left out.
    """
    data: list[dict[str, Any]] = json.loads(JSON.read_text())
    del data[0]["events"][2]["actions"]["requestedAuthConfigs"]["c1"]["authScheme"]["type_"]
    return data


def copy_of(store: Path, folder: Path) -> Path:
    """Return a copy of a golden file that a test may change."""
    return Path(shutil.copy(store, folder / store.name))


def execute(store: Path, sql: str, *rows: tuple[Any, ...]) -> Path:
    """Change a store behind its program's back: one statement, once for each row of values."""
    with sqlite3.connect(store) as connection:
        for row in rows or ((),):
            connection.execute(sql, row)
    connection.close()
    return store


SQLITE_TABLES = """
CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT, update_time REAL);
CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT, update_time REAL,
    PRIMARY KEY (app_name, user_id));
CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT, create_time REAL, update_time REAL,
    PRIMARY KEY (app_name, user_id, id));
CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, timestamp REAL,
    event_data TEXT, PRIMARY KEY (app_name, user_id, session_id, id));
"""


def sqlite_store(path: Path, *events: dict[str, Any], state: Any = None) -> Path:
    """Write a store in the layout of `SqliteSessionService`: one session `weather/ann/s1` with these events."""
    with sqlite3.connect(path) as connection:
        connection.executescript(SQLITE_TABLES)
        times = [event.get("timestamp", T0) for event in events]
        newest = max((time for time in times if isinstance(time, float)), default=T0)
        connection.execute(
            "INSERT INTO sessions VALUES ('weather', 'ann', 's1', ?, ?, ?)",
            [json.dumps(state or {}), T0, newest],
        )
        add_events(connection, *events)
    connection.close()
    return path


def add_events(connection: sqlite3.Connection, *events: dict[str, Any], session: str = "s1") -> None:
    """Add events to a session, behind its state's back."""
    for event in events:
        connection.execute(
            "INSERT INTO events VALUES (?, 'weather', 'ann', ?, 'i1', ?, ?)",
            [event["id"], session, event.get("timestamp", T0), json.dumps(event)],
        )


def an_event(n: int, text: str = "hello", **fields: Any) -> dict[str, Any]:
    """Return an event as ADK for Python stores it."""
    content = {"role": "model", "parts": [{"text": text}]}
    return {"id": f"e{n}", "author": "weather", "timestamp": T0 + n, "content": content, **fields}


def delta(**keys: Any) -> dict[str, Any]:
    """Return the actions of an event that writes keys."""
    return {"actions": {"state_delta": keys}}


GO_TABLES = """
CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT, update_time DATETIME);
CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT, update_time DATETIME,
    PRIMARY KEY (app_name, user_id));
CREATE TABLE sessions (app_name TEXT, user_id TEXT, id TEXT, state TEXT, create_time DATETIME,
    update_time DATETIME, PRIMARY KEY (app_name, user_id, id));
CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, author TEXT,
    actions BLOB, long_running_tool_ids_json TEXT, routes_json TEXT, output_json TEXT, node_info_json TEXT,
    requested_input_json TEXT, branch TEXT, isolation_scope TEXT, timestamp DATETIME, content TEXT,
    grounding_metadata TEXT, custom_metadata TEXT, usage_metadata TEXT, citation_metadata TEXT,
    partial INTEGER, turn_complete INTEGER, error_code TEXT, error_message TEXT, interrupted INTEGER,
    PRIMARY KEY (id, app_name, user_id, session_id));
"""


def go_store(path: Path) -> Path:
    """Write a synthetic store in the layout of adk-go's database service (GORM)."""
    actions = {
        "stateDelta": {"city": "Paris", "user:visits": 1},
        "artifactDelta": {},
        "deletedArtifactIds": ["x"],
    }
    content = {
        "role": "model",
        "parts": [{"text": "Bonjour"}, {"inlineData": {"mimeType": "image/png", "data": "+/8AAQ=="}}],
    }
    with sqlite3.connect(path) as connection:
        connection.executescript(GO_TABLES)
        connection.execute(
            "INSERT INTO user_states VALUES ('weather', 'ann', '{\"visits\":1}', ?)", [ISO.format(2)]
        )
        connection.execute(
            "INSERT INTO sessions VALUES ('weather', 'ann', 'go-1', '{\"city\":\"Paris\"}', ?, ?)",
            [ISO.format(0), ISO.format(2)],
        )
        connection.execute(
            "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, author, actions, content,"
            " routes_json, timestamp, turn_complete) VALUES ('g1', 'weather', 'ann', 'go-1', 'i1', 'weather',"
            " ?, ?, '[\"left\"]', ?, 1)",
            [json.dumps(actions).encode(), json.dumps(content), ISO.format(2)],
        )
    connection.close()
    return path


RUST_TABLES = """
CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT, updated_at TEXT);
CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT, updated_at TEXT,
    PRIMARY KEY (app_name, user_id));
CREATE TABLE sessions (app_name TEXT, user_id TEXT, session_id TEXT, state TEXT, created_at TEXT,
    updated_at TEXT, PRIMARY KEY (app_name, user_id, session_id));
CREATE TABLE events (id TEXT, app_name TEXT, user_id TEXT, session_id TEXT, invocation_id TEXT, branch TEXT,
    author TEXT, timestamp TEXT, llm_response TEXT, actions TEXT, long_running_tool_ids TEXT,
    PRIMARY KEY (id, app_name, user_id, session_id));
"""


def rust_store(path: Path) -> Path:
    """Write a synthetic store in the layout of adk-rust's SQLite service."""
    response = {
        "content": {
            "role": "model",
            "parts": [
                {"thinking": "hm", "signature": None},
                {"text": "Salut"},
                {"name": "look", "args": {"a_b": 1}, "id": "c1"},
                {"functionResponse": {"name": "look", "response": {"ok": True}}, "id": "c1"},
                {"mime_type": "image/png", "data": [251, 255, 0, 1]},
            ],
        },
        "partial": False,
        "turn_complete": True,
        "usage_metadata": {"prompt_token_count": 5, "total_token_count": 8},
        "provider_metadata": None,
    }
    actions = {"state_delta": {"city": "Paris"}, "tool_confirmation": 1}
    merged = {"city": "Paris", "app:units": "C", "user:name": "Ann"}
    with sqlite3.connect(path) as connection:
        connection.executescript(RUST_TABLES)
        connection.execute(
            "INSERT INTO app_states VALUES ('weather', '{\"units\":\"C\"}', ?)", [ISO.format(0)]
        )
        connection.execute(
            "INSERT INTO user_states VALUES ('weather', 'ann', '{\"name\":\"Ann\"}', ?)", [ISO.format(0)]
        )
        connection.execute(
            "INSERT INTO sessions VALUES ('weather', 'ann', 'r-1', ?, ?, ?)",
            [json.dumps(merged), ISO.format(0), ISO.format(1)],
        )
        connection.execute(
            "INSERT INTO events VALUES ('r1', 'weather', 'ann', 'r-1', 'i1', 'main', 'weather', ?, ?, ?, '[]')",
            [
                ISO.format(1),
                json.dumps(response),
                json.dumps(actions),
            ],
        )
    connection.close()
    return path


class Bomb:
    """What a hostile pickle does when it is loaded: it makes a file."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Any, ...]:
        return (exec, (f"open({str(self.target)!r}, 'w').write('boom')",))


def hostile_pickle(target: Path) -> bytes:
    """Return a pickle that makes the file `target` when it is loaded."""
    return pickle.dumps(Bomb(target))


DEEP_TUPLE = b"\x80\x04\x8f()" + b"\x85" * 300_000 + b"\x90."
"""Pickle of a tuple in 300,000 others in a set: hashing it overflows the stack."""
