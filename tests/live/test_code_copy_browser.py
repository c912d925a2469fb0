"""Copying the code blocks of answers by mouse and by keyboard."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser import clipboard_text
from tests.live.windows import event

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]

ANSWER = """Run this:

```sh
ls -l | grep "a < b"
```

Then this:

```python
print("whole")
```
"""


@pytest.fixture
def page(open_page, story) -> Page:
    """A session whose second event has two code blocks."""
    story.asks("How?")
    story.says(ANSWER)
    page = open_page(story)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    return page


def test_code_block_under_the_mouse_is_copied(page):
    blocks = event(page, 2).locator("pre")
    button = page.get_by_role("button", name="Copy the code")
    for number, code in enumerate(('ls -l | grep "a < b"', 'print("whole")')):
        blocks.nth(number).hover()
        button.click()
        assert clipboard_text(page, code[:2]) == code
        expect(page.locator("#announcer")).to_have_text("Copied")
    expect(button).to_have_count(1)


def test_code_block_is_copied_by_keyboard(page):
    event(page, 2).locator("pre").nth(1).focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Copy the code")).to_be_focused()
    page.keyboard.press("Enter")
    assert clipboard_text(page, "print") == 'print("whole")'
    expect(page.locator("#announcer")).to_have_text("Copied")


def test_copy_button_is_inside_its_code_block(page):
    block = event(page, 2).locator("pre").first
    block.hover()
    outer, inner = block.bounding_box(), page.locator("#code-copy").bounding_box()
    assert outer["x"] <= inner["x"]
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"] + 1
    assert outer["y"] <= inner["y"] < outer["y"] + outer["height"]
    before = outer["height"]
    event(page, 1).hover()
    assert block.bounding_box()["height"] == before
