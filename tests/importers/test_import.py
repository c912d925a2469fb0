"""An import can be stopped, resumed and repeated; a bad row affects no other; existing data is never changed."""

from __future__ import annotations

import json
import sqlite3
from itertools import islice

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.adk import DjangoSessionService
from sessions_app.runs import lifecycle as runs
from sessions_app.store.models import AgentSession, Event, ImportedSession, StateChange
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.writes import SessionKey
from sessions_app.transfer.readers.detection import open_source
from sessions_app.transfer.readers.tables import RAW, UNREAD
from sessions_app.transfer.writers import import_sessions
from tests.importers import stores
from tests.importers.own_store import ledger_matches_state
from tests.importers.stores import add_events, an_event, copy_of, delta, execute, sqlite_store
from tests.pages.html import parse
from tests.sessions.build import event

KEY = SessionKey("", "weather", "ann", "s1")


def test_a_second_run_adds_nothing(load):
    load(stores.SQLITE)
    changes = StateChange.objects.count()

    report = load(stores.SQLITE)

    assert (report.created, report.extended, report.unchanged, report.events) == (0, 0, 3, 0)
    assert (Event.objects.count(), StateChange.objects.count()) == (9, changes)
    assert report.is_complete


def test_second_import_adds_only_new_events(load, read, tmp_path):
    store = sqlite_store(tmp_path / "s.db", an_event(1, **delta(a=1)), state={"a": 1, "seed": 0})
    load(store)
    with sqlite3.connect(store) as connection:
        add_events(connection, an_event(2, "more", **delta(a=2)))
        connection.execute(
            "UPDATE sessions SET update_time = ?, state = ?", [stores.T0 + 2, '{"a":2,"seed":0}']
        )
    connection.close()

    report = load(store)

    assert (report.created, report.extended, report.events) == (0, 1, 1)
    assert read()["state"] == {"a": 2, "seed": 0}
    assert [event["id"] for event in read()["events"]] == ["e1", "e2"]
    assert ledger_matches_state()


def test_interrupted_import_continues(load, read, tmp_path, monkeypatch):
    events = [an_event(n, **delta(count=n, **{"user:n": n})) for n in range(1, 451)]
    store = sqlite_store(tmp_path / "s.db", *events, state={"count": 450, "seed": 1})

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(store, progress=stop)
    assert 0 < Event.objects.count() < 450
    assert not ImportedSession.objects.get().is_settled

    report = load(store)

    assert report.is_complete
    assert [event["id"] for event in read()["events"]] == [event["id"] for event in events]
    assert read()["state"] == {"count": 450, "seed": 1, "user:n": 450}
    assert AgentSession.objects.get().last_seq == AgentSession.objects.get().revision == 450
    assert ledger_matches_state()


def test_progress_reports_events_read(load, tmp_path):
    store = sqlite_store(tmp_path / "s.db", *(an_event(n) for n in range(1, 302)))
    messages = []

    load(store, progress=messages.append)

    assert messages == sorted(messages)
    assert messages[-1] == 301


def test_dry_run_reports_and_writes_nothing(load):
    report = load(stores.V0, dry_run=True)

    assert (report.created, report.events) == (3, 9)
    assert not AgentSession.objects.exists()
    load(stores.V0)
    assert load(stores.V0, dry_run=True).unchanged == 3


def test_a_hostile_pickle_runs_nothing_and_harms_no_other_row(load, read, tmp_path):
    store, target = copy_of(stores.V0, tmp_path), tmp_path / "boom"
    blob = stores.hostile_pickle(target)
    execute(store, "UPDATE events SET actions = ? WHERE id = 'e1-3'", (blob,))

    report = load(store)

    assert not target.exists()
    assert (report.created, report.events) == (3, 9)
    [line] = report.unread
    assert "e1-3" in line
    assert "builtins.exec" in line
    flagged = read()["events"][2]
    assert "builtins.exec" in flagged["customMetadata"][UNREAD]["actions"]
    assert flagged["content"] == stores.expected_sessions()[0]["events"][2]["content"]
    assert "city" in read()["state"]


def test_unreadable_row_is_stored_but_not_shown(load, tmp_path):
    store = copy_of(stores.V0, tmp_path)
    execute(store, "UPDATE events SET actions = x'80049500' WHERE id = 'e1-3'")

    load(store)

    row = Event.objects.get(event_id="e1-3")
    assert RAW not in row.data
    assert json.loads(row.private)["customMetadata"][RAW] == {"actions": "gASVAA=="}


def test_rows_that_cannot_be_read_are_reported_and_the_rest_comes(load, read, tmp_path):
    store = sqlite_store(tmp_path / "s.db", *(an_event(n) for n in range(1, 5)))
    execute(store, "UPDATE events SET event_data = '{broken' WHERE id = 'e2'")
    execute(store, "UPDATE events SET event_data = '[1]' WHERE id = 'e3'")
    execute(store, "INSERT INTO sessions VALUES ('weather', 'ann', 'bad', 'no json', 1.0, 1.0)")
    execute(store, "INSERT INTO sessions VALUES ('weather', 'ann', 'timeless', '{}', 'never', 1.0)")

    report = load(store)

    assert [event["id"] for event in read()["events"]] == ["e1", "e4"]
    assert report.unread.total == 4
    assert {"event weather/ann/s1/e2", "event weather/ann/s1/e3", "session weather/ann/timeless"} <= {
        line.partition(":")[0] for line in report.unread
    }
    assert load(store).events == 0


def test_nul_characters_and_lone_surrogates_lose_no_event(load, read, tmp_path):
    strange = an_event(1, "a\ud800b\x00c", **delta(**{"k\x00\udfff": "v\x00\ud800"}))
    store = sqlite_store(tmp_path / "s.db", strange)

    report = load(store)

    assert report.events == 1
    assert read()["events"][0]["content"]["parts"][0]["text"] == "a�b\x00c"
    assert ledger_matches_state()


def test_an_id_that_no_store_can_hold_is_reported(load, tmp_path):
    store = sqlite_store(tmp_path / "s.db", an_event(1))
    execute(
        store, "INSERT INTO sessions VALUES ('weather', 'ann', ?, '{}', 1.0, 1.0)", ("a\x00b",), ("x" * 600,)
    )
    stored = an_event(2) | {"id": "e\x00"}
    with sqlite3.connect(store) as connection:
        add_events(connection, stored)
    connection.close()

    report = load(store)

    assert (report.created, report.events, report.unread.total) == (1, 1, 3)


def test_different_events_with_the_same_id_are_both_imported(load, read, tmp_path):
    session = stores.expected_sessions()[0]
    session["events"] = [
        {"id": "same", "author": "user", "timestamp": 1.0, "content": {"parts": [{"text": text}]}}
        for text in ("one", "one", "two")
    ]
    document = tmp_path / "s.json"
    document.write_text(json.dumps(session))

    report = load(document)

    assert [event["id"] for event in read()["events"]] == ["same", "same~2"]
    assert report.changed.total == 2
    assert load(document).events == 0


def test_store_without_scope_rows_takes_state_from_events(load, read, tmp_path):
    store = copy_of(stores.V1, tmp_path)
    execute(store, "DELETE FROM user_states")
    execute(store, "DROP TABLE app_states")

    assert load(store).is_complete
    assert read()["state"]["user:visits"] == 3
    assert "user:name" not in read()["state"]


def test_events_of_a_session_that_is_missing_are_reported(load, tmp_path):
    store = sqlite_store(tmp_path / "s.db", an_event(1))
    with sqlite3.connect(store) as connection:
        add_events(connection, an_event(2), session="gone")
    connection.close()

    assert load(store).unread.lines == ["event e2: its session weather/ann/gone is missing"]


def test_a_session_of_another_origin_is_left_as_it_is(load, tmp_path):
    writes.create_session(KEY, {"mine": 1})

    report = load(stores.SQLITE)

    assert AgentSession.objects.get(**KEY._asdict()).last_seq == 0
    assert (report.created, report.conflicts.total) == (2, 1)
    assert "is not from this source" in report.conflicts.lines[0]


def test_session_with_other_content_is_a_reported_conflict(load, read, tmp_path):
    store = sqlite_store(tmp_path / "s.db", an_event(1, "mine"))
    load(store)
    execute(store, "UPDATE events SET event_data = ?", (json.dumps(an_event(1, "theirs")),))
    execute(store, "UPDATE sessions SET update_time = update_time + 1")

    report = load(store)

    assert "other content" in report.conflicts.lines[0]
    assert read()["events"][0]["content"]["parts"][0]["text"] == "mine"


async def test_locally_continued_session_is_not_extended(load, tmp_path):
    from asgiref.sync import sync_to_async

    store = sqlite_store(tmp_path / "s.db", an_event(1))
    await sync_to_async(load)(store)
    service = DjangoSessionService()
    session = await service.get_session(app_name="weather", user_id="ann", session_id="s1")
    await service.append_event(session, event("here", id="mine"))
    with sqlite3.connect(store) as connection:
        add_events(connection, an_event(2))
    connection.close()

    report = await sync_to_async(load)(store)

    assert report.conflicts.total == 1
    assert report.events == 0


def test_shared_state_of_other_writers_keeps_value_and_gets_history(load, read):
    writes.create_session(KEY._replace(session_id="live"), {"user:visits": 100, "user:mine": 1})

    report = load(stores.SQLITE)

    state_here = read(session="live")["state"]
    assert (state_here["user:visits"], state_here["user:mine"], state_here["user:name"]) == (100, 1, "Ann")
    assert any("visits" in line for line in report.conflicts)
    visits = StateChange.objects.filter(scope="user", key="visits").order_by("position", "id")
    assert [row.value for row in visits] == ["1", "2", "3", "100"]
    assert ledger_matches_state()


def test_locally_changed_value_survives_second_import(load, read, tmp_path):
    store = copy_of(stores.SQLITE, tmp_path)
    load(store)
    writes.create_session(KEY._replace(session_id="live"), {"user:visits": 100})
    with sqlite3.connect(store) as connection:
        add_events(connection, an_event(99, **delta(**{"user:visits": 4})), session="s/2")
        connection.execute("UPDATE sessions SET update_time = ? WHERE id = 's/2'", [stores.T0 + 99])
        connection.execute("UPDATE user_states SET state = '{\"visits\":4}'")
    connection.close()

    report = load(store)

    assert report.events == 1
    assert read()["state"]["user:visits"] == 100
    assert ledger_matches_state()


def test_a_session_with_an_active_run_is_left_alone(load, tmp_path):
    store = sqlite_store(tmp_path / "s.db", an_event(1))
    load(store)
    run = runs.create_run(AgentSession.objects.get().pk, {})
    with sqlite3.connect(store) as connection:
        add_events(connection, an_event(2))
    connection.close()
    execute(store, "UPDATE sessions SET update_time = 9.0")

    assert run.id in load(store).conflicts.lines[0]


def test_a_long_source_is_never_held_in_memory(store, tmp_path):
    """Only a batch of events is read ahead of what is written."""
    source = open_source(str(sqlite_store(tmp_path / "s.db", *(an_event(n) for n in range(1, 1001)))))
    taken_counts, original = [], source.events

    def counted():
        for item in original():
            taken_counts.append(Event.objects.count())
            yield item

    source.events = counted
    import_sessions(source)
    source.close()

    ahead = [number - stored_count for number, stored_count in enumerate(taken_counts, 1)]
    assert max(ahead) <= 200


def test_events_come_in_the_order_of_time_across_sessions():
    source = open_source(str(stores.JSON))

    order = [event.wire["id"] for event in islice(source.events(), 100)]

    assert order == ["e1-1", "e1-2", "e1-3", "e1-4", "e2-1", "e2-2", "e2-3", "e2-4", "e3"]


def test_invalid_token_counts_do_not_stop_the_import(load, tmp_path):
    usage = {"total_token_count": "many"}
    store = sqlite_store(tmp_path / "s.db", an_event(1, usage_metadata=usage), an_event(2))

    report = load(store)

    assert (report.created, report.events) == (1, 2)


def test_session_with_unserializable_types_loads_in_agents(load, read, tmp_path):
    odd = {
        "id": "e1",
        "author": 5,
        "branch": [1],
        "timestamp": 1.0,
        "content": {"role": "model", "parts": [{"text": 5}, {"text": "kept"}]},
        "actions": {"artifactDelta": {"f.txt": "zz", "g.txt": 2}},
        "usageMetadata": {"totalTokenCount": "many"},
    }
    file = tmp_path / "session.json"
    file.write_text(json.dumps({"id": "s1", "appName": "weather", "userId": "ann", "events": [odd]}))
    load(file)

    [event] = read()["events"]

    assert event["content"]["parts"][-1]["text"] == "kept"
    assert event["actions"]["artifactDelta"] == {"g.txt": 2}
    aside = event["customMetadata"]["devui_unknown"]
    assert aside["actions.artifactDelta.f.txt"] == "zz"
    assert aside["content.parts.0.text"] == 5
    assert aside["usageMetadata.totalTokenCount"] == "many"


def test_entries_that_are_no_sessions_or_repeat_one_are_reported_and_left_out(load, tmp_path):
    def session(name: object, *ids: str, **fields: object) -> dict[str, object]:
        events = [{"id": name, "author": "user", "timestamp": 1.0} for name in ids]
        return {"id": name, "appName": "weather", "userId": "ann", "events": events, **fields}

    file = tmp_path / "sessions.json"
    entries = [session("dup", "a", "a2"), session("dup", "b"), session(7), session("x", events={}), "text"]
    file.write_text(json.dumps(entries))
    report = load(file)
    assert list(Event.objects.values_list("event_id", flat=True)) == ["a", "a2"]
    assert not report.is_complete
    assert report.unread.total == 4


def test_removed_source_keys_need_a_constant_number_of_queries(load, read, tmp_path):
    def statements(session: str, keys: int) -> int:
        event = {
            "id": "e1",
            "author": "agent",
            "timestamp": 1.0,
            "actions": {"stateDelta": {f"key{number}": number for number in range(keys)}},
        }
        file = tmp_path / f"{session}.json"
        document = {"id": session, "appName": "weather", "userId": "ann", "state": {}, "events": [event]}
        file.write_text(json.dumps(document))
        with CaptureQueriesContext(connection) as queries:
            load(file)
        assert read(session=session)["state"] == {}
        return len(queries)

    assert statements("s2", 15) == statements("s1", 3)


def test_imported_state_names_its_source_on_page_and_api(load, tmp_path, client):
    seeded = {"seed": 1, "n": 2}
    store = sqlite_store(tmp_path / "old.db", an_event(1, **delta(n=2)), state=seeded)
    execute(store, "INSERT INTO user_states VALUES ('weather', 'ann', '{\"tier\": \"gold\"}', 1767225600.0)")
    load(store)
    session = AgentSession.objects.get()
    body = client.get(f"/api/v1/sessions/{session.pk}").json()
    assert body["imported_from"] == str(store)
    [listed] = client.get("/api/v1/sessions").json()["sessions"]
    assert listed["imported_from"] == str(store)
    page = parse(client.get(f"/sessions/id/{session.pk}/").content)
    entry_texts = {item.attrs["data-key"]: item.text for item in page.all("li", "entry")}
    assert f"import from {store}" in entry_texts["seed"]
    assert f"import from {store}" in entry_texts["user:tier"]
    assert "delta by weather inferred" in entry_texts["n"]
    assert "deleted" not in "".join(entry_texts.values())
    head = page.one("span", css="session-facts").one("span", css="badge")
    assert (head.text, head.attrs["title"]) == ("imported", f"Imported from {store}")
    assert str(store) in page.one("section", css="inspector").text
    row = StateChange.objects.get(key="tier")
    history = parse(client.get(f"/state/history/{row.pk}/?session={session.pk}").content)
    assert "deleted" not in history.text
    assert f"import from {store}" in history.text
    assert "only s1" in history.text


def test_a_session_of_our_own_was_imported_from_nowhere(store, client):
    writes.create_session(SessionKey("", "weather", "ann", "own"))
    [listed] = client.get("/api/v1/sessions").json()["sessions"]
    assert listed["imported_from"] == ""
