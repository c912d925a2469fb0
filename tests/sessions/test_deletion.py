"""Deletion with undo, and labels of sessions, on both databases."""

from __future__ import annotations

import asyncio
import time

import pytest

from sessions_app.api import snapshots
from sessions_app.live import snapshot
from sessions_app.lookup import find_session
from sessions_app.runs import lifecycle as runs
from sessions_app.sessions import deletion, housekeeping, labels, listing, purge, saved_views
from sessions_app.store import realms
from sessions_app.store.artifacts import artifact_versions as artifacts
from sessions_app.store.artifacts import content_files
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import AlreadyExists, BadInput, NotFound, SessionBusy, SessionMissing
from sessions_app.store.models import (
    AgentSession,
    AppState,
    Artifact,
    DeletedSession,
    Event,
    SavedView,
    SessionTag,
)
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.patience import PATIENCE_S
from tests.timeline.story import Story

pytestmark = pytest.mark.usefixtures("store")

DAY = deletion.UNDO_S


def save(story: Story, name: str, content: bytes) -> None:
    key = artifacts.file_key(*story.key, name)
    draft = artifacts.VersionMetadata(Artifact.Holding.DATA, "{}", None, "{}", story.key.session_id)
    with content_files.store_content(content) as payload:
        artifacts.save(key, draft, payload)


def listed_pks() -> set[int]:
    return {row.pk for row in listing.list_page(listing.SessionFilter()).rows}


def test_deleted_session_is_hidden_and_its_id_is_free():
    story = Story("s1", {"own": 1, "app:shared": 2})
    story.asks("Hello")
    save(story, "notes.txt", b"Paris")
    assert deletion.delete([story.pk]).batch
    assert listed_pks() == set()
    with pytest.raises(SessionMissing):
        find_session(story.pk)
    with pytest.raises(SessionMissing):
        snapshots.find_session(*story.key[1:], attempts=True)
    with pytest.raises(SessionMissing):
        runs.create_run(story.pk, {})
    with pytest.raises(SessionMissing):
        story.asks("Is anybody there?")
    assert snapshot.read_snapshot(story.pk) is None
    writes.create_session(story.key)
    assert not Artifact.objects.filter(realm="").exists()


def test_it_comes_back_as_it_was():
    story = Story("s1", {"own": 1, "app:shared": 2})
    story.asks("Hello")
    save(story, "notes.txt", b"Paris")
    labels.tag([story.pk], "bug")
    before = AgentSession.objects.filter(pk=story.pk).values().get()
    done = deletion.delete([story.pk])
    assert done.batch
    assert [row.pk for row in deletion.undo(done.batch.id)] == [story.pk]
    assert AgentSession.objects.filter(pk=story.pk).values().get() == before
    assert Artifact.objects.get().realm == ""
    assert SessionTag.objects.get().name == "bug"
    assert deletion.recent_batches() == []
    story.asks("Here again")


def test_sessions_deleted_together_are_restored_together_or_not_at_all():
    first, second = Story("s1"), Story("s2")
    done = deletion.delete([first.pk, second.pk])
    assert done.batch
    taken_story = Story("s2")
    with pytest.raises(AlreadyExists, match=r"'s2' .* another session has its id now") as refusal:
        deletion.undo(done.batch.id)
    assert "Delete the session that has its id now" in refusal.value.hint
    assert listed_pks() == {taken_story.pk}
    deletion.delete([taken_story.pk])
    deletion.undo(done.batch.id)
    assert listed_pks() == {first.pk, second.pk}


def test_sessions_of_same_id_in_two_realms_are_deleted_separately():
    real, attempt = Story("s1"), Story("s1", realm="eval/r/c/1")
    done = deletion.delete([real.pk, attempt.pk])
    assert done.batch
    deletion.undo(done.batch.id)
    realms_now = set(AgentSession.objects.values_list("pk", "realm"))
    assert realms_now == {(real.pk, ""), (attempt.pk, "eval/r/c/1")}


def test_a_session_with_an_active_run_is_refused_by_the_run():
    story = Story("s1")
    run = runs.create_run(story.pk, {})
    with pytest.raises(SessionBusy, match=run.id):
        deletion.delete([story.pk])
    assert listed_pks() == {story.pk}


def test_among_others_it_is_left_alone_and_named():
    busy, idle = Story("busy"), Story("idle")
    run = runs.create_run(busy.pk, {})
    done = deletion.delete([busy.pk, idle.pk])
    assert done.skipped == [f"busy: run {run.id} is queued"]
    assert listed_pks() == {busy.pk}


def test_deleting_deleted_session_is_no_error():
    story = Story("s1")
    deletion.delete([story.pk])
    again = deletion.delete([story.pk, 99_999])
    assert (again.batch, again.skipped) == (None, [])


def test_a_day_later_it_is_removed_for_good_and_shared_state_stays():
    story = Story("s1", {"own": 1, "app:shared": 2})
    story.asks("Hello")
    save(story, "notes.txt", b"Paris")
    now = time.time()
    old = deletion.delete([story.pk], now=now - DAY - 60)
    new = deletion.delete([Story("s2").pk], now=now - DAY + 60)
    assert old.batch
    assert new.batch
    assert [batch.id for batch in deletion.recent_batches(now)] == [new.batch.id]
    assert purge.remove_deleted(now - DAY).finished == 1
    assert not Event.objects.exists()
    assert not Artifact.objects.exists()
    assert AppState.objects.get().key == "shared"
    with pytest.raises(NotFound, match="This deletion cannot be undone any more"):
        deletion.undo(old.batch.id)
    assert deletion.undo(new.batch.id)


def test_purge_removes_deleted_sessions():
    story = Story("s1")
    deletion.delete([story.pk], now=time.time() - DAY - 60)
    report = purge.purge(purge.PurgeFilter(expired=True))
    assert (report.finished, report.sessions) == (1, 0)
    assert not AgentSession.objects.exists()
    assert not DeletedSession.objects.exists()


def test_a_fork_with_a_private_world_takes_that_along_in_the_end():
    world = realms.FORK + "w1"
    story = Story("s1", {"app:shared": 2}, realm=world)
    deletion.delete([story.pk], now=0.0)
    assert AppState.objects.exists()
    purge.remove_deleted(1.0)
    assert not AppState.objects.exists()


def test_tables_of_deleted_session_are_in_no_realm():
    deletion.delete([Story("s1").pk])
    assert listing.list_page(listing.SessionFilter(realm=realms.DELETED)).rows == []


def test_titles_tags_and_pins_leave_the_revision_alone():
    story = Story("s1")
    before = story.session.revision
    labels.rename(story.pk, "  A   rainy\nday ")
    labels.tag([story.pk], "  To  Look AT ")
    labels.pin([story.pk])
    session = story.session
    assert (session.revision, session.title) == (before, "A rainy day")
    assert [tag.name for tag in session.tags.all()] == ["to look at"]
    assert session.pinned_at
    labels.pin([story.pk], pinned=False)
    labels.untag([story.pk], "To look at")
    assert (story.session.pinned_at, story.session.tags.count()) == (None, 0)


def test_tag_is_unique_per_session():
    story = Story("s1")
    labels.tag([story.pk], "bug")
    labels.tag([story.pk, Story("s2").pk, 99_999], "BUG")
    assert labels.tags_in_use() == ["bug"]
    assert SessionTag.objects.count() == 2


@pytest.mark.parametrize("text", ["", "   ", "x" * 65])
def test_empty_or_too_long_tag_is_refused(text: str):
    with pytest.raises(BadInput, match="1 to 64 characters"):
        labels.tag([Story("s1").pk], text)


def test_a_session_has_a_bounded_number_of_tags():
    story = Story("s1")
    for number in range(labels.MAX_TAGS):
        labels.tag([story.pk], f"tag {number}")
    with pytest.raises(BadInput, match="'s1' already has 20 tags"):
        labels.tag([story.pk], "one more")
    assert SessionTag.objects.count() == labels.MAX_TAGS


def test_too_long_title_is_refused():
    with pytest.raises(BadInput, match="201 characters"):
        labels.rename(Story("s1").pk, "x" * 201)


def test_pinned_sessions_come_first_and_pages_join_without_a_gap():
    pks = []
    for number in range(120):
        key = SessionKey("", "weather", "ann", f"s{number}")
        pks.append(writes.create_session(key, now=1000.0 + number).pk)
    pinned = pks[:25:1]
    for pk in pinned:
        labels.pin([pk])
    AgentSession.objects.filter(pk__in=pinned).update(pinned_at=5.0)
    page_pks: list[int] = []
    page = listing.list_page(listing.SessionFilter())
    assert [row.pk for row in page.pinned] == sorted(pinned, reverse=True)[: listing.MAX_PINNED]
    while True:
        page_pks += [row.pk for row in page.rows]
        if not page.others.next:
            break
        page = listing.list_page(listing.SessionFilter(), page.others.next)
        assert page.pinned == []
    assert len(page_pks) == len(set(page_pks)) == 120


def test_view_stores_only_search_parameters():
    view = saved_views.save(" My  view ", "before=1~2&user=ann&q=a%26b&app=&seq=3")
    assert (view.name, view.query) == ("My view", "q=a%26b&user=ann")


def test_view_stores_canonical_query_even_if_invalid():
    assert saved_views.search_parameters("q=+tier%3DGOLD++ever+") == saved_views.search_parameters(
        "q=tier+=+GOLD+ever"
    )
    assert saved_views.search_parameters("q=+kind:eror+") == "q=kind%3Aeror"


def test_view_is_replaced_only_on_request():
    saved_views.save("Mine", "q=a")
    with pytest.raises(AlreadyExists, match="'Mine' already"):
        saved_views.save("Mine", "q=b")
    assert saved_views.save("Mine", "q=b", replace=True).query == "q=b"
    other = saved_views.save("Other", "q=c")
    with pytest.raises(AlreadyExists):
        saved_views.rename(other.pk, "Mine")
    assert saved_views.rename(other.pk, "Another").name == "Another"
    assert saved_views.delete(other.pk)
    assert not saved_views.delete(other.pk)
    with pytest.raises(NotFound):
        saved_views.rename(other.pk, "Gone")
    assert [view.name for view in saved_views.all_views()] == ["Mine"]


@pytest.mark.parametrize("name", ["", " ", "x" * 65])
def test_empty_or_too_long_view_name_is_refused(name: str):
    with pytest.raises(BadInput, match="1 to 64 characters"):
        saved_views.save(name, "q=a")


def test_there_is_a_bounded_number_of_views():
    for number in range(saved_views.MAX_VIEWS):
        saved_views.save(f"View {number}", "q=a")
    with pytest.raises(BadInput, match=f"already {saved_views.MAX_VIEWS} views"):
        saved_views.save("Other", "q=b")
    assert SavedView.objects.count() == saved_views.MAX_VIEWS


async def test_server_purges_at_start_and_after_failures(
    monkeypatch: pytest.MonkeyPatch,
):
    def delete_long_ago() -> int:
        story = Story("s1")
        deletion.delete([story.pk], now=time.time() - DAY - 60)
        return story.pk

    await units_of_work.write(delete_long_ago)
    done = asyncio.Event()
    loop, times = asyncio.get_running_loop(), []

    def once_in_vain() -> int:
        times.append(1)
        if len(times) == 1:
            raise OSError("the disk sleeps")
        removed = clean_up()
        loop.call_soon_threadsafe(done.set)
        return removed

    clean_up = housekeeping.clean_up
    monkeypatch.setattr(housekeeping, "clean_up", once_in_vain)
    task = asyncio.create_task(housekeeping.run_housekeeping(every_s=0.0))
    await asyncio.wait_for(done.wait(), timeout=PATIENCE_S)
    task.cancel()
    await asyncio.wait([task])
    assert not await units_of_work.read(AgentSession.objects.exists)
