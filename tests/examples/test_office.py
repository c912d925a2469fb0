"""The office: tools that wait for people, files, memory, slowness and failure."""

from __future__ import annotations

import asyncio
import sys
from types import SimpleNamespace

import pytest
from google.genai import types

from tests.examples.conftest import Chats, texts
from tests.patience import PATIENCE_S

CONFIRM = "adk_request_confirmation"


async def test_leave_is_pending_until_somebody_answers(chats: Chats) -> None:
    chat = await chats("office")
    events = await chat.say("Request leave for 3 days")
    assert events[0].long_running_tool_ids == {events[0].get_function_calls()[0].id}
    assert texts(events) == ["Ticket 1: 3 days of leave, pending."]
    events = await chat.answer(events[0], "request_leave", {"status": "approved"})
    assert texts(events) == ["Your leave is approved."]


async def test_payment_is_made_only_after_confirmation(chats: Chats) -> None:
    chat = await chats("office")
    pending_events = await chat.say("Pay 120 to Acme")
    assert "payments" not in await chat.state()
    events = await chat.answer(pending_events[1], CONFIRM, {"confirmed": True})
    assert texts(events) == ["I paid 120 to Acme."]
    assert await chat.state() == {"payments": [{"to": "Acme", "amount": 120}], "app:paid": 120}


async def test_refused_payment_is_not_made(chats: Chats) -> None:
    chat = await chats("office")
    pending_events = await chat.say("Pay 120 to Acme")
    assert texts(await chat.answer(pending_events[1], CONFIRM, {"confirmed": False})) == ["I did not pay."]
    assert await chat.state() == {}


async def test_each_note_is_a_new_version_of_the_minutes(chats: Chats) -> None:
    chat = await chats("office")
    events = await chat.say("Take a note: order paper") + await chat.say("Take a note: water the plants")
    assert [event.actions.artifact_delta for event in events if event.actions.artifact_delta] == [
        {"minutes.md": 0},
        {"minutes.md": 1},
    ]
    assert chat.runner.artifact_service is not None
    minutes = await chat.runner.artifact_service.load_artifact(
        app_name="office", user_id=chat.user, session_id=chat.session, filename="minutes.md"
    )
    assert minutes is not None
    assert minutes.text == "# Minutes\n\n- order paper\n- water the plants\n"


async def test_a_later_session_remembers_a_note_and_another_user_does_not(chats: Chats) -> None:
    chat = await chats("office")
    await chat.say("Take a note: the budget is 40")
    await chat.open("aya")
    question = "What did we say about the budget?"
    assert texts(await chat.say(question)) == ['I remember: "Take a note: the budget is 40"']
    await chat.open("ben")
    assert texts(await chat.say(question)) == ["I remember nothing about budget."]


async def test_an_uploaded_file_becomes_an_artifact(chats: Chats) -> None:
    chat = await chats("office")
    blob = types.Blob(data=b"a,b\n1,2\n", mime_type="text/csv", display_name="figures.csv")
    assert texts(await chat.send(types.Part(inline_data=blob))) == ["I keep figures.csv with this session."]
    assert chat.runner.artifact_service is not None
    artifact_names = await chat.runner.artifact_service.list_artifact_keys(
        app_name="office", user_id=chat.user, session_id=chat.session
    )
    assert artifact_names == ["figures.csv"]


async def test_the_slow_tool_waits_and_can_be_cancelled(
    chats: Chats, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat = await chats("office")
    assert texts(await chat.say("Take 0 seconds")) == ["I waited 0 s."]
    waits: asyncio.Queue[float] = asyncio.Queue()

    async def sleep(seconds: float) -> None:
        waits.put_nowait(seconds)
        await asyncio.sleep(seconds)

    monkeypatch.setattr(sys.modules["office.agent"], "asyncio", SimpleNamespace(sleep=sleep))
    task = asyncio.create_task(chat.say("Take 600 seconds"))
    assert await asyncio.wait_for(waits.get(), timeout=PATIENCE_S) == 600
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("question", ["Break it", "Restart the printer"])
async def test_broken_tool_ends_run_and_session_continues(chats: Chats, question: str) -> None:
    chat = await chats("office")
    with pytest.raises(RuntimeError, match="The printer on floor 7 does not answer"):
        await chat.say(question)
    assert texts(await chat.say("Take a note: call support")) == ["Noted in minutes.md, version 0."]
