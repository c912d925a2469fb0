"""Prefetched sessions equal a cold read and share no objects with other reads."""

from __future__ import annotations

import asyncio
import itertools
import logging
import uuid
from typing import Any

import pytest
from django.db import OperationalError
from django.db.models import F
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import GetSessionConfig
from google.adk.sessions.session import Session
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from devui.runtime.runs import LocalRuns
from sessions_app.adk import DjangoSessionService, event_mapping
from sessions_app.adk.prefetch import EVENT_BYTES, Prefetcher
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession
from sessions_app.store.models import Event as EventRow
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.patience import PATIENCE_S
from tests.sessions.build import APP, OWNER, append, create, event, get
from tests.sessions.full_event import full_event
from tests.sessions.strategies import json_values, texts

KEY = SessionKey("", APP, "ann", "s1")


@pytest.fixture
def prefetcher(store: None) -> Prefetcher:
    """Makes a copy of the shortest session, at once."""
    return Prefetcher(min_events=1, delay=0)


@pytest.fixture
def quick(prefetcher: Prefetcher) -> DjangoSessionService:
    """A service that makes the next copy ahead, as a runtime's does."""
    return DjangoSessionService(prefetcher=prefetcher)


@pytest.fixture
def created_events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the events that are made of rows, as they are made."""
    ids: list[str] = []
    from_row = event_mapping.from_row

    def noting(data: str, private: str | None, event_id: str, invocation_id: str) -> Event:
        ids.append(event_id)
        return from_row(data, private, event_id, invocation_id)

    monkeypatch.setattr(event_mapping, "from_row", noting)
    return ids


async def talk(service: DjangoSessionService, turns: int, session_id: str = "s1") -> Session:
    session = await create(service, session_id)
    for turn in range(turns):
        await append(session, service, {"turn": turn, "user:turn": turn}, text=f"turn {turn}")
    return session


async def read_and_settle(
    service: DjangoSessionService, prefetcher: Prefetcher, session_id: str = "s1"
) -> Session:
    session = await get(service, session_id)
    await prefetcher.wait_for_copies()
    return session


async def cold() -> Session:
    return await get(DjangoSessionService())


async def test_the_next_turn_makes_only_the_events_that_are_new(quick, prefetcher, created_events):
    await talk(quick, 3)
    session = await read_and_settle(quick, prefetcher)
    appended = [await append(session, quick, {"turn": turn}) for turn in (3, 4)]
    created_events.clear()
    stored_session = await get(quick)
    assert created_events == [new.id for new in appended]
    assert stored_session == await cold() == session


async def test_next_turn_sees_appends_and_edits_of_other_processes(quick, prefetcher):
    await talk(quick, 3)
    await read_and_settle(quick, prefetcher)
    await append(await cold(), DjangoSessionService(), {"turn": "theirs", "app:theme": "dark"})
    await units_of_work.write(writes.edit_state, KEY, {"turn": "by hand"}, removed=["user:turn"])
    session = await get(quick)
    assert session == await cold()
    assert len(session.events) == 5
    assert session.state == {"turn": "by hand", "app:theme": "dark"}


async def test_changes_to_the_agents_copy_are_not_in_the_next_turn(quick, prefetcher):
    session = await talk(quick, 2)
    await quick.append_event(session, full_event())
    expected = await cold()
    for _ in range(3):
        spoiled = await read_and_settle(quick, prefetcher)
        assert spoiled == expected
        spoiled.events[0].content.parts[0].text = "spoiled"
        spoiled.events[1].actions.state_delta["turn"] = "spoiled"
        spoiled.events[2].content.parts[4].function_call.args["where"] = ["spoiled"]
        spoiled.events[2].actions.agent_state.clear()
        spoiled.events[2].long_running_tool_ids.add("spoiled")
        spoil(spoiled)


async def test_an_agent_that_spoils_its_session_late_spoils_no_other_turn(quick, prefetcher):
    await talk(quick, 2)
    first = await read_and_settle(quick, prefetcher)
    second = await read_and_settle(quick, prefetcher)
    spoil(first)
    assert second == await cold()


async def test_turns_that_read_at_the_same_time_share_no_event(quick, prefetcher):
    await talk(quick, 3)
    await read_and_settle(quick, prefetcher)
    sessions = await asyncio.gather(*[get(quick) for _ in range(3)])
    events = [event for session in sessions for event in session.events]
    assert len({id(event) for event in events}) == 9
    assert sessions == [await cold()] * 3


async def test_deleted_session_is_missing(quick, prefetcher):
    await talk(quick, 3)
    await read_and_settle(quick, prefetcher)
    await DjangoSessionService().delete_session(**OWNER, session_id="s1")
    assert await quick.get_session(**OWNER, session_id="s1") is None


async def test_recreated_session_starts_empty(quick, prefetcher):
    await talk(quick, 3)
    await read_and_settle(quick, prefetcher)
    other = DjangoSessionService()
    await other.delete_session(**OWNER, session_id="s1")
    await talk(other, 4)
    session = await get(quick)
    assert session == await cold()
    assert len(session.events) == 4


async def test_the_same_ids_in_another_realm_are_another_session(quick, prefetcher):
    await talk(quick, 3)
    await read_and_settle(quick, prefetcher)
    attempt = DjangoSessionService("attempt", prefetcher=prefetcher)
    await talk(attempt, 1)
    assert [len((await get(service)).events) for service in (attempt, quick)] == [1, 3]


async def test_prefetch_is_dropped_if_stored_events_change(quick, prefetcher):
    await talk(quick, 3)
    await read_and_settle(quick, prefetcher)
    await units_of_work.write(change_first_event)
    session = await get(quick)
    assert session.events[0].author == "changed"
    assert session == await cold()


def change_first_event() -> None:
    row = EventRow.objects.get(seq=1)
    row.data = row.data.replace('"author":"agent"', '"author":"changed"')
    row.save()
    AgentSession.objects.update(revision=F("revision") + 1)


@pytest.mark.parametrize(
    "config",
    [
        GetSessionConfig(num_recent_events=2),
        GetSessionConfig(num_recent_events=0),
        GetSessionConfig(after_timestamp=101.0),
        GetSessionConfig(num_recent_events=1, after_timestamp=101.0),
        GetSessionConfig(after_timestamp=0),
        GetSessionConfig(),
    ],
    ids=str,
)
async def test_filters_give_the_same_result_without_prefetch(quick, prefetcher, config):
    session = await create(quick)
    for number in range(4):
        await quick.append_event(session, event(str(number), timestamp=100.0 + number))
    await read_and_settle(quick, prefetcher)
    assert await get(quick, config=config) == await get(DjangoSessionService(), config=config)
    assert await get(quick) == await cold()


async def test_copy_taken_while_being_made_is_completed(store):
    prefetcher = Prefetcher(min_events=1, delay=0)
    quick = DjangoSessionService(prefetcher=prefetcher)
    await talk(quick, 250)
    await get(quick)
    async with asyncio.timeout(PATIENCE_S):
        while not prefetcher.size:  # noqa: ASYNC110 - it is made by steps of its own
            await asyncio.sleep(0.001)
    assert await get(quick) == await cold()
    await prefetcher.wait_for_copies()
    assert await get(quick) == await cold()


async def test_short_session_is_not_prefetched(store):
    prefetcher = Prefetcher(min_events=4, delay=0)
    quick = DjangoSessionService(prefetcher=prefetcher)
    await talk(quick, 3)
    await read_and_settle(quick, prefetcher)
    assert prefetcher.size == 0


async def test_the_session_read_longest_ago_makes_room(store, created_events):
    prefetcher = Prefetcher(min_events=1, delay=0, max_bytes=8 * EVENT_BYTES)
    quick = DjangoSessionService(prefetcher=prefetcher)
    for name in ("s1", "s2", "s3"):
        await talk(quick, 3, name)
        await read_and_settle(quick, prefetcher, name)
    assert 0 < prefetcher.size <= 8 * EVENT_BYTES
    for name, cost in (("s3", 0), ("s1", 3)):
        created_events.clear()
        session = await get(quick, name)
        assert len(created_events) == cost
        assert session == await get(DjangoSessionService(), name)
        await prefetcher.wait_for_copies()


async def test_too_long_session_is_prefetched_in_part_or_not_at_all(store):
    prefetcher = Prefetcher(min_events=1, delay=0, max_bytes=220 * (EVENT_BYTES + 2000))
    quick = DjangoSessionService(prefetcher=prefetcher)
    await talk(quick, 250)
    await read_and_settle(quick, prefetcher)
    assert 0 < prefetcher.size <= 220 * (EVENT_BYTES + 2000)
    assert await get(quick) == await cold()


async def test_failing_prefetch_is_logged_and_harmless(
    quick, prefetcher, created_events, monkeypatch, caplog
):
    def fail(*row: Any) -> Event:
        raise OperationalError("disk I/O error")

    await talk(quick, 3)
    await get(quick)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(event_mapping, "from_row", fail)
        await prefetcher.wait_for_copies()
    assert "could not be made ahead" in caplog.text
    assert await get(quick) == await cold()


def test_only_runtimes_prefetch_by_default():
    assert LocalRuns("r1", lambda: None).service.prefetcher is not None
    assert DjangoSessionService().prefetcher is None


def spoil(session: Session) -> None:
    """Do to a session what an agent may do to it."""
    session.state["spoiled"] = True
    for happened in session.events:
        happened.author = "spoiled"
        happened.content = None
        happened.actions.state_delta["spoiled"] = True
    session.events.append(event("never appended"))
    del session.events[0]


deltas = st.dictionaries(st.sampled_from(["a", "user:a", "app:a", "b"]), json_values, max_size=2)


class Turns(RuleBasedStateMachine):
    """Reads of a service that makes copies ahead, of a store that it and others write to."""

    def __init__(self) -> None:
        super().__init__()
        self.app = uuid.uuid4().hex
        self.prefetcher = Prefetcher(min_events=1, delay=0)
        self.quick, self.plain = DjangoSessionService(prefetcher=self.prefetcher), DjangoSessionService()
        self.loop = asyncio.new_event_loop()
        self.names = itertools.count()
        self.held: list[Session] = []
        self.owner = {"app_name": self.app, "user_id": "ann", "session_id": "s"}
        self.do(self.plain.create_session(**self.owner))

    def teardown(self) -> None:
        self.do(self.prefetcher.wait_for_copies())
        self.loop.close()

    def do(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    @rule()
    def wait(self) -> None:
        self.do(self.prefetcher.wait_for_copies())

    @rule(text=texts, delta=deltas, by_other=st.booleans())
    def append(self, text: str, delta: dict[str, Any], by_other: bool) -> None:
        service = self.plain if by_other else self.quick
        session = self.do(service.get_session(**self.owner))
        self.do(service.append_event(session, event(text, delta, id=f"e{next(self.names)}")))
        self.held.append(session)

    @rule(delta=deltas)
    def edit(self, delta: dict[str, Any]) -> None:
        key = SessionKey("", self.app, "ann", "s")
        self.do(units_of_work.write(writes.edit_state, key, delta, removed=["b"]))

    @rule()
    def spoil_what_is_held(self) -> None:
        for session in self.held:
            if session.events:
                spoil(session)

    @rule()
    def make_anew(self) -> None:
        self.do(self.plain.delete_session(**self.owner))
        self.do(self.plain.create_session(**self.owner))

    @invariant()
    def a_read_is_what_a_cold_one_is(self) -> None:
        prefetched, expected = (
            self.do(service.get_session(**self.owner)) for service in (self.quick, self.plain)
        )
        assert prefetched == expected
        assert prefetched._storage_update_marker == expected._storage_update_marker
        self.held.append(prefetched)


@pytest.mark.parametrize("examples", [5, pytest.param(15, marks=pytest.mark.soak)])
def test_any_sequence_of_turns_reads_the_same_without_prefetch(store, examples):
    run_state_machine_as_test(
        Turns,
        settings=settings(
            max_examples=examples,
            stateful_step_count=15,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
