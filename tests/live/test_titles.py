"""A new title reaches every open page: the session's own, and lists."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from sessions_app.sessions import deletion, labels
from sessions_app.store.database import units_of_work
from tests.live.conftest import watching
from tests.timeline.story import Story


async def test_page_receives_title_and_deletion(story):
    await units_of_work.write(story.asks, "Weather?")
    async with watching(story.pk) as page:
        update = await page.until(lambda message: message["type"] == "title")
        assert update["name"] == "Weather?"
        await units_of_work.write(labels.rename, story.pk, "A rainy\u202e day")
        update = await page.until(lambda message: message["type"] == "title")
        assert update["name"] == "A rainy\\u202e day"
        await units_of_work.write(deletion.delete, [story.pk])
        await page.until(lambda message: message["type"] == "gone")


@pytest.mark.browser
@pytest.mark.soak
@pytest.mark.usefixtures("store")
def test_renamed_session_is_renamed_in_other_windows(open_page, story):
    story.asks("Weather?")
    other = Story("s2")
    here, there, beside = open_page(story), open_page(story), open_page(other)
    here.get_by_label("Actions on this session").click()
    here.get_by_role("link", name="Rename…").click()
    here.get_by_role("dialog").get_by_label("Title").fill("A rainy day")
    here.keyboard.press("Enter")
    for page in (here, there):
        expect(page.locator("#session-name")).to_have_text("A rainy day")
        expect(page).to_have_title("A rainy day · DevUI")
    expect(beside.locator("#siblings")).to_contain_text("A rainy day")
    expect(here.locator("#dialog")).to_be_hidden()
