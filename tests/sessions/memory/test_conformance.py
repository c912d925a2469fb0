"""Behavior that DevUI's memory service shares with ADK's."""

from __future__ import annotations

import pytest
from google.adk.memory.base_memory_service import BaseMemoryService
from google.genai import types

from tests.sessions.memory.builders import OWNER, event, recall_texts, session

pytestmark = pytest.mark.django_db(transaction=True)


async def test_session_text_is_found(service: BaseMemoryService):
    await service.add_session_to_memory(session("The budget is 40,000.", "Good."))
    assert await recall_texts(service, "budget") == ["The budget is 40,000."]


async def test_a_memory_is_the_event_it_comes_from(service: BaseMemoryService):
    talk = session("The budget is 40,000.")
    await service.add_session_to_memory(talk)
    (memory,) = (await service.search_memory(**OWNER, query="budget")).memories
    assert memory.id == "s1-0"
    assert memory.author == "user"
    assert memory.content == talk.events[0].content
    assert memory.timestamp is not None
    assert memory.timestamp.startswith("19")  # local time of epoch second 1000, as ADK tells it
    assert memory.custom_metadata == {}


@pytest.mark.parametrize("query", ["BUDGET", "budget?", "what about the budget", "budgetary budget"])
async def test_one_common_word_in_any_case_matches(service: BaseMemoryService, query: str):
    await service.add_session_to_memory(session("Budget: 40,000."))
    assert await recall_texts(service, query) == ["Budget: 40,000."]


@pytest.mark.parametrize("query", ["budg", "udget", "cost", "", "  ", "?!"])
async def test_part_of_a_word_is_not_the_word(service: BaseMemoryService, query: str):
    await service.add_session_to_memory(session("The budget."))
    assert await recall_texts(service, query) == []


async def test_more_common_words_rank_higher(service: BaseMemoryService):
    await service.add_session_to_memory(session("red apple", "red green apple pie", "green"))
    assert (await recall_texts(service, "green apple pie"))[0] == "red green apple pie"


async def test_adding_a_session_again_adds_only_new_events(service: BaseMemoryService):
    await service.add_session_to_memory(session("first plan"))
    await service.add_session_to_memory(session("first plan", "second plan"))
    assert sorted(await recall_texts(service, "plan")) == ["first plan", "second plan"]


async def test_adding_events_extends_the_memory(service: BaseMemoryService):
    await service.add_session_to_memory(session("first plan"))
    new = event("second plan", id="s1-1")
    for _ in range(2):
        await service.add_events_to_memory(**OWNER, events=[new], session_id="s1")
    assert sorted(await recall_texts(service, "plan")) == ["first plan", "second plan"]


async def test_events_need_no_session(service: BaseMemoryService):
    await service.add_events_to_memory(**OWNER, events=[event("a plan")])
    assert await recall_texts(service, "plan") == ["a plan"]


async def test_events_of_same_id_in_two_sessions_are_two_memories(service: BaseMemoryService):
    for session_id in ("s1", "s2"):
        await service.add_events_to_memory(**OWNER, events=[event("a plan", id="e")], session_id=session_id)
    assert await recall_texts(service, "plan") == ["a plan", "a plan"]


async def test_events_without_content_are_left_out(service: BaseMemoryService):
    without = event(None)
    without.content = None
    call = types.Part.from_function_call(name="plan", args={"plan": "plan"})
    calling = event(None, content=types.Content(role="model", parts=[call]))
    await service.add_events_to_memory(**OWNER, events=[without, event(None), calling, event("")])
    assert await recall_texts(service, "plan") == []


@pytest.mark.parametrize("change", [{"app_name": "other"}, {"user_id": "bob"}])
async def test_a_memory_is_its_users_in_this_app_only(service: BaseMemoryService, change: dict[str, str]):
    await service.add_session_to_memory(session("a plan"))
    assert await recall_texts(service, "plan", **change) == []


async def test_a_search_returns_ten_memories_at_most(service: BaseMemoryService):
    await service.add_session_to_memory(session(*[f"plan {n}" for n in range(30)]))
    assert len(await recall_texts(service, "plan")) == 10


async def test_deleted_memory_stays_deleted(service: BaseMemoryService):
    await service.add_session_to_memory(session("plan one", "plan two"))
    await service.delete_memory(**OWNER, memory_id="s1-0")
    assert await recall_texts(service, "plan") == ["plan two"]
    await service.add_session_to_memory(session("plan one", "plan two"))
    again = event("plan one", id="s1-0")
    await service.add_events_to_memory(**OWNER, events=[again], session_id="another")
    assert await recall_texts(service, "plan") == ["plan two"]


@pytest.mark.parametrize("memory_id", ["unknown", "", None])
async def test_deleting_missing_memory_is_no_error(service: BaseMemoryService, memory_id: str | None):
    await service.add_session_to_memory(session("a plan"))
    await service.delete_memory(**OWNER, memory_id=memory_id)
    assert await recall_texts(service, "plan") == ["a plan"]


async def test_another_users_memory_is_not_deleted(service: BaseMemoryService):
    await service.add_session_to_memory(session("a plan"))
    await service.delete_memory(**{**OWNER, "user_id": "bob"}, memory_id="s1-0")
    assert await recall_texts(service, "plan") == ["a plan"]


async def test_changing_a_result_does_not_change_the_memory(service: BaseMemoryService):
    await service.add_session_to_memory(session("a plan"))
    (memory,) = (await service.search_memory(**OWNER, query="plan")).memories
    assert memory.content.parts
    memory.content.parts[0].text = "changed"
    assert await recall_texts(service, "plan") == ["a plan"]
