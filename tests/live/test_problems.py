"""Problems on an open page: told by the socket, and shown in a real browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest
from playwright.sync_api import Page, expect

from sessions_app.live.indexer import keep_indexed
from sessions_app.problems import session_checks
from sessions_app.search import indexing as search_indexing
from sessions_app.store.database import units_of_work
from tests.live.conftest import Message, watching
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


@pytest.fixture
def other_story(store: None) -> Story:
    """A session of another user."""
    return Story("other", user="bob")


@pytest.fixture
async def indexer() -> AsyncIterator[None]:
    """The background task that indexes and checks sessions."""
    task = asyncio.create_task(keep_indexed())
    yield
    task.cancel()
    await asyncio.wait([task])


def has_hints(message: Message) -> bool:
    """Tell whether a message says that a session without hints has some now."""
    return message["type"] == "problems" and message["mark"] != "0-0"


@pytest.mark.usefixtures("indexer")
@pytest.mark.parametrize("is_open", [False, True], ids=["before the page opens", "on an open page"])
async def test_state_that_another_session_changed_is_checked_again(story, other_story, is_open):
    await units_of_work.write(lambda: (story.says("x", delta={"app:theme": "dark"}), index()))
    change = partial(units_of_work.write, other_story.says, "y", delta={"app:theme": "light"})
    if not is_open:
        await change()
    async with watching(story.pk) as page:
        if is_open:
            await page.until(lambda message: message["type"] == "problems")
            await change()
        await page.until(has_hints)
    hints = await units_of_work.read(lambda: list(story.session.problems.values_list("code", "key")))
    assert hints == [("app-contested", "app:theme")]


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


@pytest.mark.browser
@pytest.mark.usefixtures("store")
def test_hints_appear_beside_keys_of_an_open_page_once_the_state_is_checked(open_page, story):
    story.says("x", delta={"tmp_rows": [1]})
    page = open_page(story)
    entry = page.locator('#board .entry[data-key="tmp_rows"]')
    expect(entry).to_be_visible()
    expect(entry.locator(".hint")).to_have_count(0)
    index()
    expect(entry.locator(".hint")).to_contain_text("May be intermediate data")
    expect(page.get_by_role("link", name="1 hint at the state")).to_be_visible()
