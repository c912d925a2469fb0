"""Exports can be imported again unchanged, and ADK opens the store that is exported for it."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.core.management import CommandError, call_command
from google.adk.events.event import Event as AdkEvent
from google.adk.sessions.sqlite_session_service import SqliteSessionService

from sessions_app.adk import DjangoSessionService
from sessions_app.sessions import judgements, labels
from sessions_app.store.models import AgentSession
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.writes import SessionKey
from sessions_app.store.state import history as history
from sessions_app.transfer.exports import ExportFilter, export_adk_sqlite, export_json
from sessions_app.transfer.readers.event_schema import snake_case
from tests import forked_processes
from tests.importers import stores
from tests.importers.own_store import empty_store
from tests.sessions.full_event import ACCESS_TOKEN, INTERNAL_MARK, full_event

ROOT = Path(__file__).resolve().parents[2]
LIVE = SessionKey("", "weather", "ann", "live")


def fill_live() -> None:
    service = DjangoSessionService()
    session = async_to_sync(service.create_session)(
        app_name="weather", user_id="ann", session_id="live", state={"seed": 1, "user:visits": 7, "gone": 1}
    )
    async_to_sync(service.append_event)(session, full_event())
    writes.edit_state(LIVE, {"seed": 2}, removed=["gone"])
    writes.rename_session(session_row().pk, "A title")
    labels.tag([session_row().pk], "bug")
    judgements.judge(session_row().pk, 1, "bad", "It rains.", person="bob")


def session_row() -> AgentSession:
    return AgentSession.objects.get(**LIVE._asdict())


def test_an_export_comes_back_equal(load, read, tmp_path):
    fill_live()
    load(stores.SQLITE)
    before = {name: read(session=name) for name in ("live", "s1", "s/2")}
    judged_at = session_row().judgements.get().judged_at
    done = export_json(ExportFilter(), tmp_path / "all.jsonl", credentials=True)
    empty_store()

    report = load(tmp_path / "all.jsonl")

    assert report.is_complete, report
    assert (report.created, report.events) == (done.sessions, done.events) == (4, 11)
    assert {name: read(session=name) for name in before} == before
    assert session_row().title == "A title"
    assert [tag.name for tag in session_row().tags.all()] == ["bug"]
    judgement = session_row().judgements.get()
    assert (judgement.seq, judgement.verdict, judgement.note) == (1, "bad", "It rains.")
    assert (judgement.person, judgement.judged_at) == ("bob", judged_at)
    export_json(ExportFilter(), tmp_path / "again.jsonl", credentials=True)
    assert (tmp_path / "again.jsonl").read_text() == (tmp_path / "all.jsonl").read_text()


@pytest.mark.parametrize(
    "damage",
    [
        {"verdict": "odd"},
        {"note": "x" * 2_001},
        {"judged_at": "today"},
        {"judged_at": float("inf")},
        {"person": None},
    ],
)
def test_damaged_judgement_is_left_out(load, tmp_path, damage):
    fill_live()
    export_json(ExportFilter(), tmp_path / "all.jsonl")
    empty_store()
    records = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    [judged] = [record for record in records if "judgement" in record]
    judged["judgement"] |= damage
    (tmp_path / "all.jsonl").write_text("\n".join(map(json.dumps, records)))
    assert load(tmp_path / "all.jsonl").is_complete
    assert session_row().last_seq == 2
    assert not session_row().judgements.exists()


def test_withdrawn_judgement_is_not_exported(store, tmp_path):
    fill_live()
    judgements.withdraw(session_row().pk, 1)
    export_json(ExportFilter(), tmp_path / "all.jsonl")
    assert "judgement" not in (tmp_path / "all.jsonl").read_text()


def test_seeds_and_removals_keep_their_history(load, tmp_path):
    fill_live()
    export_json(ExportFilter(), tmp_path / "all.jsonl")
    empty_store()
    load(tmp_path / "all.jsonl")

    session = session_row()
    first = session.events.get(seq=1)
    assert history.state_at(session, first).merge_scopes()["seed"] == 1
    assert history.state_at(session, first).merge_scopes()["gone"] == 1
    assert "gone" not in history.state_at(session).merge_scopes()


def test_credentials_are_exported_only_on_request(store, tmp_path):
    fill_live()

    export_json(ExportFilter(), tmp_path / "public.jsonl")
    export_adk_sqlite(ExportFilter(), tmp_path / "public.db")
    export_json(ExportFilter(), tmp_path / "private.jsonl", credentials=True)

    for name in ("public.jsonl", "public.db"):
        content = (tmp_path / name).read_bytes()
        assert ACCESS_TOKEN.encode() not in content
        assert INTERNAL_MARK.encode() not in content
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    assert ACCESS_TOKEN in (tmp_path / "private.jsonl").read_text()


def test_adk_opens_the_store_that_is_written_for_it_and_reads_the_same(load, read, tmp_path):
    fill_live()
    load(stores.V0)
    path = tmp_path / "session.db"

    export_adk_sqlite(ExportFilter(), path, credentials=True)

    service = SqliteSessionService(str(path))
    for app, user, name in (("weather", "ann", "s1"), ("weather", "ann", "live"), ("news", "bob", "s1")):
        session = async_to_sync(service.get_session)(app_name=app, user_id=user, session_id=name)
        dumped = session.model_dump(mode="json", by_alias=True, exclude_none=True)
        assert without_auth(dumped) == without_auth(read(app, user, name))


def without_auth(session: dict) -> dict:
    """ADK reads its own auth schemes differently each time it stores them."""
    for event in session["events"]:
        event["actions"]["requestedAuthConfigs"] = sorted(event["actions"]["requestedAuthConfigs"])
    return session


def test_adk_continues_in_the_exported_store(load, tmp_path):
    load(stores.SQLITE)
    export_adk_sqlite(ExportFilter(app_name="weather"), tmp_path / "session.db")
    service = SqliteSessionService(str(tmp_path / "session.db"))
    get = async_to_sync(service.get_session)
    session = get(app_name="weather", user_id="ann", session_id="s1")

    async_to_sync(service.append_event)(session, AdkEvent(author="user", invocation_id="i9"))

    assert len(get(app_name="weather", user_id="ann", session_id="s1").events) == 6


def test_fields_are_named_like_in_adks_store():
    wire = full_event().model_dump(mode="json", by_alias=True, exclude_none=True)
    stored = full_event().model_dump(mode="json", exclude_none=True)
    for form in (wire["actions"], stored["actions"]):
        form.pop("requestedAuthConfigs", None)
        form.pop("requested_auth_configs", None)

    assert snake_case("Event", wire) == stored


def test_only_selected_sessions_are_exported(load, tmp_path):
    load(stores.SQLITE)

    done = export_json(ExportFilter("weather", "ann", "s/2"), tmp_path / "one.jsonl")

    assert (done.sessions, done.events) == (1, 4)
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "one.jsonl").read_text().splitlines()]
    assert kinds == ["devui.sessions", "app", "user", "session", *["event"] * 4]


def test_commands_report_their_results(load, tmp_path, capsys):
    call_command("import_sessions", str(stores.SQLITE))
    call_command("export_sessions", "--format=adk-sqlite", f"--output={tmp_path / 'session.db'}")

    output = capsys.readouterr().out
    assert "3 new session(s), 0 extended, 0 unchanged; 9 event(s) imported." in output
    assert "3 session(s), 9 event(s) in" in output


def test_the_import_command_fails_when_something_did_not_come(store, tmp_path, capsys):
    source = stores.copy_of(stores.V0, tmp_path)
    stores.execute(source, "UPDATE events SET actions = x'80' WHERE id = 'e1-3'")

    with pytest.raises(SystemExit) as end:
        call_command("import_sessions", str(source))

    assert end.value.code == 1
    assert "Could not be read (1):" in capsys.readouterr().out


def test_commands_refuse_in_one_line(store, tmp_path):
    (tmp_path / "there").touch()
    with pytest.raises(CommandError, match="no file"):
        call_command("import_sessions", "nowhere.db")
    with pytest.raises(CommandError, match="No session matches"):
        call_command("export_sessions", f"--output={tmp_path / 'x'}")
    writes.create_session(LIVE)
    with pytest.raises(CommandError, match="exists already"):
        call_command("export_sessions", f"--output={tmp_path / 'there'}")
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_a_dry_run_needs_no_store_that_was_used_before(tmp_path):
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{tmp_path / 'new.sqlite3'}"}
    command = [sys.executable, str(ROOT / "manage.py"), "import_sessions", str(stores.SQLITE), "--dry-run"]
    done = forked_processes.run(command, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "3 new session(s)" in done.stdout
    assert "would be imported" in done.stdout
