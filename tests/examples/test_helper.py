"""The helper: an ADK agent that finds the cause of a failed case with DevUI's tools for coding agents."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import pytest_asyncio

from tests.examples.conftest import HELPER, Chats, Loader, calls, texts
from tests.mcp.conftest import demo_store

__all__ = ["demo_store"]


@pytest_asyncio.fixture
async def helper(demo_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, load: Loader):
    """The helper, whose tools read the store of the demo."""
    monkeypatch.setenv("DATABASE_URL", f"sqlite:///{demo_store}")
    monkeypatch.setenv("DEVUI_DATA_DIR", str(tmp_path))
    for module in (HELPER, f"{HELPER}.agent"):
        monkeypatch.delitem(
            sys.modules, module, raising=False
        )  # another test may have loaded it for another store
    app = load(HELPER)
    yield app
    for toolset in app.root_agent.tools:
        await toolset.close()


async def test_helper_names_the_cause_of_a_failed_case_and_of_its_session(chats: Chats, helper) -> None:
    chat = await chats(HELPER)
    events = await chat.say("Why did eval attempt 16 fail?")
    assert [name for name, _ in calls(events)] == [
        "explain_attempt",
        "list_model_calls",
        "compare_model_requests",
        "find_key_writers",
    ]
    cause = texts(events)[-1]
    assert "The callback `set_defaults` has overwritten the state key `tier` with `standard`" in cause
    assert "the tool `find_customer` had set it to `gold`" in cause
    events = await chat.say("What went wrong in session 16?")
    assert texts(events)[-1] == cause
    assert "No attempt 999" in texts(await chat.say("Why did eval attempt 999 fail?"))[-1]
    assert "by its number" in texts(await chat.say("Hello"))[-1]
