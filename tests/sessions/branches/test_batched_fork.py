"""Forks are copied in short, hidden transactions: others write meanwhile, and a fork is complete or absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sessions_app.branches import fork as forking
from sessions_app.branches import session_copy
from sessions_app.branches.fork import NewFork, fork
from sessions_app.lookup import find_session
from sessions_app.search import indexing
from sessions_app.search.execution.session_queries import Search
from sessions_app.search.query.parsing import parse
from sessions_app.sessions import deletion, listing, purge
from sessions_app.store import realms
from sessions_app.store.artifacts import artifact_versions as artifacts
from sessions_app.store.database import batched_transactions
from sessions_app.store.errors import AlreadyExists, SessionMissing, StaleSession
from sessions_app.store.models import (
    AgentSession,
    AppScope,
    AppState,
    Artifact,
    Event,
    NestedRun,
    SessionState,
    SessionUsage,
    StateChange,
    StateValue,
    TempWrite,
    UserScope,
    UserState,
)
from sessions_app.store.sessions import writes
from sessions_app.store.state import history as history
from tests.sessions.branches.interleaving import act_between_transactions, run_in_other_thread
from tests.sessions.branches.rows import columns, current_state, event_columns, state_at_seq
from tests.settable_clock import STEPS_S, Clock, later
from tests.timeline.nested_story import add, nest, text
from tests.timeline.story import Story

pytestmark = pytest.mark.usefixtures("store")

TABLES: tuple[Any, ...] = (
    AgentSession,
    AppScope,
    AppState,
    Artifact,
    Event,
    SessionState,
    StateChange,
    TempWrite,
    UserScope,
    UserState,
)
LENGTH = 24


class Killed(BaseException):
    """The process ends in the middle."""


def create_story() -> Story:
    """Tell a session with keys in every scope, seeds, ghosts and files."""
    story = Story(initial={f"seed{number}": number for number in range(9)})
    for number in range(LENGTH):
        delta = {f"k{number % 7}": number, f"user:u{number % 3}": number, "app:a": number, "temp:t": number}
        story.says(f"words{number}", delta=delta, keep_temp=True)
    for name in ("a.txt", "user:u.txt"):
        key = artifacts.file_key("", "weather", "ann", "s1", name)
        artifacts.save(key, artifacts.VersionMetadata(Artifact.Holding.TEXT, "{}", None, "{}", "s1"), None)
    Artifact.objects.update(created_at=1.0)
    return story


def counts() -> dict[str, int]:
    return {table.__name__: table.objects.count() for table in TABLES}


@pytest.mark.parametrize("own_realm", [False, True])
def test_appends_between_slices_keep_the_fork_hidden_and_complete(
    monkeypatch: pytest.MonkeyPatch, own_realm: bool
):
    story, other = create_story(), Story("other")
    then = state_at_seq(story.session, LENGTH)
    visible_ids: set[str] = set()

    def go_on(number: int) -> None:
        run_in_other_thread(lambda: other.says(f"{number}", delta={"user:u0": f"late {number}"}))
        run_in_other_thread(
            lambda: story.says(f"later {number}", delta={"k0": f"late {number}", "app:a": "late"})
        )
        everywhere = listing.SessionFilter(realm=realms.COPYING)
        for session_filter in (listing.SessionFilter(), everywhere):
            visible_ids.update(listing.list_sessions(session_filter).values_list("session_id", flat=True))
        with pytest.raises(SessionMissing):
            find_session(AgentSession.objects.latest("pk").pk)

    times = act_between_transactions(monkeypatch, go_on)
    new = fork(story.pk, NewFork(seq=LENGTH, own_realm=own_realm))
    assert len(times) > LENGTH / 3
    assert visible_ids == {"s1", "other"}
    assert event_columns(new) == event_columns(story.session)[:LENGTH]
    assert state_at_seq(new, LENGTH) == then
    for seq in range(1, LENGTH + 1):
        assert state_at_seq(new, seq) == state_at_seq(story.session, seq)
    ledger = StateChange.objects.filter(scope="session", position__lte=LENGTH).order_by("pk")
    apart = ("owner_id", "session_id")
    assert [columns(row, *apart) for row in ledger.filter(owner_id=new.pk)] == [
        columns(row, *apart) for row in ledger.filter(owner_id=story.pk)
    ]
    ghosts = TempWrite.objects.filter(seq__lte=LENGTH).order_by("pk")
    assert [columns(row, "session_id") for row in ghosts.filter(session=new)] == [
        columns(row, "session_id") for row in ghosts.filter(session=story.pk)
    ]
    files = Artifact.objects.filter(realm=new.realm, session_id__in=[new.session_id, ""])
    assert {row.filename for row in files} == {"a.txt", "u.txt"}
    if own_realm:
        assert current_state(new) == then


@pytest.mark.parametrize("own_realm", [False, True])
def test_a_copy_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch, own_realm: bool):
    story = create_story()
    before = counts()

    def fail(number: int) -> None:
        if number == last:
            raise OSError("the disk sleeps")

    last = -1
    whole = len(act_between_transactions(monkeypatch, fail)) or _slices_of(story, monkeypatch, own_realm)
    for last in range(0, whole, 4):
        times = act_between_transactions(monkeypatch, fail)
        with pytest.raises(OSError, match="the disk sleeps"):
            fork(story.pk, NewFork(own_realm=own_realm))
        assert len(times) == last + 1
        assert counts() == before


def _slices_of(story: Story, monkeypatch: pytest.MonkeyPatch, own_realm: bool) -> int:
    """Return how many slices a fork takes, and remove it."""
    times = act_between_transactions(monkeypatch, lambda number: None)
    new = fork(story.pk, NewFork(own_realm=own_realm))
    if own_realm:
        purge.delete_realm(new.realm)
    else:
        Artifact.objects.filter(session_id=new.session_id).delete()
        writes.delete_session(writes.SessionKey("", new.app_name, new.user_id, new.session_id))
    return len(times)


@pytest.mark.parametrize("own_realm", [False, True])
def test_incomplete_copy_of_killed_process_is_removed(monkeypatch: pytest.MonkeyPatch, own_realm: bool):
    story = create_story()
    before = counts()

    def kill(number: int) -> None:
        if number == 20:
            raise Killed

    act_between_transactions(monkeypatch, kill)
    monkeypatch.setattr(forking.purge, "remove_unfinished", lambda session: None)
    with pytest.raises(Killed):
        fork(story.pk, NewFork(own_realm=own_realm))
    monkeypatch.undo()
    assert counts() != before
    look_after(0)
    look_after(purge.ABANDONED_S - 1)
    assert counts() != before, "it could still be copied on"
    look_after(purge.ABANDONED_S + 1)
    assert counts() == before


@pytest.mark.parametrize("step", STEPS_S)
def test_step_of_the_clock_removes_no_fork_that_is_copied(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: float
):
    story, clock = create_story(), Clock(monkeypatch, tmp_path / "shift")

    def set_clock(number: int) -> None:
        if number == 5:
            clock.step(step)
        purge.remove_abandoned()

    act_between_transactions(monkeypatch, set_clock)
    new = fork(story.pk, NewFork())
    assert event_columns(new) == event_columns(story.session)


@pytest.mark.parametrize("step", STEPS_S)
def test_abandoned_fork_is_removed_though_the_clock_was_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, step: float
):
    story, clock = create_story(), Clock(monkeypatch, tmp_path / "shift")
    before = counts()
    out_of_sight = story.key._replace(realm=f"{realms.COPYING}killed")
    writes.create_session(out_of_sight)
    look_after(0)
    clock.step(step)
    look_after(purge.ABANDONED_S / 2)
    assert counts() != before
    look_after(purge.ABANDONED_S)
    assert counts() == before


def look_after(seconds: float) -> None:
    """Let the server look for abandoned forks so many seconds from now."""
    with later(seconds):
        purge.remove_abandoned()


def test_copy_taken_for_abandoned_ends_with_an_error(monkeypatch: pytest.MonkeyPatch):
    story = create_story()
    before = counts()

    def give_up(number: int) -> None:
        if number == 5:
            look_after(0)
            look_after(purge.ABANDONED_S + 1)

    act_between_transactions(monkeypatch, give_up)
    with pytest.raises(StaleSession, match="paused for too long"):
        fork(story.pk, NewFork())
    assert counts() == before


def test_id_taken_during_the_copy_is_refused(monkeypatch: pytest.MonkeyPatch):
    story = create_story()

    def take(number: int) -> None:
        if number == 5:
            run_in_other_thread(lambda: Story("mine"))

    act_between_transactions(monkeypatch, take)
    with pytest.raises(AlreadyExists, match="mine"):
        fork(story.pk, NewFork(session_id="mine"))
    assert AgentSession.objects.count() == 2
    assert not Event.objects.exclude(session_id=story.pk).exists()


@pytest.mark.parametrize("for_good", [False, True])
def test_session_purged_during_fork_leaves_no_fork(monkeypatch: pytest.MonkeyPatch, for_good: bool):
    story = create_story()

    def delete(number: int) -> None:
        if number == 12 and for_good:
            run_in_other_thread(lambda: writes.delete_session(story.key))
        elif number == 12:
            run_in_other_thread(lambda: deletion.delete([story.pk]))

    act_between_transactions(monkeypatch, delete)
    if for_good:
        with pytest.raises(SessionMissing):
            fork(story.pk, NewFork())
        assert not Event.objects.exists()
    else:
        assert fork(story.pk, NewFork()).last_seq == LENGTH


def test_fork_indexed_halfway_becomes_fully_searchable(monkeypatch: pytest.MonkeyPatch):
    story = create_story()
    act_between_transactions(monkeypatch, lambda number: indexing.index_all())
    new = fork(story.pk, NewFork())
    indexing.index_all()

    def values(pk: int) -> set[tuple[str, str]]:
        rows = StateValue.objects.filter(scope="session", owner_id=pk)
        return {(row.key_id, row.mark) for row in rows}

    assert values(new.pk) == values(story.pk)


def test_slices_grow_if_fast_and_shrink_if_slow(monkeypatch: pytest.MonkeyPatch):
    now = [0.0]
    monkeypatch.setattr(batched_transactions.time, "monotonic", lambda: now[0])
    waited: list[float] = []
    monkeypatch.setattr(batched_transactions, "yield_writer", waited.append)
    series = batched_transactions.BatchedTransactions()
    for duration, rows in (
        (0.001, batched_transactions.FIRST_ROWS * 2),
        (0.2, batched_transactions.FIRST_ROWS),
        (0.03, batched_transactions.FIRST_ROWS),
    ):
        with series.one():
            now[0] += duration
        assert series.rows == rows
    now[0] += 0.01
    with series.one():
        pass
    assert [round(seconds, 3) for seconds in waited] == [0.0, 0.001, 0.2, 0.02]


def test_index_sees_the_nested_sessions_of_a_fork_once_they_are_complete(monkeypatch: pytest.MonkeyPatch):
    story = create_story()
    story.calls("helper", "c1")
    run = nest(story, "r1")
    for number in range(3):
        add(run, text(f"fjord {number}"), usageMetadata={"totalTokenCount": 10}, modelVersion="fast")
    act_between_transactions(monkeypatch, lambda number: indexing.index_all())
    new = fork(story.pk, NewFork())
    indexing.index_all()
    [copy] = NestedRun.objects.filter(outer=new)
    tokens = SessionUsage.objects.filter(session__in=[run.child_id, copy.child_id])
    assert dict(tokens.values_list("session", "total")) == {run.child_id: 30, copy.child_id: 30}
    assert [hit.seq for hit in Search(parse("fjord")).hits([new]).values()] == [run.caller_seq]


def test_a_copy_reads_which_rows_there_are_once(monkeypatch: pytest.MonkeyPatch):
    """Else a long session would be read again for each slice of it."""
    story = create_story()
    requests: list[int] = []
    keys = session_copy._sorted_pks
    monkeypatch.setattr(session_copy, "_sorted_pks", lambda rows: requests.append(1) or keys(rows))
    act_between_transactions(monkeypatch, lambda number: None)
    fork(story.pk, NewFork(own_realm=True))
    assert len(requests) == 5
    assert history.state_at(story.session).merge_scopes()
