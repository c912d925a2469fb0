"""Sessions are imported from a file that a person uploads: what would be imported is shown first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.core.files.uploadedfile import SimpleUploadedFile

from sessions_app.store.models import AgentSession, Event
from sessions_app.views import session_upload
from tests.pages.client import client, get
from tests.pages.html import parse
from tests.timeline.story import Story

__all__ = ["client", "get"]
pytestmark = pytest.mark.django_db(transaction=True)
PAGE = "/sessions/import/"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, settings) -> Path:
    settings.DATA_DIR = str(tmp_path)
    return tmp_path / "uploads"


async def read_whole(response) -> bytes:
    return b"".join([chunk async for chunk in response.streaming_content])


@pytest.fixture
def exported(client) -> bytes:
    """A session as ADK's JSON, which is not in the store any more."""
    story = Story(initial={"seed": 1})
    story.asks("Hello <b>there</b>")
    story.says("Good morning")
    content = async_to_sync(read_whole)(client.get(f"/api/v1/sessions/{story.pk}/adk"))
    AgentSession.objects.all().delete()
    return content


def send(client, content: bytes, name: str = "session.json"):
    return client.post(PAGE, {"file": SimpleUploadedFile(name, content, "application/json")})


def test_file_is_looked_at_before_it_is_imported(client, get, exported, folder):
    assert "Look at the file" in get(PAGE).text
    preview = send(client, exported, "<i>ours.json")
    page = parse(preview.content)
    assert preview.status_code == 200
    assert "1 new session, 0 extended, 0 unchanged" in page.text
    assert "2 events would be imported" in page.text
    assert "<i>ours.json" in page.text
    assert not AgentSession.objects.exists()

    [key] = [field.attrs["value"] for field in page.all("input") if field.attrs.get("name") == "upload"]
    done = client.post(PAGE, {"upload": key})
    assert "2 events imported." in parse(done.content).text
    assert (AgentSession.objects.count(), Event.objects.count()) == (1, 2)
    assert list(folder.iterdir()) == []

    again = parse(send(client, exported).content)
    assert "0 new sessions, 0 extended, 1 unchanged" in again.text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"SQLite format 3\0", "This file is not JSON"),
        (b"", "The submitted file is empty"),
        (b"[" + b" " * session_upload.MAX_BYTES, "the maximum is 20 MB"),
    ],
)
def test_file_of_another_kind_or_size_is_refused_at_its_field(client, folder, content, reason):
    answer = send(client, content)
    assert answer.status_code == 422
    assert reason in parse(answer.content).one("span", css="error-text").text
    assert not folder.exists()


@pytest.mark.parametrize("content", [b"{}", b"[1, 2]", b'{"a": [', b"[" * 5_000])
def test_json_that_is_no_session_is_refused_with_the_reason(client, content):
    answer = send(client, content)
    assert answer.status_code == 422
    assert "The file cannot be imported." in parse(answer.content).text
    assert not AgentSession.objects.exists()


def test_file_that_is_gone_has_to_be_chosen_again(client):
    assert client.post(PAGE, {"upload": "0" * 32}).status_code == 404
    assert client.post(PAGE, {"upload": "../../etc/passwd"}).status_code == 422
    assert client.post(PAGE, {}).status_code == 422


def test_files_that_nobody_imports_are_removed_after_an_hour(client, exported, folder):
    send(client, exported)
    [old] = folder.iterdir()
    os.utime(old, (1, 1))
    send(client, exported.replace(b"Good", b"Fine"))
    assert old not in list(folder.iterdir())
