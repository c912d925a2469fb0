"""Searches of memory beyond ADK's: any script, rare words first, custom entries."""

from __future__ import annotations

import asyncio

import pytest
from django.db import connection
from google.adk.errors.input_validation_error import InputValidationError
from google.genai import types

from sessions_app.adk import DjangoMemoryService
from sessions_app.store.database import units_of_work
from sessions_app.store.models import MemoryEntry
from tests.sessions.memory.builders import OWNER, entry, event, recall_texts, session

pytestmark = pytest.mark.django_db(transaction=True)

JAPANESE = (
    "会議は木曜日の午後に移りました。",
    "東京都の天気は晴れです。",
    "ﾌﾟﾘﾝﾀが壊れている",
    "いちごを買う",
)
CHINESE = ("北京今天天气很好", "会议改到星期四下午", "预算是四万元")
KOREAN = ("회의에서 예산을 정했습니다.", "서울의 날씨는 맑습니다", "프린터가 고장났어요")
ENGLISH = ("The meeting moved to Thursday.", "Python is what I like.", "私はPythonを使う")


@pytest.mark.parametrize(
    ("texts", "query", "expected"),
    [
        (JAPANESE, "会議", JAPANESE[0]),
        (JAPANESE, "天気", JAPANESE[1]),
        (JAPANESE, "プリンタ", JAPANESE[2]),
        (JAPANESE, "いちご", JAPANESE[3]),
        (JAPANESE, "晴", JAPANESE[1]),
        (JAPANESE, "会議はいつですか", JAPANESE[0]),
        (CHINESE, "天气", CHINESE[0]),
        (CHINESE, "会议", CHINESE[1]),
        (CHINESE, "预算是多少", CHINESE[2]),
        (CHINESE, "北京天气怎么样", CHINESE[0]),
        (KOREAN, "회의", KOREAN[0]),
        (KOREAN, "예산", KOREAN[0]),
        (KOREAN, "날씨가 어때요?", KOREAN[1]),
        (KOREAN, "프린터", KOREAN[2]),
        (ENGLISH, "meeting", ENGLISH[0]),
    ],
)
async def test_word_of_any_script_is_found(
    memory: DjangoMemoryService, texts: tuple[str, ...], query: str, expected: str
):
    await memory.add_session_to_memory(session(*texts))
    assert (await recall_texts(memory, query))[0] == expected


@pytest.mark.parametrize("query", ["京天", "都東", "議会", "气天", "산예", "木日"])
async def test_characters_that_are_not_side_by_side_are_not_a_word(memory: DjangoMemoryService, query: str):
    await memory.add_session_to_memory(session(*JAPANESE, *CHINESE, *KOREAN))
    assert await recall_texts(memory, query) == []


async def test_word_inside_another_script_is_found(memory: DjangoMemoryService):
    await memory.add_session_to_memory(session(*ENGLISH))
    assert set(await recall_texts(memory, "python")) == set(ENGLISH[1:])


async def test_rare_word_outweighs_common_ones(memory: DjangoMemoryService):
    common = [f"what did we say about the weather, part {n}" for n in range(12)]
    await memory.add_session_to_memory(session(*common, "Acme gets the order"))
    assert (await recall_texts(memory, "what about Acme"))[0] == "Acme gets the order"


async def test_of_equals_the_newest_comes_first(memory: DjangoMemoryService):
    await memory.add_session_to_memory(session("plan a", "plan b", "plan c"))
    assert await recall_texts(memory, "plan") == ["plan c", "plan b", "plan a"]


HOSTILE = [
    '"', "'", '""""', "plan OR", "NOT plan", "AND", "NEAR(plan)", "plan*", "words:plan", "owner : x", "^plan", "-plan",
    "(plan", "plan)", "{plan}", "plan + plan", "a\x00plan", "\ud800 plan", "'; DROP TABLE sessions_app_memoryentry; --",
    "%s %(x)s", "plan:*", "!plan & |", "<-> plan", "\\", "\\' plan", "plan\u2028", "=plan",
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
async def test_a_hostile_query_is_only_words(memory: DjangoMemoryService, query: str):
    await memory.add_session_to_memory(session("a plan"))
    expected = ["a plan"] if "plan" in query else []
    assert await recall_texts(memory, query) == expected


@pytest.mark.parametrize("text", [*HOSTILE, "x" * 100_000 + " plan", "日" * 5000 + " plan", "plan " * 20_000])
async def test_hostile_text_is_stored_and_found(memory: DjangoMemoryService, text: str):
    await memory.add_events_to_memory(**OWNER, events=[event("plan " + text, id="e")])
    (memory_found,) = (await memory.search_memory(**OWNER, query="plan")).memories
    assert memory_found.id == "e"


async def test_a_very_long_query_is_answered(memory: DjangoMemoryService):
    await memory.add_session_to_memory(session("a plan"))
    assert await recall_texts(memory, "plan " + "wörter und 言葉 " * 20_000) == ["a plan"]


@pytest.mark.parametrize("odd", ["", "..", "a'b\"c", "%", "café", "x" * 500])
async def test_ids_hold_any_character(memory: DjangoMemoryService, odd: str):
    owner = {"app_name": odd, "user_id": odd}
    await memory.add_session_to_memory(session("a plan", session_id=odd or "s", **owner))
    assert await recall_texts(memory, "plan", **owner) == ["a plan"]
    assert await recall_texts(memory, "plan") == []


@pytest.mark.parametrize("bad", ["a\x00b", "\ud800", "x" * 513])
async def test_unstorable_id_is_refused(memory: DjangoMemoryService, bad: str):
    with pytest.raises(InputValidationError, match="user"):
        await memory.search_memory(app_name="office", user_id=bad, query="plan")
    with pytest.raises(InputValidationError, match="memory"):
        await memory.add_memory(**OWNER, memories=[entry("a plan", id=bad)])
    with pytest.raises(InputValidationError, match="memory"):
        await memory.delete_memory(**OWNER, memory_id=bad)
    with pytest.raises(InputValidationError, match="session"):
        await memory.add_events_to_memory(**OWNER, events=[event("a plan")], session_id=bad)


async def test_realms_recall_their_own_only(memory: DjangoMemoryService):
    attempt = DjangoMemoryService(realm="eval/1")
    await memory.add_session_to_memory(session("the real plan"))
    await attempt.add_session_to_memory(session("the tried plan"))
    assert await recall_texts(memory, "plan") == ["the real plan"]
    assert await recall_texts(attempt, "plan") == ["the tried plan"]


async def test_thoughts_are_stored_with_text_but_not_searched(memory: DjangoMemoryService):
    content = types.Content(parts=[types.Part(text="secretly", thought=True), types.Part(text="a plan")])
    await memory.add_events_to_memory(**OWNER, events=[event(None, content=content)])
    assert await recall_texts(memory, "secretly") == []
    assert await recall_texts(memory, "plan") == ["secretly\na plan"]


async def test_the_metadata_of_events_comes_back_with_each(memory: DjangoMemoryService):
    await memory.add_events_to_memory(
        **OWNER, events=[event("a plan")], custom_metadata={"ttl": 3, "at": {1}}
    )
    (entry,) = (await memory.search_memory(**OWNER, query="plan")).memories
    assert entry.custom_metadata == {"ttl": 3, "at": [1]}


async def test_custom_entry_is_returned_unchanged(memory: DjangoMemoryService):
    custom_entry = entry(
        "Ann likes tea.", id="m1", author="profile", timestamp="last spring", custom_metadata={"a": 1}
    )
    await memory.add_memory(**OWNER, memories=[custom_entry], custom_metadata={"a": 0, "b": 2})
    (memory_entry,) = (await memory.search_memory(**OWNER, query="tea")).memories
    assert memory_entry == custom_entry.model_copy(update={"custom_metadata": {"a": 1, "b": 2}})


async def test_entry_without_id_and_time_gets_them(memory: DjangoMemoryService):
    await memory.add_memory(**OWNER, memories=[entry("Ann likes tea."), entry("Ann likes teapots and tea.")])
    memory_entry = (await memory.search_memory(**OWNER, query="tea")).memories
    assert len({memory.id for memory in memory_entry} - {None, ""}) == 2
    assert all(memory.timestamp for memory in memory_entry)


async def test_entry_with_existing_id_replaces_it(memory: DjangoMemoryService):
    await memory.add_memory(**OWNER, memories=[entry("Ann likes tea.", id="m1")])
    await memory.add_memory(**OWNER, memories=[entry("Ann likes coffee.", id="m1")])
    assert await recall_texts(memory, "Ann") == ["Ann likes coffee."]
    assert await recall_texts(memory, "tea") == []


async def test_removed_entry_can_be_added_again(memory: DjangoMemoryService):
    custom_entry = entry("Ann likes tea.", id="m1")
    await memory.add_memory(**OWNER, memories=[custom_entry])
    await memory.delete_memory(**OWNER, memory_id="m1")
    assert await recall_texts(memory, "tea") == []
    await memory.add_memory(**OWNER, memories=[custom_entry])
    assert await recall_texts(memory, "tea") == ["Ann likes tea."]


async def test_last_of_two_entries_with_same_id_wins(memory: DjangoMemoryService):
    await memory.add_memory(**OWNER, memories=[entry("tea", id="m1"), entry("coffee", id="m1")])
    assert await recall_texts(memory, "tea coffee") == ["coffee"]


async def test_removed_memory_leaves_no_text(memory: DjangoMemoryService):
    await memory.add_session_to_memory(session("a secret plan"))
    await memory.delete_memory(**OWNER, memory_id="s1-0")
    row = await units_of_work.read(MemoryEntry.objects.get)
    assert (row.removed, row.content, row.private, row.words) == (True, "{}", None, None)
    if connection.vendor == "sqlite":
        assert await units_of_work.read(indexed_words, row.pk) is None


def indexed_words(pk: int) -> object:
    with connection.cursor() as cursor:
        cursor.execute("SELECT words FROM memory_words WHERE rowid = %s", [pk])
        return cursor.fetchone()


async def test_credentials_are_stored_separately_and_returned_to_agent(memory: DjangoMemoryService):
    secret = {"authType": "apiKey", "apiKey": "s3cret"}
    call = types.Part.from_function_call(name="adk_request_credential", args={"authConfig": secret})
    content = types.Content(role="model", parts=[types.Part(text="please log in"), call])
    await memory.add_events_to_memory(**OWNER, events=[event(None, content=content)])
    row = await units_of_work.read(MemoryEntry.objects.get)
    assert "s3cret" not in row.content
    (entry,) = (await memory.search_memory(**OWNER, query="log")).memories
    assert entry.content == content


async def test_bytes_and_odd_text_come_back(memory: DjangoMemoryService):
    image = types.Part(inline_data=types.Blob(data=b"\xfb\xff\x00", mime_type="image/png"))
    content = types.Content(role="user", parts=[types.Part(text="look \x00 here"), image])
    await memory.add_events_to_memory(**OWNER, events=[event(None, content=content)])
    (entry,) = (await memory.search_memory(**OWNER, query="look")).memories
    assert entry.content == content


async def test_an_absurd_time_does_not_stop_recall(memory: DjangoMemoryService):
    await memory.add_events_to_memory(**OWNER, events=[event("a plan", timestamp=1e300)])
    (entry,) = (await memory.search_memory(**OWNER, query="plan")).memories
    assert entry.timestamp is None


async def test_a_long_session_is_added_once_by_many_at_a_time(memory: DjangoMemoryService):
    talk = session(*[f"plan {n} word{n}" for n in range(450)])
    await asyncio.gather(*[memory.add_session_to_memory(talk) for _ in range(4)])
    assert await units_of_work.read(MemoryEntry.objects.count) == 450
    assert await recall_texts(memory, "word449") == ["plan 449 word449"]
    assert await recall_texts(memory, "word0") == ["plan 0 word0"]
