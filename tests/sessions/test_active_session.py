"""The active session: the newest one that has not expired, else exactly one new session."""

from __future__ import annotations

import asyncio

import pytest

from sessions_app.sessions import app_settings
from sessions_app.store import durations
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import active_session, writes
from tests.sessions.build import APP, OWNER, USER, append, get
from tests.sessions.concurrency import run_together

NOW = 1_700_000_000.0


def create_session(session_id: str, age: float, *, app: str = APP, user: str = USER, realm: str = "") -> None:
    writes.create_session(SessionKey(realm, app, user, session_id), now=NOW - age)


def test_newest_session_within_ttl_is_reused(store):
    create_session("older", 50)
    create_session("newer", 20)
    create_session("elsewhere", 10, app="writer")
    create_session("of another", 10, user="ben")
    create_session("attempt", 10, realm="eval/1")
    session, created = active_session.get_or_create(APP, USER, 60, now=NOW)
    assert (session.session_id, created) == ("newer", False)


def test_session_with_too_old_last_event_is_not_reused(store):
    create_session("old", 61)
    session, created = active_session.get_or_create(APP, USER, 60, state={"n": 1, "user:n": 2}, now=NOW)
    assert created
    assert session.session_id != "old"
    assert active_session.find_active(APP, USER, 60, now=NOW) == session


def test_without_a_ttl_the_apps_own_counts_and_without_that_the_newest(store):
    create_session("old", 61)
    assert not active_session.get_or_create(APP, USER, now=NOW)[1]
    app_settings.set_session_ttl(APP, 60)
    assert active_session.get_or_create(APP, USER, now=NOW)[1]


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), 1e12])
def test_invalid_duration_is_refused_without_creating_session(store, ttl: float):
    with pytest.raises(BadInput, match="duration"):
        active_session.get_or_create(APP, USER, ttl)
    assert not AgentSession.objects.exists()


def test_callers_that_come_at_once_get_the_same_session(store):
    for turn in range(5):
        user = f"user{turn}"
        outcomes = run_together([lambda user=user: active_session.get_or_create(APP, user, 60)] * 6)
        assert len({session.pk for session, _ in outcomes}) == 1
        assert sum(created for _, created in outcomes) == 1
    assert AgentSession.objects.count() == 5


async def test_the_service_returns_the_session_with_its_events_and_state(ours):
    session = await ours.get_or_create_session(**OWNER, ttl_s=60, state={"n": 1})
    await append(session, ours, {"n": 2})
    again = await ours.get_or_create_session(**OWNER, ttl_s=60, state={"n": 1})
    assert again == session == await get(ours, session.id)
    assert again.state["n"] == 2


async def test_tasks_that_come_at_once_get_the_same_session(ours):
    sessions = await asyncio.gather(*(ours.get_or_create_session(**OWNER) for _ in range(10)))
    assert len({session.id for session in sessions}) == 1
    assert await units_of_work.read(AgentSession.objects.count) == 1


async def test_the_service_refuses_a_span_as_adk_refuses_values(ours):
    with pytest.raises(ValueError, match="duration"):
        await ours.get_or_create_session(**OWNER, ttl_s=0)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30d", 2_592_000), ("12h", 43_200), ("90m", 5_400), ("45s", 45), ("1.5h", 5_400), (" 7D ", 604_800)],
)
def test_durations_are_parsed_as_people_write_them(text: str, seconds: float):
    assert durations.parse(text) == seconds


@pytest.mark.parametrize(("seconds", "text"), [(86_400, "1d"), (5_400, "90m"), (61, "61s"), (0.5, "0.5s")])
def test_a_span_is_shown_in_the_largest_unit_that_fits_and_read_back(seconds: float, text: str):
    assert durations.format_seconds(seconds) == text
    assert durations.parse(text) == seconds
