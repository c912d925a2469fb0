"""Forks: initial events and state, shared state, and the unchanged original."""

from __future__ import annotations

import json

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from google.adk.sessions.base_session_service import GetSessionConfig
from google.genai import types

from sessions_app.adk import DjangoArtifactService, DjangoSessionService
from sessions_app.branches.fork import NewFork, fork
from sessions_app.branches.rewind import rewind
from sessions_app.state.key_changes import read_key_changes
from sessions_app.state.state_board import read_board
from sessions_app.store import events
from sessions_app.store.artifacts import content_files
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import AlreadyExists, BadInput, EventMissing, SessionMissing
from sessions_app.store.models import (
    AgentSession,
    AppState,
    Artifact,
    ChangeCause,
    Event,
    Scope,
    SessionState,
    StateChange,
    TempWrite,
    UserState,
)
from sessions_app.store.sessions import lineage, writes
from sessions_app.store.state import history as history
from tests.sessions.branches.rows import current_state, event_columns, state_at_seq, tell_three_invocations
from tests.timeline.story import Story

pytestmark = pytest.mark.usefixtures("store")


def test_fork_starts_with_unchanged_events():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(seq=5))
    assert event_columns(new) == event_columns(story.session)[:5]
    assert (new.last_seq, new.revision, new.origin) == (5, 5, "fork")
    assert (new.realm, new.app_name, new.user_id) == ("", "weather", "ann")


def test_event_is_given_by_id_and_defaults_to_the_newest():
    story = tell_three_invocations()
    assert fork(story.pk, NewFork(event_id="e5")).last_seq == 5
    assert fork(story.pk, NewFork()).last_seq == 8


def test_the_session_state_is_that_of_the_event_seeds_included():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(seq=2))
    stored = {row.key: json.loads(row.value) for row in SessionState.objects.filter(owner=new)}
    assert stored == {"seed": 1, "rewritten": 5, "b": 1}


@pytest.mark.parametrize("own_realm", [False, True])
def test_the_session_keys_at_every_event_are_those_of_the_original(own_realm: bool):
    story = tell_three_invocations()
    writes.edit_state(story.key, {"late": 1}, removed=["b"])
    new = fork(story.pk, NewFork(own_realm=own_realm))
    for event in Event.objects.filter(session=new):
        here = history.state_at(new, event).values(Scope.SESSION)
        assert here == history.state_at(story.session, story.event(event.seq)).values(Scope.SESSION)


def test_last_writer_of_a_key_is_known_in_the_fork():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(seq=5))
    entries = {entry.name: entry for entry in read_board(new).entries}
    assert (entries["b"].seq, entries["b"].event_id, entries["b"].elsewhere) == (5, "e5", False)
    assert (entries["seed"].cause, entries["seed"].seq) == (ChangeCause.SEED, 0)
    past = [row.value for row in history.read_key_writes(Scope.SESSION, new.pk, "b")]
    assert past == ["2", "1"]


def test_removed_key_stays_removed_with_its_history():
    story = Story(initial={"n": 1})
    story.asks("one")
    writes.edit_state(story.key, {}, removed=["n"])
    new = fork(story.pk, NewFork())
    assert current_state(new) == {}
    assert [row.removed for row in history.read_key_writes(Scope.SESSION, new.pk, "n")] == [True, False]


def test_a_fork_reads_the_live_state_of_user_and_app():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(seq=2))
    assert current_state(new)["user:tier"] == "gold"
    assert state_at_seq(new, 2)["user:tier"] == "free"
    assert "app:news" not in state_at_seq(new, 2)


def test_in_a_realm_of_its_own_user_and_app_state_are_those_of_the_event():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(seq=2, own_realm=True))
    assert new.realm.startswith("fork/")
    assert current_state(new) == {"seed": 1, "rewritten": 5, "b": 1, "user:tier": "free", "app:motto": "hi"}
    assert UserState.objects.get(owner__realm=new.realm).value == '"free"'
    assert AppState.objects.get(owner__realm=new.realm).value == '"hi"'


def test_in_a_realm_of_its_own_every_event_sees_the_shared_state_it_saw():
    story = Story(initial={"user:n": 0})
    other = Story("other")
    story.asks("one")
    other.says("x", delta={"user:n": 1, "app:k": 1})
    story.says("two", delta={"user:n": 2})
    other.says("y", delta={"user:n": 3, "user:m": 1})
    story.says("three", delta={"app:k": 5})
    other.says("z", delta={"user:n": 9, "user:late": 1})
    new = fork(story.pk, NewFork(own_realm=True))
    for seq in (1, 2, 3):
        assert state_at_seq(new, seq) == state_at_seq(story.session, seq)
    assert current_state(new) == {"user:n": 3, "user:m": 1, "app:k": 5}


def test_writes_in_own_realm_do_not_leave_it():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(own_realm=True))
    key = writes.SessionKey(new.realm, new.app_name, new.user_id, new.session_id)
    writes.edit_state(key, {"user:tier": "none"})
    new.refresh_from_db()
    assert current_state(new)["user:tier"] == "none"
    assert current_state(story.session)["user:tier"] == "gold"


def test_initial_keys_of_forked_realm_keep_their_writer():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(seq=2, own_realm=True))
    entries = {entry.name: entry for entry in read_board(new).entries}
    assert (entries["app:motto"].cause, entries["app:motto"].from_session) == (ChangeCause.FORK, "s1")


def test_other_sessions_report_only_their_own_writes():
    story = tell_three_invocations()
    other = Story("other")
    other.says("x", delta={"user:tier": "other"})
    story.says("more", delta={"user:tier": "mine"})
    fork(story.pk, NewFork(own_realm=True))
    assert len(read_key_changes(other.session, [other.event(1)])[1]) == 1
    assert len(read_key_changes(story.session, [story.event(9)])[9]) == 1


@pytest.mark.parametrize("own_realm", [False, True])
def test_the_timeline_of_a_fork_shows_the_shared_keys_its_events_wrote(own_realm: bool):
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(own_realm=own_realm))
    if not own_realm:
        new = fork(new.pk, NewFork())
    event = Event.objects.get(session=new, seq=5)
    changes = {change.name: (change.old, change.new) for change in read_key_changes(new, [event])[5]}
    assert changes == {
        "b": ("1", "2"),
        "c": (None, "9"),
        "user:tier": ('"free"', '"gold"'),
        "app:news": (None, "true"),
    }


def test_a_fork_for_another_app_and_user_shares_theirs():
    story = tell_three_invocations()
    theirs = Story("own", {"app:motto": "office", "user:tier": "bob's"}, app="office", user="bob")
    new = fork(story.pk, NewFork(seq=2, app_name="office", user_id="bob"))
    assert (new.app_name, new.user_id) == ("office", "bob")
    expected = {"seed": 1, "rewritten": 5, "b": 1, "app:motto": "office", "user:tier": "bob's"}
    assert current_state(new) == state_at_seq(new, 2) == expected
    writes.edit_state(theirs.key, {"user:tier": "new"})
    assert state_at_seq(new, 2) == expected


def test_unknown_app_is_allowed_like_for_any_new_session():
    story = tell_three_invocations()
    assert fork(story.pk, NewFork(app_name="nobody/knows")).app_name == "nobody/knows"


def test_realm_for_another_app_starts_with_shared_state():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(seq=2, app_name="office", own_realm=True))
    assert current_state(new)["app:motto"] == "hi"


def test_a_session_of_a_realm_can_be_forked_into_real_life():
    story = Story(initial={"user:n": 1, "k": 1}, realm="eval/1")
    story.asks("one")
    new = fork(story.pk, NewFork())
    assert (new.realm, current_state(new)) == ("", {"k": 1})


def test_the_fork_and_the_original_go_on_apart():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(seq=2))
    before = event_columns(story.session)
    key = writes.SessionKey("", "weather", "ann", new.session_id)
    writes.edit_state(key, {"b": "fork"})
    story.says("more", delta={"b": "original"})
    new.refresh_from_db()
    assert (current_state(new)["b"], current_state(story.session)["b"]) == ("fork", "original")
    assert event_columns(story.session)[:8] == before


async def test_adk_reads_a_fork_as_any_session():
    story = await units_of_work.write(tell_three_invocations)
    new = await units_of_work.write(fork, story.pk, NewFork(seq=5))
    ours = DjangoSessionService()
    copy = await ours.get_session(app_name="weather", user_id="ann", session_id=new.session_id)
    original = await ours.get_session(
        app_name="weather", user_id="ann", session_id="s1", config=GetSessionConfig(num_recent_events=8)
    )
    assert copy is not None
    assert original is not None
    assert copy.events == original.events[:5]
    assert copy.state["b"] == 2


def test_list_fields_cover_the_copied_events():
    story = Story()
    story.asks("first  question")
    story.says("first answer", usageMetadata={"totalTokenCount": 5})
    story.says("oops", errorCode="X", errorMessage="x")
    story.says("late", usageMetadata={"totalTokenCount": 7})
    new = fork(story.pk, NewFork(seq=2))
    assert (new.first_text, new.last_text) == ("first question", "first answer")
    assert (new.error_count, new.total_tokens) == (0, 5)
    whole = fork(story.pk, NewFork(seq=3))
    assert (whole.last_text, whole.error_count) == ("oops", 1)
    story.says("x")
    for seq in range(1, 6):
        derived = fork(story.pk, NewFork(seq=seq))
        again = Story(f"again-{seq}")
        for event in Event.objects.filter(session_id=story.pk, seq__lte=seq).order_by("seq"):
            writes.append_event(again.key, events.build_record(json.loads(event.data)))
        names = ("first_text", "last_text", "error_count", "total_tokens", "last_seq")
        assert [getattr(derived, name) for name in names] == [getattr(again.session, name) for name in names]


def test_lineage_outlives_the_original():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork(seq=5, session_id="mine", title="Try"))
    assert (new.session_id, new.title, new.forked_from_id, new.forked_seq) == ("mine", "Try", story.pk, 5)
    writes.delete_session(story.key)
    new.refresh_from_db()
    origin = lineage.read_origin(new)
    assert origin is not None
    assert (new.forked_from_id, origin.session, origin.seq, origin.event_id) == (None, "s1", 5, "e5")
    assert current_state(new)["b"] == 2


def test_default_title_names_the_original():
    story = tell_three_invocations()
    assert fork(story.pk, NewFork(seq=5)).title == "Fork at 5 of one"
    assert fork(story.pk, NewFork(seq=5, title="")).title == ""


def test_ghost_keys_are_copied():
    story = Story()
    story.add(delta={"temp:x": 1}, keep_temp=True)
    new = fork(story.pk, NewFork())
    assert [ghost.key for ghost in TempWrite.objects.filter(session=new)] == ["x"]


def test_credentials_and_internal_fields_are_copied():
    story = Story(initial={"cred": {"authType": "apiKey", "apiKey": "s3cret"}})
    story.says("hi", customMetadata={"__adk_internal_x": 1})
    new = fork(story.pk, NewFork())
    event = Event.objects.get(session=new)
    assert "__adk_internal_x" not in event.data
    assert "__adk_internal_x" in (event.private or "")
    row = SessionState.objects.get(owner=new)
    original = SessionState.objects.get(owner_id=story.pk)
    assert (row.value, row.private) == (original.value, original.private)
    assert row.private is not None


def test_rewind_in_a_fork_knows_the_seeds():
    story = tell_three_invocations()
    new = fork(story.pk, NewFork())
    rewind(new.pk, invocation_id="i2")
    new.refresh_from_db()
    assert history.state_at(new).values(Scope.SESSION) == {"seed": 1, "rewritten": 5, "b": 1}


def test_refusals_leave_nothing_behind():
    story = tell_three_invocations()
    empty = Story("empty")
    count = AgentSession.objects.count()
    with pytest.raises(SessionMissing):
        fork(story.pk + 999, NewFork())
    for new_fork in (NewFork(seq=9), NewFork(seq=0), NewFork(event_id="nobody")):
        with pytest.raises(EventMissing, match="has no event"):
            fork(story.pk, new_fork)
    with pytest.raises(BadInput, match="has no events yet"):
        fork(empty.pk, NewFork())
    with pytest.raises(AlreadyExists, match="empty"):
        fork(story.pk, NewFork(session_id="empty"))
    with pytest.raises(BadInput, match="longer than"):
        fork(story.pk, NewFork(session_id="x" * 600))
    assert AgentSession.objects.count() == count
    assert not StateChange.objects.exclude(session_id__in=[story.pk, empty.pk]).exists()


def test_an_id_is_free_in_a_realm_of_its_own():
    story = tell_three_invocations()
    assert fork(story.pk, NewFork(session_id="s1", own_realm=True)).session_id == "s1"


async def save(name: str, text: str | bytes, session: str = "s1") -> int:
    part = (
        types.Part(text=text) if isinstance(text, str) else types.Part.from_bytes(data=text, mime_type="x/y")
    )
    return await DjangoArtifactService().save_artifact(
        app_name="weather", user_id="ann", session_id=session, filename=name, artifact=part
    )


async def with_files() -> Story:
    """Tell a session that saves a.txt twice, a large b.bin, and a file of the user."""
    story = await units_of_work.write(Story)
    for event, (name, content) in enumerate(
        [("a.txt", "A0"), ("b.bin", b"B" * 100_000), ("a.txt", "A1"), ("user:u.txt", "U0")], start=1
    ):
        version = await save(name, content)
        await units_of_work.write(
            lambda v=version, n=name, e=event: story.says(f"{e}", actions={"artifactDelta": {n: v}})
        )
    await units_of_work.write(lambda: Artifact.objects.update(created_at=1.0))
    return story


def artifacts_of(new: AgentSession) -> list[tuple[str, int]]:
    rows = Artifact.objects.filter(realm=new.realm, session_id=new.session_id)
    return [(row.filename, row.version) for row in rows.order_by("filename", "version")]


@pytest.mark.parametrize(
    ("seq", "expected"),
    [(1, [("a.txt", 0)]), (2, [("a.txt", 0), ("b.bin", 0)]), (4, [("a.txt", 0), ("a.txt", 1), ("b.bin", 0)])],
)
async def test_the_artifacts_are_those_of_the_event(seq: int, expected: list[tuple[str, int]]):
    story = await with_files()
    new = await units_of_work.write(fork, story.pk, NewFork(seq=seq))
    assert await units_of_work.read(artifacts_of, new) == expected


async def test_artifact_without_event_is_copied_by_time():
    story = await with_files()
    await save("early.txt", "E")
    await units_of_work.write(lambda: Artifact.objects.filter(filename="early.txt").update(created_at=2.0))
    await save("late.txt", "L")
    new = await units_of_work.write(fork, story.pk, NewFork())
    names = [name for name, _ in await units_of_work.read(artifacts_of, new)]
    assert "early.txt" in names
    assert "late.txt" not in names


async def test_content_of_large_artifact_is_shared_and_outlives_the_original():
    story = await with_files()
    new = await units_of_work.write(fork, story.pk, NewFork())
    assert len(list(await units_of_work.read(lambda: list(content_files.list_names())))) == 1
    service = DjangoArtifactService()
    await service.delete_artifact(app_name="weather", user_id="ann", session_id="s1", filename="b.bin")
    session_fields = {"app_name": "weather", "user_id": "ann", "session_id": new.session_id}
    part = await service.load_artifact(**session_fields, filename="b.bin")
    assert part is not None
    assert part.inline_data is not None
    assert part.inline_data.data == b"B" * 100_000
    await service.delete_artifact(**session_fields, filename="b.bin")


async def test_a_realm_of_its_own_has_the_users_files_as_well():
    story = await with_files()
    await save("user:later.txt", "L")
    new = await units_of_work.write(fork, story.pk, NewFork(own_realm=True))
    service = DjangoArtifactService(realm=new.realm)
    names = await service.list_artifact_keys(app_name="weather", user_id="ann", session_id=new.session_id)
    assert names == ["a.txt", "b.bin", "user:u.txt"]


async def test_id_with_remaining_artifacts_is_refused():
    story = await with_files()
    await save("old.txt", "x", session="gone")
    with pytest.raises(AlreadyExists, match="left artifacts"):
        await units_of_work.write(fork, story.pk, NewFork(session_id="gone"))
    assert not await units_of_work.read(AgentSession.objects.filter(session_id="gone").exists)


@pytest.mark.parametrize("own_realm", [False, True])
def test_number_of_statements_grows_with_batches_not_events(own_realm: bool):
    def statements(story: Story) -> int:
        with CaptureQueriesContext(connection) as captured:
            fork(story.pk, NewFork(own_realm=own_realm))
        return len(captured)

    first, short, long = Story("first"), Story("short"), Story("long")
    for story, length in ((first, 1), (short, 3), (long, 60)):
        for number in range(length):
            story.says("x", delta={f"k{number}": number, f"user:u{number}": number})
    assert statements(long) == statements(short) < 70


def test_a_title_that_no_list_can_show_is_refused_and_nothing_is_forked():
    story = tell_three_invocations()
    with pytest.raises(BadInput, match="longer than 500"):
        fork(story.pk, NewFork(title="t" * 501))
    assert AgentSession.objects.count() == 1
    assert fork(story.pk, NewFork(title="t" * 500)).title == "t" * 500
