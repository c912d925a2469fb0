"""Search indexes: they catch up with appends, can be rebuilt, and forget deleted sessions."""

from __future__ import annotations

import io

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import TransactionTestCase

from sessions_app.search import indexing
from sessions_app.search.execution import session_queries
from sessions_app.search.query.parsing import parse
from sessions_app.sessions import purge
from sessions_app.store.database import full_text, tokens
from sessions_app.store.events import build_record
from sessions_app.store.index import index_backlog
from sessions_app.store.index.event_index import find_sessions as sessions_with
from sessions_app.store.models import (
    AgentSession,
    EventWords,
    MemoryEntry,
    NestedRun,
    SessionTrait,
    SessionUsage,
    StateValue,
)
from sessions_app.store.sessions import writes
from sessions_app.store.sessions.nested_runs import NestedRunOrigin, save_nested
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db


def indexed_sessions(word: str) -> set[int]:
    phrase = tokens.parse_phrase(word)
    assert phrase is not None
    sessions = sessions_with(phrase, 10_000)
    assert sessions is not None
    return sessions


def matches(text: str) -> list[str]:
    rows = session_queries.Search(parse(text)).filter_rows(AgentSession.objects.filter(realm=""))
    return sorted(rows.values_list("session_id", flat=True))


def words_kept() -> int:
    with connection.cursor() as cursor:
        table = "event_words" if connection.vendor == "sqlite" else EventWords._meta.db_table
        cursor.execute(f"SELECT count(*) FROM {table}")
        return int(cursor.fetchone()[0])


def test_an_append_writes_no_index_and_the_cursor_follows():
    story = Story()
    story.says("sunny")
    assert indexed_sessions("sunny") == set()
    assert index_backlog.sessions().exists()
    indexing.index_all()
    assert indexed_sessions("sunny") == {story.pk}
    assert not index_backlog.sessions().exists()
    story.says("rainy")
    assert index_backlog.sessions().exists()
    assert (indexed_sessions("rainy"), matches("rainy")) == (set(), ["s1"])
    indexing.index_all()
    assert indexed_sessions("rainy") == {story.pk}


def test_indexing_leaves_the_revision_alone():
    story = Story()
    story.says("sunny")
    before = story.session.revision
    indexing.index_all()
    assert story.session.revision == before


def test_a_long_session_is_indexed_in_pieces():
    story = Story()
    for number in range(indexing.BATCH_EVENTS + 3):
        story.add({"text": f"word{number}"}, delta={"n": number})
    indexing.store_batches(indexing.read_batches())
    assert story.session.indexed_seq == indexing.BATCH_EVENTS
    assert matches(f"word{indexing.BATCH_EVENTS + 2}") == matches("word0") == matches("n = 66 ever") == ["s1"]
    indexing.index_all()
    assert indexed_sessions(f"word{indexing.BATCH_EVENTS + 2}") == {story.pk}
    assert matches("n = 3 ever") == matches("n = 66 ever") == ["s1"]


def test_two_workers_index_everything_once():
    story = Story()
    story.says("sunny")
    mine, others = indexing.read_batches(), indexing.read_batches()
    indexing.store_batches(others)
    indexing.store_batches(mine)
    assert story.session.indexed_seq == 1
    assert words_kept() >= 1
    assert SessionTrait.objects.filter(session=story.pk, name="kind").count() == 1


def test_a_session_deleted_while_it_is_indexed_leaves_nothing():
    story = Story("s1", {"k": "v"})
    story.says("sunny")
    pieces = indexing.read_batches()
    before = words_kept()
    writes.delete_session(story.key)
    indexing.store_batches(pieces)
    assert words_kept() == before
    assert not StateValue.objects.filter(scope="session", owner_id=story.pk).exists()


def test_a_deleted_session_is_in_no_index():
    story, gone_story = Story("kept"), Story("gone", {"k": "v", "user:u": 1})
    story.says("sunny")
    gone_story.says("sunny")
    indexing.index_all()
    assert indexed_sessions("sunny") == {story.pk, gone_story.pk}
    writes.delete_session(gone_story.key)
    assert indexed_sessions("sunny") == {story.pk}
    assert not StateValue.objects.filter(scope="session", owner_id=gone_story.pk).exists()
    assert not SessionTrait.objects.filter(session=gone_story.pk).exists()
    assert matches("user:u = 1 ever") == ["kept"]


@pytest.mark.django_db(transaction=True)
def test_purged_sessions_and_realms_are_in_no_index():
    old, attempt = Story("old", {"k": "v"}), Story("a1", {"k": "v", "user:u": 1}, realm="eval/1")
    for story in (old, attempt):
        story.says("sunny")
    indexing.index_all()
    assert indexed_sessions("sunny") == {old.pk, attempt.pk}
    purge.delete_realm("eval/1")
    assert indexed_sessions("sunny") == {old.pk}
    purge.purge(purge.PurgeFilter(older_than_s=1.0))
    assert indexed_sessions("sunny") == set()
    assert not StateValue.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_the_store_of_a_test_is_emptied_with_its_indexes():
    story = Story()
    story.says("sunny")
    indexing.index_all()
    full_text.index_rows(MemoryEntry, [full_text.IndexEntry(1, "ann", "sunny")])
    TransactionTestCase()._fixture_teardown()
    assert words_kept() == 0
    if connection.vendor == "sqlite":
        assert not connection.cursor().execute("SELECT rowid FROM memory_words").fetchall()


def test_credentials_enter_no_index():
    story = Story()
    secret = {"authType": "oauth2", "oauth2": {"clientId": "public1", "clientSecret": "s3cr3t"}}
    body = {"id": "e1", "invocationId": "i", "author": "agent", "timestamp": 1.0, "actions": {}}
    body["content"] = {"parts": [{"functionResponse": {"name": "x", "response": {"credential": secret}}}]}
    writes.append_event(story.key, build_record(body, delta={"credential": secret}))
    assert matches("public1") == ["s1"]
    indexing.index_all()
    assert (indexed_sessions("public1"), indexed_sessions("s3cr3t")) == ({story.pk}, set())
    assert not [row for row in StateValue.objects.all() if "s3cr3t" in row.mark]


def index_events(*options: str) -> str:
    """Run the command and return what it says."""
    out = io.StringIO()
    call_command("index_events", *options, stdout=out)
    return out.getvalue()


def test_command_indexes_backlog_reports_it_and_rebuilds():
    story = Story()
    story.says("sunny")
    story.says("rainy")
    assert index_events() == "2 event(s) indexed.\n"
    assert indexed_sessions("sunny") == {story.pk}
    assert index_events() == "0 event(s) indexed.\n"
    SessionTrait.objects.all().delete()
    assert index_events("--rebuild") == "2 event(s) indexed.\n"
    assert matches("kind:agent") == ["s1"]
    assert story.session.indexed_seq == 2


def nest(
    story: Story, text: str, ref: str = "r1", call_id: str = "c1", finished_at: float | None = 2.0
) -> None:
    """Store a nested run with one event inside a call."""
    wire = {"id": f"n-{ref}", "author": "helper", "content": {"parts": [{"text": text}]}, "timestamp": 1.0}
    run = NestedRun(call_id=call_id, agent="helper", started_at=1.0, changed_at=1.0, finished_at=finished_at)
    run.event_count = run.stored_count = 1
    save_nested(story.key, NestedRunOrigin(ref, call_id), run, {}, build_record(wire))


def test_text_of_every_key_in_arguments_and_results_is_found_and_bytes_are_not():
    story = Story()
    story.calls("find_order", "c1", id="order4711", role="buyer12")
    image = {"type": "image", "mimeType": "image/png", "data": "aW1hZ2U0Nw"}
    story.answers("find_order", "c1", response={"data": {"id": "parcel99"}, "content": [image]})
    indexing.index_all()
    for text in ("order4711", "buyer12", "parcel99"):
        assert matches(text) == ["s1"], text
    assert matches("c1") == matches("aW1hZ2U0Nw") == []


def test_text_of_a_nested_run_is_found_at_its_call():
    story = Story()
    story.says("hello")
    story.calls("helper", "c1", city="Oslo")
    nest(story, "the archive mentions fjords")
    indexing.index_all()
    nested = NestedRun.objects.get().child_id
    assert indexed_sessions("fjords") == {story.pk, nested}
    assert matches("fjords") == ["s1"]
    hits = session_queries.Search(parse("fjords")).hits([story.session])
    assert hits[story.pk].seq == 2
    assert ("fjords", True) in hits[story.pk].snippet


def test_nested_run_that_ends_after_its_call_was_indexed_is_found():
    story = Story()
    story.calls("helper", "c1", city="Oslo")
    story.says("goodbye")
    indexing.index_all()
    nest(story, "unfinished whales", finished_at=None)
    indexing.index_all()
    assert matches("whales") == []
    NestedRun.objects.update(finished_at=3.0)
    indexing.index_all()
    assert matches("whales") == ["s1"]
    assert indexed_sessions("goodbye") == {story.pk}
    assert (matches("oslo"), matches("goodbye")) == (["s1"], ["s1"])
    assert not indexing.read_batches()


def test_indexing_anew_finds_nested_runs_again():
    story = Story()
    story.calls("helper", "c1")
    nest(story, "fjords")
    indexing.index_all()
    indexing.reset()
    indexing.index_all()
    assert matches("fjords") == ["s1"]


def test_names_that_columns_cannot_hold_are_indexed_with_a_replacement():
    story = Story()
    story.add(
        {"functionCall": {"id": "c1", "name": "a\x00b", "args": {}}},
        modelVersion="m\x00",
        usageMetadata={"promptTokenCount": 1, "totalTokenCount": 1},
        errorMessage="e\x00",
    )
    indexing.index_all()
    values = SessionTrait.objects.values_list("value", flat=True)
    assert {"a\ufffdb", "e\ufffd"} <= set(values)
    assert [row.model for row in SessionUsage.objects.all()] == ["m\ufffd"]
