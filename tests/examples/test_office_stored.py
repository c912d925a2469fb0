"""The office on DevUI's services: its notes and what it remembers are in the store."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from google.adk.runners import Runner
from google.genai import types

from sessions_app.adk import DjangoArtifactService, DjangoMemoryService, DjangoSessionService
from sessions_app.store.database import units_of_work
from sessions_app.store.models import Artifact, MemoryEntry
from tests.examples.conftest import Loader, texts


@pytest.fixture
async def office(load: Loader, transactional_db: None) -> AsyncIterator[Runner]:
    """The office agent on an empty store."""
    runner = Runner(
        app=load("office"),
        session_service=DjangoSessionService(),
        artifact_service=DjangoArtifactService(),
        memory_service=DjangoMemoryService(),
        auto_create_session=True,
    )
    yield runner
    await runner.close()
    units_of_work.close_pools()


async def say(
    office: Runner, text: str, session: str = "s1", user: str = "aya", *files: types.Part
) -> list[str]:
    """Send a text and return what the office answers."""
    message = types.Content(role="user", parts=[types.Part(text=text), *files])
    run = office.run_async(user_id=user, session_id=session, new_message=message)
    return texts([event async for event in run])


async def test_each_note_is_a_version_in_the_store(office: Runner) -> None:
    await say(office, "Take a note: order paper")
    assert await say(office, "Take a note: 植物に水をやる") == ["Noted in minutes.md, version 1."]
    versions = await units_of_work.read(
        lambda: list(Artifact.objects.order_by("version").values_list("content", flat=True))
    )
    assert [bytes(content or b"").decode() for content in versions] == [
        "# Minutes\n\n- order paper\n",
        "# Minutes\n\n- order paper\n- 植物に水をやる\n",
    ]


async def test_memory_survives_a_restart_for_its_user_only(office: Runner) -> None:
    await say(office, "Take a note: the budget is 40")
    office.memory_service = DjangoMemoryService()
    question = "What did we say about the budget?"
    assert await say(office, question, "s2") == ['I remember: "Take a note: the budget is 40"']
    assert await say(office, question, "s3", "ben") == ["I remember nothing about budget."]


async def test_it_remembers_a_japanese_word_of_two_characters(office: Runner) -> None:
    await say(office, "Take a note: 予算は四万円です")
    assert await say(office, "What did we say about 予算", "s2") == [
        'I remember: "Take a note: 予算は四万円です"'
    ]


async def test_every_answer_stores_only_new_events(office: Runner) -> None:
    for text in ("Hello", "Hello", "Take a note: x"):
        await say(office, text)
    ids = await units_of_work.read(lambda: list(MemoryEntry.objects.values_list("entry_id", flat=True)))
    assert len(ids) == len(set(ids)) == 6


async def test_uploaded_file_is_stored_with_the_session(office: Runner) -> None:
    photo = types.Part(
        inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png", display_name="desk.png")
    )
    assert await say(office, "Here", "s1", "aya", photo) == ["I keep desk.png with this session."]
    assert await units_of_work.read(lambda: Artifact.objects.get(filename="desk.png").size) == 4
