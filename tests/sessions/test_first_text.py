"""A session's first text: the user's first message that is more than a greeting."""

from __future__ import annotations

import pytest

from sessions_app.branches import fork
from sessions_app.store.models import AgentSession
from sessions_app.store.sessions.greetings import is_greeting
from tests.timeline.story import Story

pytestmark = [pytest.mark.django_db, pytest.mark.store]


def first_text(story: Story) -> str:
    return AgentSession.objects.get(pk=story.pk).first_text


@pytest.mark.parametrize(
    "greeting", ["Hello", "hi!", "Hello there…", "こんにちは", "Привет!", "¡Hola!", "Olá"]
)
def test_greeting_gives_way_to_the_first_message_that_says_more(greeting: str):
    story = Story("s1")
    story.asks(greeting)
    story.says("What can I do for you?")
    assert first_text(story) == greeting
    story.asks("Weather in Paris?")
    story.asks("And in Oslo?")
    assert first_text(story) == "Weather in Paris?"


def test_fork_is_named_as_the_session_was_at_that_event():
    story = Story("s1")
    for message in ("Hello", "Hi there!", "Weather in Paris?", "And in Oslo?"):
        story.asks(message)
    forks = [fork.fork(story.pk, fork.NewFork(seq=seq)) for seq in (2, 3)]
    assert [new.first_text for new in forks] == ["Hello", "Weather in Paris?"]


@pytest.mark.parametrize("message", ["Hello, is it raining?", "hi-fi", "Test the pump", "O'Hara", "50 %"])
def test_message_that_says_more_than_a_greeting_stays(message: str):
    assert not is_greeting(message)
    story = Story("s1")
    story.asks(message)
    story.asks("Weather in Paris?")
    assert first_text(story) == message
