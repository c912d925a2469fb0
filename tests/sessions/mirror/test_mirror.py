"""Sessions of an ADK service stay in the service; DevUI's store has an exact copy."""

from __future__ import annotations

from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.apps import App
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events.event import Event
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService, GetSessionConfig
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from sessions_app.adk import DjangoSessionService, MirroredSessionService, Recorder, event_mapping
from sessions_app.store import mirrors
from sessions_app.store.database import units_of_work
from sessions_app.store.models import AgentSession, MirroredSession, StateChange, TempWrite
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.fake_models import ScriptedModel, call
from tests.sessions.build import APP, OWNER, USER, append, create, event, get

KEY = SessionKey("", APP, USER, "s1")


def book(city: str, tool_context: ToolContext) -> str:
    tool_context.state["city"] = city
    tool_context.state["user:home"] = city
    tool_context.state["app:bookings"] = 1
    tool_context.state["temp:draft"] = city
    return "booked"


async def say(service: BaseSessionService, *turns: Any, session_id: str = "s1") -> list[Event]:
    """Run one turn of an agent with a recorder, on ADK's own Runner."""
    agent = LlmAgent(name="clerk", model=ScriptedModel.saying(*turns), tools=[book], output_key="said")
    app = App(name=APP, root_agent=agent, plugins=[Recorder()])
    message = types.Content(role="user", parts=[types.Part(text="go")])
    async with Runner(app=app, session_service=service) as runner:
        run = runner.run_async(user_id=USER, session_id=session_id, new_message=message)
        return [event async for event in run]


async def copy(session_id: str = "s1") -> Any:
    """Return the session as DevUI's store has it."""
    return await get(DjangoSessionService(), session_id)


async def mark(session_id: str = "s1") -> MirroredSession:
    return await units_of_work.read(MirroredSession.objects.get, session__session_id=session_id)


async def same(truth: BaseSessionService, session_id: str = "s1") -> None:
    """Hold the copy to the truth: events, order, state, times; and that it says so."""
    there, here = await get(truth, session_id), await copy(session_id)
    assert here.events == there.events
    assert here.state == there.state
    assert here.last_update_time == there.last_update_time
    assert (await mark(session_id)).behind == ""


async def test_run_is_stored_alike_in_service_and_copy(mirrored_service, truth):
    await create(mirrored_service, state={"city": "Rome", "user:name": "Ann", "app:open": True, "temp:x": 1})
    await say(mirrored_service, call("book", city="Oslo"), "Done.")
    session = await get(truth)
    assert [event.author for event in session.events] == ["user", "clerk", "clerk", "clerk"]
    assert session.state["said"] == "Done."
    assert session.state["user:home"] == "Oslo"
    await same(truth)


async def test_copy_has_writers_and_temp_keys(mirrored_service):
    await create(mirrored_service, state={"city": "Rome"})
    await say(mirrored_service, call("book", city="Oslo"), "Done.")

    def read_writes() -> list[tuple[str, int, str, str, bool]]:
        rows = StateChange.objects.filter(key__in=["city", "home", "said"]).order_by("seq", "key")
        return [(row.key, row.seq, row.writer, row.writer_name, row.inferred) for row in rows]

    assert await units_of_work.read(read_writes) == [
        ("city", 0, "seed", "", False),
        ("city", 3, "tool", "book", False),
        ("home", 3, "tool", "book", False),
        ("said", 4, "output_key", "clerk", False),
    ]
    assert await units_of_work.read(TempWrite.objects.values_list("key", "value").get) == ("draft", '"Oslo"')


async def test_reads_return_the_services_session(mirrored_service, truth):
    await create(mirrored_service, state={"user:n": 1})
    await append(await get(mirrored_service), mirrored_service, {"n": 1})
    assert (await get(mirrored_service)).events == (await get(truth)).events
    assert await mirrored_service.list_sessions(**OWNER) == await truth.list_sessions(**OWNER)
    assert await mirrored_service.get_user_state(**OWNER) == {"n": 1}
    assert await mirrored_service.get_session(**OWNER, session_id="none") is None
    await mirrored_service.wait_for_copies()


async def test_session_is_deleted_in_service_and_copy(mirrored_service, truth):
    await create(mirrored_service)
    await mirrored_service.delete_session(**OWNER, session_id="s1")
    assert await truth.get_session(**OWNER, session_id="s1") is None
    assert not await units_of_work.read(AgentSession.objects.exists)


async def test_local_session_of_same_id_survives_deletion_in_the_service(mirrored_service):
    await create(DjangoSessionService())
    await mirrored_service.delete_session(**OWNER, session_id="s1")
    assert await units_of_work.read(AgentSession.objects.filter(session_id="s1").exists)


async def test_append_refused_by_the_service_is_not_copied(mirrored_service, truth):
    session = await create(mirrored_service)
    with pytest.raises(AlreadyExistsError):
        await create(mirrored_service)
    stale = await get(mirrored_service)
    await append(session, mirrored_service, {"n": 1})
    with pytest.raises(StaleSessionError):
        await append(stale, mirrored_service, {"n": 2})
    missing_session = session.model_copy(update={"id": "gone"})
    with pytest.raises(SessionNotFoundError):
        await append(missing_session, mirrored_service, {"n": 3})
    with pytest.raises(InputValidationError, match="ttl"):
        await create(mirrored_service, "s2", ttl=1)
    await same(truth)
    assert await units_of_work.read(AgentSession.objects.count) == 1


async def test_a_partial_event_is_stored_nowhere(mirrored_service, truth):
    session = await create(mirrored_service)
    await mirrored_service.append_event(session, event("ha", partial=True))
    assert (await get(truth)).events == (await copy()).events == []


async def test_session_of_another_process_is_copied_when_read(mirrored_service, truth):
    session = await create(truth, state={"city": "Rome", "user:name": "Ann", "n": 0})
    for n in range(3):
        await append(session, truth, {"n": n, "app:n": n, "temp:n": n}, timestamp=1000.000001 + n)
    await get(mirrored_service)
    await same(truth)

    def seeds() -> list[tuple[str, str]]:
        rows = StateChange.objects.filter(seq=0, scope="session").order_by("key")
        return [(row.key, row.value or "") for row in rows]

    assert await units_of_work.read(seeds) == [("city", '"Rome"')]
    row = await units_of_work.read(AgentSession.objects.get)
    assert (row.created_at, row.last_seq) == (1000.000001, 3)


async def test_session_continued_elsewhere_is_updated_when_read(mirrored_service, truth):
    await append(await create(mirrored_service), mirrored_service, {"n": 1})
    await append(await get(truth), truth, {"n": 2, "user:n": 2})
    assert (await copy()).state == {"n": 1}
    await get(mirrored_service, config=GetSessionConfig(num_recent_events=0))
    await same(truth)


async def test_a_listing_brings_the_copies_up_to_date_behind_it(mirrored_service, truth):
    for name in ("s1", "s2"):
        await append(await create(truth, name), truth, {"n": name})
    await mirrored_service.list_sessions(app_name=APP)
    await mirrored_service.wait_for_copies()
    await same(truth, "s1")
    await same(truth, "s2")


async def test_state_without_event_is_copied(mirrored_service, truth):
    await append(await create(mirrored_service, state={"user:n": 1}), mirrored_service, {"app:n": 1})
    await append(await create(truth, "s2"), truth, {"user:n": 2, "app:n": 2})
    await get(mirrored_service)
    await same(truth)
    changes = StateChange.objects.filter(scope="user").order_by("position").values_list("value", "cause")
    assert await units_of_work.read(lambda: list(changes)) == [("1", "seed"), ("2", "import")]


async def test_read_of_unchanged_session_writes_nothing(mirrored_service):
    await say_something(mirrored_service)
    before = await units_of_work.read(AgentSession.objects.get)
    await get(mirrored_service)
    after = await units_of_work.read(AgentSession.objects.get)
    assert (after.revision, after.updated_at) == (before.revision, before.updated_at)


async def say_something(service: MirroredSessionService) -> None:
    session = await create(service, state={"app:a": 1, "b": [1.0, None]})
    await append(session, service, {"user:d": {"z": 1, "a": b"x"}, "e": 2**70})
    await get(service)


async def test_ids_are_case_sensitive(mirrored_service, truth):
    session = await create(mirrored_service, " a/b?日本 ")
    await append(session, mirrored_service, {"n": 1})
    assert [result.id for result in (await truth.list_sessions(**OWNER)).sessions] == [session.id]
    row = await units_of_work.read(AgentSession.objects.get)
    assert (row.session_id, row.last_seq) == (session.id, 1)


async def test_failing_copy_ends_no_run_and_is_marked_outdated(mirrored_service, truth, monkeypatch, caplog):
    session = await create(mirrored_service)
    with monkeypatch.context() as broken:
        broken.setattr(mirrors, "append_event", _full)
        await append(session, mirrored_service, {"n": 1})
    assert (await mark()).behind == "The copy could not be written: OSError: the disk is full"
    assert [record.getMessage().count("disk is full") for record in caplog.records] == [1]
    await append(session, mirrored_service, {"n": 2})
    await same(truth)


async def test_read_repairs_a_failed_copy(mirrored_service, truth, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(mirrors, "create_mirror", _full)
        session = await create(mirrored_service)
        await append(session, mirrored_service, {"n": 1})
        assert not await units_of_work.read(AgentSession.objects.exists)
    await get(mirrored_service)
    await same(truth)


def _full(*args: Any) -> Any:
    raise OSError("the disk is full")


async def test_unstorable_event_is_missing_in_the_copy_with_note(mirrored_service):
    session = await create(mirrored_service)
    await append(session, mirrored_service, {"n": 1}, invocation_id="🙂" * 200)
    await append(session, mirrored_service, {"n": 2})
    assert (await get(mirrored_service)).events[-1].actions.state_delta == {"n": 2}
    assert len((await copy()).events) == 1
    assert (await copy()).state == {"n": 2}
    assert (await mark()).behind.startswith("1 of its events cannot be stored here: ")


async def test_session_deleted_in_the_service_remains_with_note(mirrored_service, truth):
    await append(await create(mirrored_service), mirrored_service, {"n": 1})
    await truth.delete_session(**OWNER, session_id="s1")
    assert await mirrored_service.get_session(**OWNER, session_id="s1") is None
    assert (await mark()).behind == "The session no longer exists in adk's."
    assert len((await copy()).events) == 1


async def test_session_recreated_in_the_service_keeps_old_events_with_note(mirrored_service, truth):
    await append(await create(mirrored_service), mirrored_service, {"old": 1})
    await truth.delete_session(**OWNER, session_id="s1")
    await append(await create(truth), truth, {"new": 1})
    await get(mirrored_service)
    session = await copy()
    assert [event.actions.state_delta for event in session.events] == [{"old": 1}, {"new": 1}]
    assert session.state == {"new": 1}
    assert (await mark()).behind == "1 of the events here are not in adk's."


async def test_keys_of_the_user_that_only_this_store_has_stay(mirrored_service):
    await units_of_work.write(
        writes.create_session, KEY._replace(session_id="own"), {"user:mine": 1, "user:n": 1}
    )
    await create(mirrored_service, state={"user:n": 2})
    await get(mirrored_service)
    assert (await copy()).state == {"user:mine": 1, "user:n": 2}
    assert (await get(mirrored_service)).state == {"user:n": 2}


async def test_two_mirroring_processes_make_one_copy(mirrored_service, make_truth, truth):
    other = MirroredSessionService(make_truth(), "adk's")
    await create(mirrored_service)
    for n in range(3):
        for service in (mirrored_service, other):
            await append(await get(service), service, {"n": n})
    await same(truth)


async def test_append_during_comparison_is_not_undone(mirrored_service, truth, monkeypatch):
    """Another process appends, there and here, after this one has read the truth."""
    await create(mirrored_service)
    await append(await get(truth), truth, {"n": 1})
    is_settled = mirrors.is_in_sync

    def late(*args: Any) -> bool:
        writes.append_event(KEY, event_mapping.to_record(event(delta={"n": 2})))
        return is_settled(*args)

    monkeypatch.setattr(mirrors, "is_in_sync", late)
    await get(mirrored_service)
    assert (await copy()).state == {"n": 2}


async def test_session_with_unstorable_id_is_in_the_service_alone(request, mirrored_service, truth):
    if "PostgreSQL" in request.node.name:
        pytest.skip("ADK's tables on PostgreSQL hold no id of this length")
    long_user = "é" * 300
    await mirrored_service.create_session(app_name=APP, user_id=long_user, session_id="s1")
    assert await truth.get_session(app_name=APP, user_id=long_user, session_id="s1")
    assert not await units_of_work.read(AgentSession.objects.filter(app_name=APP).exists)
