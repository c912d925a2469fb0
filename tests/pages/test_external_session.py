"""Page of a session that an ADK session service stores."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client

from sessions_app.paths import session_url
from sessions_app.store import mirrors
from sessions_app.store.models import AgentSession, MirroredSession
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes

pytestmark = pytest.mark.django_db

KEY = SessionKey("", "weather", "ann", "s1")


@pytest.fixture
def session() -> AgentSession:
    session_row = writes.create_session(KEY, {"city": "Oslo"})
    MirroredSession.objects.create(session=session_row, place="sqlite:///adk.db")
    writes.edit_state(KEY, {"city": "Rome"})
    return session_row


def test_copy_names_its_source(client: Client, session: AgentSession):
    page = client.get(session_url(session)).content.decode()
    assert "sqlite:///adk.db" in page
    assert "this is a copy in" in page
    assert "Its keys cannot be edited and it cannot be rewound" in page
    assert f'href="/sessions/id/{session.pk}/fork/"' in page
    assert "This copy differs from the session service." not in page


def test_outdated_copy_says_so_with_reason(client: Client, session: AgentSession):
    mirrors.note_difference(KEY, "1 of its <events> cannot be stored here.")
    page = client.get(session_url(session)).content.decode()
    assert "This copy differs from the session service." in page
    assert "1 of its &lt;events&gt; cannot be stored here." in page


@pytest.mark.usefixtures("weather_can_run")
def test_it_offers_nothing_that_would_change_the_copy_alone(client: Client, session: AgentSession):
    url = f"{session_url(session)}?seq=1"
    copied = client.get(url).content.decode()
    MirroredSession.objects.all().delete()
    own = client.get(url).content.decode()
    for address in ("/state/edit/", "/rewind/"):
        assert address in own
        assert address not in copied
    assert 'name="message"' in copied


def test_the_form_of_a_key_is_refused(client: Client, session: AgentSession):
    refused = client.get(f"/sessions/id/{session.pk}/state/edit/")
    assert refused.status_code == 400
    assert "DevUI has a copy" in refused.content.decode()


def test_fork_of_external_session_defaults_to_own_state(client: Client, session: AgentSession, settings: Any):
    def chosen() -> str:
        page = client.get(f"/sessions/id/{session.pk}/fork/?seq=1").content.decode()
        assert "with empty memory" in page
        return re.findall(r'name="shared" value="(\w+)" checked', page)[0]

    assert chosen() == "live"
    settings.DEVUI_SESSION_SERVICE = "sqlite:///adk.db"
    assert chosen() == "own"


def test_own_session_says_nothing_of_copies(client: Client, session: AgentSession):
    MirroredSession.objects.all().delete()
    assert "cannot be edited" not in client.get(session_url(session)).content.decode()
