"""The writer: thoughts and Markdown, in four languages, with an instruction made from the state."""

from __future__ import annotations

import json

import pytest
from google.adk.events.event import Event

from tests.examples.conftest import AGENTS, Chats, Loader, calls, texts


async def test_thoughts_stream_first_then_the_text(chats: Chats) -> None:
    chat = await chats("writer")
    events = await chat.say("Write a note about tea", streaming=True)
    kinds = [_is_thought(event) for event in events if event.partial]
    assert kinds == sorted(kinds, reverse=True)
    assert "".join(texts(events, partial=True, thought=True)) == texts(events, thought=True)[0]
    assert "".join(texts(events, partial=True)) == texts(events)[0]


def _is_thought(event: Event) -> bool:
    assert event.content is not None
    assert event.content.parts is not None
    return bool(event.content.parts[0].thought)


@pytest.mark.parametrize(
    ("question", "expected_text"),
    [
        ("Write a note about tea", "## A note on tea"),
        ("An essay on light", "# On light"),
        ("A table of sailing", "|:--|:--|--:|"),
        ("Show code for bird songs", "```python\ndef count_bird_songs("),
        ("手紙を書いてください", "**静かに雨**"),
        ("편지를 써 주세요", "**조용히 비**"),
        ("请写一封信", "**静静地下着雨**"),
    ],
)
async def test_writer_answers_in_markdown_and_requested_language(
    chats: Chats, question: str, expected_text: str
) -> None:
    chat = await chats("writer")
    assert expected_text in texts(await chat.say(question))[0]


async def test_the_draft_holds_the_text_without_the_thoughts(chats: Chats) -> None:
    chat = await chats("writer")
    events = await chat.say("Write a note about tea")
    assert (await chat.state())["draft"] == texts(events)[0]
    assert texts(events, thought=True) == ["A plain note on tea: what, why, what next."]


async def test_writer_shortens_its_previous_text(chats: Chats) -> None:
    chat = await chats("writer")
    assert texts(await chat.say("Make it shorter")) == ["There is nothing to shorten."]
    await chat.say("Write a note about tea")
    assert texts(await chat.say("Make it shorter")) == ["Everyone has met tea, and few have looked closely."]


async def test_the_instruction_follows_the_state(chats: Chats) -> None:
    chat = await chats("writer", state={"tone": "formal"})
    assert "> Written in a formal tone." in texts(await chat.say("Write a note about rain"))[0]
    events = await chat.say("Please be more playful")
    assert calls(events) == [("set_tone", {"tone": "playful"})]
    assert texts(events) == ["My tone was formal; now it is playful."]
    assert "> Written in a playful tone." in texts(await chat.say("Write a note about rain"))[0]


def test_the_initial_state_has_a_session_and_an_app_key() -> None:
    seed = json.loads((AGENTS / "writer" / "initial_state.json").read_text(encoding="utf-8"))
    assert set(seed) == {"tone", "app:house_style"}


def test_the_app_adds_an_instruction_for_every_agent(load: Loader) -> None:
    assert [plugin.name for plugin in load("writer").plugins] == ["global_instruction"]
