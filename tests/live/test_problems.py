"""Problems on an open page: told by the socket, and shown in a real browser."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from sessions_app.problems import session_checks
from sessions_app.search import indexing as search_indexing
from sessions_app.store.database import units_of_work
from tests.live.conftest import watching
from tests.timeline.story import Story

pytestmark = pytest.mark.soak


def repeat_call(story: Story) -> None:
    """Let the agent call a tool three times with the same arguments."""
    for number in range(3):
        story.calls("look", f"c{number}", city="Rome")


def index() -> None:
    """Index and check all sessions, as the web process does."""
    search_indexing.index_all()
    session_checks.check_all()


async def test_socket_tells_that_problems_have_changed(story):
    await units_of_work.write(story.asks, "go")
    async with watching(story.pk) as page:
        first = await page.until(lambda message: message["type"] == "problems")
        assert first["mark"] == "0-0"
        await units_of_work.write(repeat_call, story)
        await units_of_work.write(index)
        changed = await page.until(lambda message: message["type"] == "problems" and message != first)
        assert changed["mark"].startswith("1-")


@pytest.mark.browser
@pytest.mark.usefixtures("store")
def test_problems_appear_on_an_open_page(open_page: Callable[..., Page], story):
    story.asks("go")
    page = open_page(story)
    repeat_call(story)
    index()
    block = page.locator(".invocation[data-invocation='i1'] .problems")
    expect(block).to_contain_text("Same call repeated.")
    expect(page.locator("#problems")).to_have_text("1 problem")
    page.locator("#problems a").click()
    expect(page.get_by_role("dialog")).to_contain_text("Problems of this session")
