"""Copies equal their sessions: differing streamed events are corrected, or reported where that is impossible."""

from __future__ import annotations

import json
from typing import Any

from sessions_app.search import indexing
from sessions_app.search.execution.session_queries import Search
from sessions_app.search.query.parsing import parse
from sessions_app.store import events, mirrors
from sessions_app.store.database import units_of_work
from sessions_app.store.mirrors import SourceEvent, SourceSession
from sessions_app.store.models import AgentSession, ChangeCause, Event, SessionState
from sessions_app.store.session_key import SessionKey

KEY = SessionKey("", "clerk@far", "ann", "s1")
PLACE = "http://127.0.0.1:1"


def server_event(event_id: str, text: str, **more: Any) -> dict[str, Any]:
    """Return an event as a server tells it."""
    content = {"role": "model", "parts": [{"text": text}]}
    actions = {"stateDelta": more.pop("delta", {}), "artifactDelta": {}}
    event_fields = {"id": event_id, "invocationId": "i1", "author": "clerk", "timestamp": 5.0}
    return {**event_fields, "content": content, "actions": actions, **more}


def arrival(event: dict[str, Any]) -> SourceEvent:
    return SourceEvent(events.build_record(json.loads(json.dumps(event))), ChangeCause.APPEND)


async def bring(
    *events: dict[str, Any], state: dict[str, Any] | None = None, doubtful: tuple[str, ...] = ()
) -> None:
    """Bring the copy up to date with a session of these events."""
    here = await units_of_work.read(mirrors.read_mirror, KEY)
    truth = SourceSession(KEY, PLACE, state or {}, 6.0)
    source = mirrors.SourceEvents(events, lambda event: str(event["id"]), arrival, frozenset(doubtful))
    await mirrors.sync_mirror(truth, here, source, seeds={}, created_at=4.0)


async def row() -> AgentSession:
    return await units_of_work.read(AgentSession.objects.select_related("mirrored").get)


async def test_streamed_event_is_replaced_by_the_session_version(store):
    await bring()
    streamed = server_event("e1", "first words", errorCode="X", usageMetadata={"totalTokenCount": 5})
    await units_of_work.write(mirrors.append_event, KEY, arrival(streamed), 5.0)
    before = await row()
    await units_of_work.write(indexing.index_all)
    await bring(server_event("e1", "other words", usageMetadata={"totalTokenCount": 7}), doubtful=("e1",))
    after = await row()
    event: Event = await units_of_work.read(Event.objects.get)
    assert json.loads(event.data)["content"]["parts"] == [{"text": "other words"}]
    assert (event.total_tokens, after.total_tokens, after.error_count) == (7, 7, 0)
    assert (before.error_count, after.revision > before.revision, after.mirrored.behind) == (1, True, "")
    await units_of_work.write(indexing.index_all)

    def count_matches(words: str) -> int:
        return Search(parse(words)).filter_rows(AgentSession.objects.all()).count()

    assert [await units_of_work.read(count_matches, words) for words in ("first", "other")] == [0, 1]


async def test_event_with_different_state_delta_is_kept_and_reported(store):
    await bring()
    await units_of_work.write(
        mirrors.append_event, KEY, arrival(server_event("e1", "hi", delta={"n": 1})), 5.0
    )
    await bring(server_event("e1", "hi", delta={"n": 2}), state={"n": 2}, doubtful=("e1",))
    event: Event = await units_of_work.read(Event.objects.get)
    assert json.loads(event.data)["actions"]["stateDelta"] == {"n": 1}
    assert "has another state delta than the stored copy" in (await row()).mirrored.behind

    def state() -> Any:
        return SessionState.objects.get(key="n").value

    assert json.loads(await units_of_work.read(state)) == 2


async def test_events_without_stream_are_never_rewritten(store):
    await bring(server_event("e1", "as it came"))
    await bring(server_event("e1", "as somebody else says"))
    event: Event = await units_of_work.read(Event.objects.get)
    assert json.loads(event.data)["content"]["parts"] == [{"text": "as it came"}]


async def test_event_removed_on_the_server_stays_and_is_reported(store):
    await bring(server_event("e1", "one"), server_event("e2", "two", timestamp=5.5))
    await bring(server_event("e1", "one"))
    assert await units_of_work.read(Event.objects.count) == 2
    assert (await row()).mirrored.behind == f"1 of the events here are not in {PLACE}."
