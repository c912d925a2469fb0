"""A session as one HTML file that can be sent to someone."""

from __future__ import annotations

import pytest
from django.test import Client

from sessions_app.sessions import judgements
from sessions_app.transfer import html_page
from tests.pages.html import parse
from tests.timeline.story import Story

pytestmark = pytest.mark.django_db
HOSTILE = "</code><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_session_leaves_as_one_harmless_page_without_credentials():
    story = Story(initial={"seed": HOSTILE, "user:password": "correct-horse"})
    story.asks(f"{HOSTILE} My key is sk-1234567890abcdef.")
    story.calls("login", "c1", token="battery-staple", note=HOSTILE)
    story.answers("login", "c1", delta={"city": "Rome"})
    response = Client().get(f"/sessions/id/{story.pk}/export/")
    text = response.content.decode()
    page = parse(response.content)
    assert response.headers["Content-Disposition"] == f'attachment; filename="session-{story.pk}.html"'
    assert HOSTILE in page.text
    assert 'city="Rome"' in page.text
    assert not [
        secret for secret in ("sk-1234567890abcdef", "battery-staple", "correct-horse") if secret in text
    ]
    assert not [element for element in page if element.tag in {"script", "img", "link", "use", "iframe"}]
    policy = page.one("meta", http_equiv="Content-Security-Policy").attrs["content"]
    assert policy.startswith("default-src 'none'")
    assert Client().get("/sessions/id/999999999/export/").status_code == 404


@pytest.mark.parametrize("password", ["correct horse battery", "Tr0@b&dor,3", 'in "double" quotes', "a\\"])
def test_password_of_any_characters_does_not_leave(password):
    story = Story(initial={"user:password": f"{password} staple"})
    story.calls("login", "c1", password=f"{password} staple", city="Rome")
    page = parse(Client().get(f"/sessions/id/{story.pk}/export/").content)
    assert "staple" not in page.text
    assert "city=Rome" in page.text


def test_long_session_notes_the_events_that_are_left_out():
    story = Story()
    for number in range(6):
        story.says(f"message {number}")
    page = parse(html_page.session_html(story.session, first=1, last=2).encode())
    assert "3 events left out here." in page.text
    assert [f"message {number}" in page.text for number in range(6)] == [
        True,
        False,
        False,
        False,
        True,
        True,
    ]


def test_judgements_of_answers_are_exported_with_their_notes():
    story = Story()
    story.asks("Weather?")
    story.says("Sunny.")
    story.says("Rainy.")
    judgements.judge(story.pk, 2, "bad", f"{HOSTILE} My key is sk-1234567890abcdef.", person="ann")
    judgements.judge(story.pk, 3, "good")
    judgements.judge(story.pk, 1, "good")
    judgements.withdraw(story.pk, 1)
    markup = html_page.session_html(story.session)
    marks = [" ".join(mark.text.split()) for mark in parse(markup.encode()).all("div", css="mark")]
    assert [
        mark.startswith(start)
        for mark, start in zip(marks, ["Judged bad by ann, ", "Judged good, "], strict=True)
    ]
    assert HOSTILE in marks[0]
    assert "sk-1234567890abcdef" not in markup
