"""Permanent removal of sessions: matching ones go, all others stay, and agents run meanwhile."""

from __future__ import annotations

import copy
import io
import threading
import time
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connections

from sessions_app.adk import DjangoMemoryService
from sessions_app.runs import lifecycle as runs
from sessions_app.sessions import app_settings, purge
from sessions_app.sessions.purge import PurgeFilter
from sessions_app.store import memory_entries as memory
from sessions_app.store.artifacts import artifact_versions as artifacts
from sessions_app.store.artifacts import content_files
from sessions_app.store.errors import BadInput
from sessions_app.store.events import build_record
from sessions_app.store.models import (
    AgentSession,
    AppState,
    Artifact,
    Event,
    MemoryEntry,
    MirroredSession,
    Scope,
    SessionState,
    StateChange,
    UserScope,
    UserState,
)
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes

pytestmark = pytest.mark.usefixtures("store")

DAY = 86_400.0
OLD = PurgeFilter(older_than_s=30 * DAY)


def create_old_session(
    session_id: str, *, days: float = 40.0, app: str = "weather", realm: str = "", events: int = 1
) -> AgentSession:
    """Create a session whose last event is so many days old."""
    key = SessionKey(realm, app, "ann", session_id)
    moment = time.time() - days * DAY
    writes.create_session(key, {"n": 0}, now=moment)
    for number in range(events):
        body = {
            "id": f"e{number}",
            "invocationId": "i",
            "author": "user",
            "timestamp": moment,
            "content": {"role": "user", "parts": [{"text": f"I like tea number {number} in {session_id}"}]},
            "actions": {},
        }
        writes.append_event(key, build_record(body, delta={"n": number, "user:n": number, "app:n": number}))
    return AgentSession.objects.get(**key._asdict())


def save(session: AgentSession, name: str, content: bytes) -> None:
    key = artifacts.file_key(session.realm, session.app_name, session.user_id, session.session_id, name)
    draft = artifacts.VersionMetadata(Artifact.Holding.DATA, "{}", None, "{}", session.session_id)
    with content_files.store_content(content) as payload:
        artifacts.save(key, draft, payload)


def ids() -> set[str]:
    return set(AgentSession.objects.values_list("session_id", flat=True))


def command(*arguments: str, status: int = 0) -> str:
    """Run the command and return what it said."""
    out = io.StringIO()
    try:
        call_command("purge_sessions", *arguments, stdout=out)
        ended = 0
    except SystemExit as error:
        ended = int(error.code or 0)
    assert ended == status
    return out.getvalue()


def test_sessions_without_an_event_for_so_long_go_and_all_others_stay():
    create_old_session("old")
    create_old_session("young", days=20)
    create_old_session("attempt", realm="eval/1")
    report = purge.purge(OLD)
    assert (report.sessions, report.events, report.skipped) == (1, 1, [])
    assert ids() == {"young", "attempt"}


def test_purge_of_external_session_removes_the_copy_and_says_so():
    MirroredSession.objects.create(session=create_old_session("copied"), place="sqlite:///adk.db")
    create_old_session("own")
    assert "1 of them are copies of sessions that one of ADK's services keeps" in command(
        "--older-than", "30d", "--dry-run"
    )
    output = command("--older-than", "30d")
    assert "2 session(s)" in output
    assert "their copies come back when it is read" in output
    assert ids() == set()
    create_old_session("own")
    assert "copies" not in command("--older-than", "30d")


def test_user_and_app_state_survive_with_their_history():
    create_old_session("old", events=3)
    purge.purge(OLD)
    assert UserState.objects.get().value == AppState.objects.get().value == "2"
    assert not SessionState.objects.exists()
    assert not StateChange.objects.filter(scope=Scope.SESSION).exists()
    history = StateChange.objects.filter(scope=Scope.USER).order_by("position")
    assert [(row.value, row.from_session, row.session) for row in history] == [
        (str(number), "old", None) for number in range(3)
    ]


def test_purge_removes_artifacts_of_the_session_only():
    artifacts.remove_orphaned_content()  # of other tests
    session = create_old_session("old")
    save(session, "small", b"x")
    save(session, "large", b"x" * 100_000)
    save(session, "shared", b"y" * 100_000)
    save(session, "user:mine", b"y" * 100_000)
    report = purge.purge(OLD)
    assert (report.artifacts, report.files) == (3, 1)
    assert [artifact.filename for artifact in Artifact.objects.all()] == ["mine"]
    assert len(list(content_files.list_names())) == 1


def test_a_session_with_an_active_run_is_left_alone_and_named():
    busy = create_old_session("busy")
    create_old_session("old")
    run = runs.create_run(busy.pk, {})
    report = purge.purge(OLD)
    assert report.skipped == [f"weather / ann / busy: run {run.pk} is queued"]
    assert ids() == {"busy"}


def test_session_continued_during_handover_is_skipped():
    session = create_old_session("old")

    def remember(row: AgentSession) -> int:
        key = SessionKey("", row.app_name, row.user_id, row.session_id)
        body = {"id": "late", "invocationId": "i", "author": "user", "timestamp": time.time(), "actions": {}}
        writes.append_event(key, build_record(body))
        return 0

    report = purge.purge(OLD, remember=remember)
    assert report.skipped == ["weather / ann / old: it has changed meanwhile"]
    assert Event.objects.filter(session=session).count() == 2


def test_dry_run_reports_and_changes_nothing():
    create_old_session("old", events=2)
    assert command("--older-than", "30d", "--dry-run") == (
        "1 session(s) with 2 event(s) would be removed.\n  weather / ann / old\n"
    )
    assert ids() == {"old"}


def test_purged_id_is_free_and_stale_append_is_refused():
    create_old_session("old")
    purge.purge(OLD)
    again = writes.create_session(SessionKey("", "weather", "ann", "old"))
    assert (again.last_seq, SessionState.objects.count()) == (0, 0)


def test_sessions_set_aside_by_killed_purge_are_hidden_then_removed(monkeypatch):
    session = create_old_session("old", events=5)
    save(session, "a", b"x")

    def killed(*value: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(purge, "_remove_rows", killed)
        with pytest.raises(KeyboardInterrupt):
            purge.purge(OLD)
    assert not AgentSession.objects.filter(realm="").exists()
    writes.create_session(SessionKey("", "weather", "ann", "old"))
    report = purge.purge(OLD)
    assert (report.finished, report.artifacts) == (1, 1)
    assert AgentSession.objects.get().last_seq == 0
    assert not Event.objects.exists()


def test_many_events_go_in_small_batches(monkeypatch):
    sizes: list[int] = []
    batches = purge._pk_batches

    def measured(rows: Any) -> Any:
        for pks in batches(rows):
            sizes.append(len(pks))
            yield pks

    monkeypatch.setattr(purge, "_pk_batches", measured)
    create_old_session("old")
    [event] = Event.objects.all()
    many = [copy.copy(event) for _ in range(purge.BATCH + 1)]
    for seq, each in enumerate(many, event.seq + 1):
        each.pk, each.seq, each.event_id = None, seq, f"e{seq}"
    Event.objects.bulk_create(many)
    purge.purge(OLD)
    assert max(sizes) == purge.BATCH
    assert not Event.objects.exists()


def test_agents_go_on_while_sessions_are_removed():
    for number in range(10):
        create_old_session(f"old{number}", events=5)
    create_old_session("alive", days=0)
    done = threading.Event()

    def work() -> int:
        turns = 0
        try:
            while not done.is_set():
                body = {"id": f"live{turns}", "invocationId": "i", "author": "a", "timestamp": time.time()}
                writes.append_event(
                    SessionKey("", "weather", "ann", "alive"), build_record({**body, "actions": {}})
                )
                turns += 1
        finally:
            connections.close_all()
        return turns

    counted: list[int] = []
    agent = threading.Thread(target=lambda: counted.append(work()))
    agent.start()
    report = purge.purge(OLD)
    done.set()
    agent.join()
    assert report.sessions == 10
    assert counted[0] > 0
    assert AgentSession.objects.get().last_seq == counted[0] + 1


def test_expired_means_by_the_apps_own_ttl():
    create_old_session("weather-old", days=10)
    create_old_session("writer-old", days=10, app="writer")
    app_settings.set_session_ttl("weather", 7 * DAY)
    command("--expired")
    assert ids() == {"writer-old"}


def test_all_criteria_must_match_and_app_limits_them():
    app_settings.set_session_ttl("weather", 7 * DAY)
    create_old_session("expired", days=10)
    create_old_session("both", days=40)
    create_old_session("other", days=40, app="writer")
    command("--expired", "--older-than=30d", "--app=weather")
    assert ids() == {"expired", "other"}


def test_purged_session_is_remembered():
    create_old_session("old", events=3)
    output = command("--older-than", "30d", "--to-memory")
    assert "3 memories were added." in output
    entries = memory.search(memory.make_owner("", "weather", "ann"), "tea", 10)
    assert {entry.session_id for entry in entries} == {"old"}
    assert not AgentSession.objects.exists()


def test_remembered_session_is_not_remembered_twice():
    create_old_session("old", events=3)
    command("--older-than", "30d", "--to-memory", "--app", "writer")
    from sessions_app.adk.memory import remember

    session = AgentSession.objects.get()
    assert remember(session) == 3
    assert remember(session) == 0
    assert MemoryEntry.objects.count() == 3


async def test_a_long_session_is_handed_over_whole(store):
    from sessions_app.store.database import units_of_work

    await units_of_work.write(lambda: create_old_session("old", events=450).pk)
    from sessions_app.adk.memory import remember

    assert await units_of_work.read(lambda: remember(AgentSession.objects.get())) == 450
    response = await DjangoMemoryService().search_memory(app_name="weather", user_id="ann", query="tea")
    assert response.memories


def test_command_exits_1_and_names_skipped_sessions():
    busy = create_old_session("busy\x1b[31m")
    runs.create_run(busy.pk, {})
    output = command("--older-than", "30d", status=1)
    assert "0 session(s)" in output
    assert "Skipped (1):" in output
    assert "\x1b" not in output


def test_the_command_refuses_to_remove_everything():
    with pytest.raises(CommandError, match="No sessions selected") as refusal:
        call_command("purge_sessions", "--app", "weather")
    assert refusal.value.returncode == 2


@pytest.mark.parametrize(
    "span", ["30", "d", "-3d", "0d", "1w", "30 days", "nan", "1e9d", "٣d", "999999d", ""]
)
def test_invalid_duration_is_refused_with_examples(span: str):
    create_old_session("old")
    with pytest.raises(CommandError, match="30d for thirty days"):
        call_command("purge_sessions", f"--older-than={span}")
    assert ids() == {"old"}


def test_a_realm_is_deleted_with_its_state_ledger_artifacts_and_memory():
    artifacts.remove_orphaned_content()  # of other tests
    session = create_old_session("attempt", realm="eval/1/a/1", events=3)
    save(session, "a", b"x" * 100_000)
    save(session, "user:b", b"y")
    owner = memory.make_owner("eval/1/a/1", "weather", "ann")
    from sessions_app.adk.memory import remember

    assert remember(session) == 3
    create_old_session("other", realm="eval/1/a/10")
    create_old_session("real")
    purge.delete_realm("eval/1/a/1")
    assert ids() == {"other", "real"}
    assert UserScope.objects.filter(realm="eval/1/a/1").count() == 0
    assert memory.search(owner, "tea", 10) == []
    assert not Artifact.objects.exists()
    assert list(content_files.list_names()) == []
    owners = set(StateChange.objects.values_list("from_session", flat=True))
    assert owners == {"other", "real"}


def test_real_life_is_never_deleted_as_a_realm():
    create_old_session("real")
    with pytest.raises(BadInput, match="default realm"):
        purge.delete_realm("")
    assert ids() == {"real"}
