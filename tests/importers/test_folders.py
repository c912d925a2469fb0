"""A folder of files: each is told by what it holds, and the sessions in it are one story."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from sessions_app.models import AgentSession, Event, StateChange
from sessions_app.state import history
from sessions_app.transfer.readers import session_folders
from sessions_app.transfer.writers import fingerprint_of, import_location
from tests.importers import stores
from tests.importers.stores import T0, an_event, delta

pytestmark = pytest.mark.usefixtures("store")


def save_export(path: Path, session: str = "s1", *events: dict[str, Any], **fields: Any) -> Path:
    """Save a session as `adk web` exports it."""
    document = {
        "id": session,
        "appName": "weather",
        "userId": "ann",
        "state": {},
        "events": list(events),
        "lastUpdateTime": events[-1]["timestamp"] if events else T0,
        **fields,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def at(second: int, session: str, **written: Any) -> dict[str, Any]:
    """Return an event of a session at a second, which writes keys."""
    return an_event(second, f"{session} at {second}", **delta(**written)) | {
        "id": f"{session}-{second}",
        "timestamp": T0 + second,
    }


def seqs() -> dict[str, int]:
    return dict(AgentSession.objects.values_list("session_id", "last_seq"))


def run_import(capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str, status: int = 0) -> str:
    """Run the command and return what it said."""
    ended = 0
    try:
        call_command("import_sessions", str(folder), *arguments)
    except SystemExit as error:
        ended = int(error.code or 0)
    out = capsys.readouterr().out
    assert ended == status, out
    return out


def test_files_are_recognized_by_content_and_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    save_export(tmp_path / "session-1.json", "one", at(1, "one"))
    save_export(tmp_path / "deep" / "er" / "no-suffix", "two", at(2, "two"), at(3, "two"))
    shutil.copy(stores.V1, tmp_path / "called.txt")
    (tmp_path / "evalset.json").write_text('{"eval_set_id": "e", "eval_cases": []}')
    (tmp_path / "template.html").write_text("{% block x %}")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG")
    with closing(sqlite3.connect(tmp_path / "other.db")) as connection:
        connection.execute("CREATE TABLE things (a)")

    out = run_import(capsys, tmp_path)

    assert "session-1.json: 1 new session(s), 0 extended, 0 unchanged; 1 event(s) imported" in out
    assert "deep/er/no-suffix: 1 new session(s), 0 extended, 0 unchanged; 2 event(s) imported" in out
    assert "called.txt: ADK DatabaseSessionService (v1), 3 new session(s)" in out
    assert "evalset.json: skipped, it has no session" in out
    assert "template.html: skipped, it has no session" in out
    assert "other.db: skipped." in out
    assert "1 other file(s) are neither JSON nor databases" in out
    assert "5 new session(s), 0 extended, 0 unchanged; 12 event(s) imported." in out
    assert (seqs()["one"], seqs()["two"]) == (1, 2)


def test_second_import_adds_only_new_events(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    save_export(tmp_path / "a.json", "a", at(1, "a"))
    save_export(tmp_path / "b.json", "b", at(2, "b"))
    run_import(capsys, tmp_path)
    changes = StateChange.objects.count()
    assert "0 new session(s), 0 extended, 2 unchanged; 0 event(s) imported." in run_import(capsys, tmp_path)
    assert StateChange.objects.count() == changes

    save_export(tmp_path / "b.json", "b", at(2, "b"), at(4, "b"))
    save_export(tmp_path / "c.json", "c", at(3, "c"))
    out = run_import(capsys, tmp_path)
    assert "b.json: 0 new session(s), 1 extended, 0 unchanged; 1 event(s) imported" in out
    assert "1 new session(s), 1 extended, 1 unchanged; 2 event(s) imported." in out
    assert seqs() == {"a": 1, "b": 2, "c": 1}


def test_interrupted_import_continues(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for number in range(30):
        save_export(
            tmp_path / f"{number}.json", f"s{number}", *(at(number + n, f"s{number}") for n in range(20))
        )

    def stop(done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        import_location(str(tmp_path), progress=stop)
    assert 0 < Event.objects.count() < 600
    report = import_location(str(tmp_path))
    assert report.is_complete
    assert seqs() == {f"s{number}": 20 for number in range(30)}


def test_shared_keys_get_their_original_history(tmp_path: Path):
    save_export(
        tmp_path / "a.json",
        "a",
        at(1, "a", **{"user:n": 1}),
        at(4, "a", **{"user:n": 4}),
        state={"user:n": 4},
    )
    save_export(
        tmp_path / "b.json",
        "b",
        at(2, "b", **{"user:n": 2}),
        at(3, "b", **{"user:n": 3}),
        state={"user:n": 3},
    )
    report = import_location(str(tmp_path))
    assert report.is_complete, list(report.conflicts)
    b = AgentSession.objects.get(session_id="b")
    written = history.history_of_key("user", history.owners_at(b).ids["user"], "n")
    assert [row.value for row in written] == ["4", "3", "2", "1"]
    assert history.state_at(b).merged()["user:n"] == 4
    assert history.state_at(b, b.events.get(seq=1)).merged()["user:n"] == 2


def test_files_are_read_when_their_events_are_due(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """However many files there are, those whose sessions do not overlap in time are not kept together."""
    for number in range(12):
        save_export(
            tmp_path / f"{number}.json",
            f"s{number}",
            at(10 * number, f"s{number}"),
            at(10 * number + 1, f"s{number}"),
        )
    scan = session_folders.scan_folder(tmp_path, lambda folder: False)
    source = session_folders.SessionFolder(tmp_path, scan, session_folders.SourceFilter())
    opened: list[str] = []
    original = session_folders.SessionFolder._open
    monkeypatch.setattr(
        session_folders.SessionFolder,
        "_open",
        lambda self, path: opened.append(path.name) or original(self, path),
    )
    behind = [(event.owner.session_id, len(opened)) for event in source.events()]
    assert [name for name, _ in behind] == [f"s{number}" for number in range(12) for _ in range(2)]
    assert [count for _, count in behind][::2] == list(range(1, 13))


def test_longer_copy_of_a_twice_saved_session_wins(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    save_export(tmp_path / "session.json", "a", at(1, "a"))
    save_export(tmp_path / "session (1).json", "a", at(1, "a"), at(2, "a"))
    out = run_import(capsys, tmp_path)
    assert "session.json: its session weather/ann/a is in session (1).json too" in out
    assert seqs() == {"a": 2}


def test_a_damaged_file_is_named_and_the_others_come(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    save_export(tmp_path / "good.json", "a", at(1, "a"))
    (tmp_path / "cut.json").write_text('{"id": "b", "appName": "wea')
    out = run_import(capsys, tmp_path, status=1)
    assert "cut.json: could not be read" in out
    assert "is neither a database nor JSON" in out
    assert seqs() == {"a": 1}


def test_folders_of_agents_in_it_are_imported_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    agent = tmp_path / "weather"
    (agent / ".adk").mkdir(parents=True)
    shutil.copy(stores.SQLITE, agent / ".adk" / "session.db")
    save_export(tmp_path / "saved" / "a.json", "a", at(1, "a"))
    out = run_import(capsys, tmp_path)
    assert "weather: ADK SqliteSessionService, 3 new session(s)" in out
    assert "saved/a.json: 1 new session(s)" in out


def test_hidden_folders_links_and_virtual_environments_are_not_entered(tmp_path: Path):
    save_export(tmp_path / "a.json", "a", at(1, "a"))
    save_export(tmp_path / ".git" / "b.json", "b", at(1, "b"))
    save_export(tmp_path / "venv" / "c.json", "c", at(1, "c"))
    (tmp_path / "venv" / "pyvenv.cfg").touch()
    (tmp_path / "link.json").symlink_to(tmp_path / ".git" / "b.json")
    (tmp_path / "around").symlink_to(tmp_path)
    import_location(str(tmp_path))
    assert seqs() == {"a": 1}


def test_a_dry_run_of_a_folder_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    save_export(tmp_path / "a.json", "a", at(1, "a"))
    shutil.copy(stores.SQLITE, tmp_path / "store.db")
    out = run_import(capsys, tmp_path, "--dry-run")
    assert "4 new session(s), 0 extended, 0 unchanged; 10 event(s) would be imported." in out
    assert not AgentSession.objects.exists()


def test_a_folder_that_holds_nothing_is_refused(tmp_path: Path):
    (tmp_path / "readme.txt").write_text("hello")
    with pytest.raises(CommandError, match="holds nothing to import"):
        call_command("import_sessions", str(tmp_path))


def test_a_folder_is_followed_by_its_files(tmp_path: Path):
    path = save_export(tmp_path / "a.json", "a", at(1, "a"))
    before = fingerprint_of(str(tmp_path))
    assert fingerprint_of(str(tmp_path)) == before != ""
    save_export(tmp_path / "b.json", "b", at(1, "b"))
    after = fingerprint_of(str(tmp_path))
    assert after != before
    path.unlink()
    assert fingerprint_of(str(tmp_path)) not in {before, after}
