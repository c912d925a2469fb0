"""Every known format of stores is imported as ADK reads it; unknown formats are refused with a reason."""

from __future__ import annotations

import json
import os
import sqlite3
from typing import Any

import pytest

from sessions_app.store import text_input
from sessions_app.store.errors import BadInput, DevUIError
from sessions_app.store.models import AgentSession, Event, ImportSource, StateChange
from sessions_app.transfer.exports import ExportFilter, export_json
from sessions_app.transfer.readers.detection import open_source
from sessions_app.transfer.readers.records import SourceFilter
from tests.importers import stores
from tests.importers.stores import an_event, copy_of, delta, execute, sqlite_store

PYTHON = [stores.SQLITE, stores.V1, stores.V0, stores.JSON]


@pytest.mark.parametrize("path", PYTHON, ids=lambda path: path.name)
def test_python_adk_sessions_are_imported_like_adk_reads_them(path, load, read):
    report = load(path)

    assert report.is_complete, report
    assert (report.created, report.events) == (3, 9)
    for session in stores.expected_sessions():
        stored_session = read(session["appName"], session["userId"], session["id"])
        if not session["events"]:  # made at another moment in each store
            session["lastUpdateTime"] = stored_session["lastUpdateTime"]
        assert stored_session == session


def test_javascript_store_is_imported_with_times_and_spelling(load, read):
    report = load(stores.JS)

    assert report.format == "ADK for JavaScript"
    assert report.is_complete
    session = read(session="js-1")
    assert [event["timestamp"] for event in session["events"]] == [
        1767225600.123,
        1767225601.456,
        1767225602.789,
        1767225603.0,
    ]
    parts = session["events"][2]["content"]["parts"]
    assert parts[0]["functionResponse"]["response"] == {"skyColor": "blue", "wind_speed": 3}
    assert parts[1]["inlineData"]["data"] == "-_8AAQ=="
    assert session["state"] == {
        "city": None,
        "lastCity": "Paris",
        "seeded": [1, 2],
        "app:calls": 1,
        "app:units": "C",
        "user:name": "Ann",
        "user:visits": 1,
    }
    assert read(user="bob", session="js-2")["events"] == []


def test_go_adk_store_is_imported_with_its_extra_fields(load, read, tmp_path):
    report = load(stores.go_store(tmp_path / "any name"))

    assert report.format == "ADK for Go"
    [event] = read(session="go-1")["events"]
    assert event["timestamp"] == stores.T0 + 2.5
    assert event["content"]["parts"][1]["inlineData"]["data"] == "-_8AAQ=="
    assert event["turnComplete"] is True
    assert event["customMetadata"]["devui_unknown"] == {"actions.deletedArtifactIds": ["x"]}
    assert "routes" in Event.objects.get().data
    assert read(session="go-1")["state"] == {"city": "Paris", "user:visits": 1}


def test_rust_store_is_imported_with_split_state_and_named_parts(load, read, tmp_path):
    report = load(stores.rust_store(tmp_path / "rust.db"))

    assert report.format == "adk-rust"
    session = read(session="r-1")
    assert session["state"] == {"city": "Paris", "app:units": "C", "user:name": "Ann"}
    thought, text, call, result, image = session["events"][0]["content"]["parts"]
    assert thought == {"text": "hm", "thought": True}
    assert text == {"text": "Salut"}
    assert call == {"functionCall": {"id": "c1", "name": "look", "args": {"a_b": 1}}}
    assert result == {"functionResponse": {"id": "c1", "name": "look", "response": {"ok": True}}}
    assert image["inlineData"]["data"] == "-_8AAQ=="


def test_a_folder_that_adk_web_has_run_is_read_by_its_session_file(load, tmp_path):
    folder = tmp_path / "agent" / ".adk"
    folder.mkdir(parents=True)
    copy_of(stores.SQLITE, folder).rename(folder / "session.db")

    assert load(tmp_path / "agent").events == 9
    assert load(folder).unchanged == 3


def test_file_is_recognized_by_content_not_by_name(load, tmp_path):
    disguised = copy_of(stores.V0, tmp_path).rename(tmp_path / "sessions.json")

    assert load(disguised).format == "ADK DatabaseSessionService (v0, pickled actions)"


def test_sessions_of_one_app_can_be_selected(load):
    report = load(stores.SQLITE, source_filter=SourceFilter(app_name="weather"))

    assert report.created == 2
    assert not AgentSession.objects.exclude(app_name="weather").exists()


def test_sessions_of_one_user_can_be_selected(load):
    assert load(stores.V1, source_filter=SourceFilter(user_id="bob")).created == 1


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty", b"", "neither an SQLite database nor JSON"),
        ("text", b"hello", "neither an SQLite database nor JSON"),
        ("list.json", b"[1, 2]", "holds no session"),
        ("broken.json", b'{"a": ', "neither a database nor JSON"),
        ("deep.json", b"[" * 200_000, "neither a database nor JSON"),
        ("torn.db", stores.SQLITE.read_bytes()[:5000], "cannot be read as|is damaged|no store of ADK"),
        ("newer.jsonl", b'{"kind": "devui.sessions", "version": 99}\n', "version 99"),
    ],
)
def test_unknown_format_is_refused(load, tmp_path, name, content, words):
    file = tmp_path / name
    file.write_bytes(content)

    with pytest.raises(DevUIError, match=words):
        load(file)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_session_json_that_powershell_wrote_is_read(load, tmp_path, encoding):
    file = tmp_path / "session.json"
    file.write_text(stores.JSON.read_text(), encoding=encoding)

    report = load(file)

    assert (report.format, report.created, report.is_complete) == ("session JSON of adk web", 3, True)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_export_that_went_through_powershell_is_read(load, tmp_path, encoding):
    load(stores.SQLITE)
    export_json(ExportFilter(), tmp_path / "all.jsonl")
    file = tmp_path / "copy.jsonl"
    file.write_text((tmp_path / "all.jsonl").read_text().replace("\n", "\r\n"), encoding=encoding)
    AgentSession.objects.all().delete()

    report = load(file)

    assert (report.format, report.created, report.is_complete) == ("DevUI export", 3, True)


def test_session_json_of_too_many_values_is_refused(load, tmp_path, monkeypatch):
    monkeypatch.setattr(text_input, "MAX_FILE_VALUES", 1_000)
    file = tmp_path / "many.json"
    file.write_text(json.dumps([[]] * 1_001))

    with pytest.raises(BadInput, match="too large: it has more than 1,000 values"):
        load(file)


def test_state_of_too_many_values_is_reported_and_the_rest_is_read(load, tmp_path, monkeypatch):
    store = stores.sqlite_store(tmp_path / "session.db", stores.an_event(1), state={"a": [[]] * 600_000})

    report = load(store)

    assert report.created == 1
    assert list(report.unread) == ["state of weather/ann/s1: it has more than 1,000,000 values"]


def test_names_of_keys_that_cannot_be_stored_are_reported(load, tmp_path):
    actions = {"state_delta": {"a\0b": 1}}
    state = {"a\0b": 1, "c\ud800": 2}
    store = stores.sqlite_store(tmp_path / "session.db", stores.an_event(1, actions=actions), state=state)

    report = load(store)

    assert list(report.changed) == [
        "event e1 of weather/ann/s1: state key 'a\\x00b': stored as 'a\N{REPLACEMENT CHARACTER}b'",
        "weather/ann/s1: state key 'a\\x00b': stored as 'a\N{REPLACEMENT CHARACTER}b'",
        "weather/ann/s1: state key 'c\\ud800': stored as 'c\N{REPLACEMENT CHARACTER}'",
    ]


def test_values_that_are_cut_off_are_reported(load, tmp_path):
    deep: Any = 1
    for _ in range(101):
        deep = [deep]
    event = stores.an_event(1, actions={"state_delta": {"deep": deep}})

    report = load(stores.sqlite_store(tmp_path / "session.db", event, state={"deep": deep}))

    assert list(report.changed) == ["event e1 of weather/ann/s1: values deeper than 100 levels were cut off"]


def test_a_database_of_something_else_is_refused(load, tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE sessions (id TEXT)")

    with pytest.raises(DevUIError, match="no store of ADK sessions"):
        load(tmp_path / "other.db")


def test_a_view_that_poses_as_a_table_is_refused(load, tmp_path):
    with sqlite3.connect(tmp_path / "view.db") as connection:
        connection.execute("CREATE VIEW sessions AS SELECT 1 AS app_name, 1 AS user_id, 1 AS state")

    with pytest.raises(DevUIError, match="no store of ADK sessions"):
        load(tmp_path / "view.db")


def test_a_store_of_a_newer_adk_is_refused(load, tmp_path):
    store = copy_of(stores.V1, tmp_path)
    execute(store, "UPDATE adk_internal_metadata SET value = '2'")

    with pytest.raises(DevUIError, match="schema version 2"):
        load(store)


@pytest.mark.parametrize("location", ["nowhere.db", "oracle://host/name", "/"])
def test_missing_file_is_refused(load, location):
    with pytest.raises(DevUIError):
        load(location)


def test_a_source_is_never_changed(load, tmp_path):
    store = copy_of(stores.SQLITE, tmp_path)
    before = store.read_bytes()
    os.chmod(store, 0o400)

    load(store)

    assert store.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [store.name]


def test_a_live_store_can_be_written_while_it_is_read(tmp_path):
    store = sqlite_store(tmp_path / "live.db", *(an_event(n) for n in range(1, 20)))
    source = open_source(str(store))
    events = source.events()
    next(events)

    execute(store, "DELETE FROM events")

    assert len(list(events)) == 18
    source.close()


def test_store_in_wal_mode_is_read_with_its_log(load, tmp_path):
    store = sqlite_store(tmp_path / "wal.db", an_event(1))
    writer = sqlite3.connect(store)
    writer.execute("PRAGMA journal_mode=WAL")
    stores.add_events(writer, an_event(2))
    writer.commit()

    assert load(store).events == 2
    writer.close()


def test_local_times_of_old_adk_are_read_in_given_timezone(load, read, tmp_path):
    from zoneinfo import ZoneInfo

    store = copy_of(stores.V0, tmp_path)
    execute(store, "UPDATE events SET timestamp = datetime(timestamp, '+1 hour') || '.000000'")
    execute(store, "DELETE FROM sessions WHERE app_name = 'news'")

    load(store, zone=ZoneInfo("Europe/Berlin"))
    assert read()["events"][-1]["timestamp"] == stores.T0 + 60


def test_source_of_a_session_is_stored(load):
    load(stores.SQLITE)

    session = AgentSession.objects.select_related("imported__source").get(session_id="s/2")
    assert session.origin == "import"
    assert session.imported.source.location == str(stores.SQLITE.resolve())
    assert ImportSource.objects.get().format == "ADK SqliteSessionService"


def test_shared_keys_get_their_original_history_across_sessions(load):
    load(stores.V1)

    visits = StateChange.objects.filter(scope="user", key="visits").order_by("position")
    assert [row.value for row in visits] == ["1", "2", "3"]
    assert list(
        Event.objects.filter(event_id__in=["e1-3", "e2-3", "e3"])
        .order_by("timestamp")
        .values_list("user_version", flat=True)
    ) == [1, 2, 3]


def test_state_that_no_event_explains_is_a_seed_and_never_unknown(load):
    load(stores.SQLITE)

    seeds = StateChange.objects.filter(position=0)
    assert {(row.scope, row.key, row.value) for row in seeds} == {
        ("session", "seeded", '[1,{"two":2}]'),
        ("session", "topic", '"x"'),
        ("user", "name", '"Ann"'),
        ("app", "units", '"C"'),
    }
    assert {row.cause for row in StateChange.objects.all()} == {"import"}


def test_state_changed_behind_the_events_ends_as_the_source_has_it(load, read, tmp_path):
    store = sqlite_store(
        tmp_path / "drift.db", an_event(1, **delta(a=1, b=1, c=True)), state={"a": 2, "c": 1, "d": 4}
    )

    load(store)

    assert read()["state"] == {"a": 2, "c": 1, "d": 4}
    removed = StateChange.objects.get(key="b", removed=True)
    assert (removed.position, removed.seq) == (1, 0)


def test_damaged_database_is_refused_as_damaged(load, tmp_path):
    store = copy_of(stores.V0, tmp_path)
    content = bytearray(store.read_bytes())
    content[4096:] = b"\xff" * len(content[4096:])
    store.write_bytes(content)

    with pytest.raises(DevUIError, match=r"is damaged|cannot be read as"):
        load(store)
