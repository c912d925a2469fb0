"""The address of a session's page, and its events in the parsed page."""

from __future__ import annotations

from tests.pages.html import Element
from tests.timeline.story import Story


def session_path(story: Story, query: str = "") -> str:
    return f"/sessions/id/{story.pk}/{query}"


def event(tree: Element, seq: int) -> Element:
    return tree.one("article", data_seq=str(seq))
