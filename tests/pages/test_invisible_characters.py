"""Pages mark invisible characters in names and values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pytest
from django.test import Client

from sessions_app.live import snapshot
from sessions_app.live.streaming_text import TextStream
from sessions_app.paths import session_url
from sessions_app.runs import lifecycle as runs
from sessions_app.store.events.attribution import Writer
from sessions_app.store.models import AgentCard, AgentSession, Run
from sessions_app.store.sessions import writes
from tests.invisible_characters import EVIL, assert_shown
from tests.pages.html import parse
from tests.timeline.story import Story


@pytest.fixture
def story(store: None, agents_dir: Path) -> Story:
    """A session in which everything that an agent or a client names holds unseen characters."""
    story = Story(EVIL, {f"user:{EVIL}": {EVIL: [EVIL]}, f"app:{EVIL}": EVIL}, app=EVIL, user=EVIL)
    writes.rename_session(story.pk, f"Title {EVIL}")
    story.invocation = EVIL
    story.asks(f"Question {EVIL}")
    story.says(
        f'**Answer** {EVIL} `{EVIL}` [l](https://e.example/ "{EVIL}")', author=EVIL, branch=EVIL, id=EVIL
    )
    story.add({"text": f"thought {EVIL}", "thought": True})
    story.calls(EVIL, EVIL, **{EVIL: EVIL})
    story.answers(EVIL, EVIL, response={EVIL: EVIL})
    story.add(
        {"executableCode": {"code": EVIL, "language": EVIL}},
        {"codeExecutionResult": {"outcome": EVIL, "output": EVIL}},
        {"inlineData": {"mimeType": EVIL, "displayName": EVIL, "data": ""}},
        {"fileData": {"fileUri": EVIL, "mimeType": EVIL}},
        actions={"artifactDelta": {EVIL: 1}, "transferToAgent": EVIL, "route": EVIL},
        delta={EVIL: {EVIL: EVIL}, f"temp:{EVIL}": EVIL},
        writers={EVIL: Writer("tool", EVIL, EVIL, inferred=False)},
        keep_temp=True,
        modelVersion=EVIL,
        nodeInfo={"path": EVIL},
        customMetadata={EVIL: EVIL},
    )
    story.add(delta={EVIL: None})
    story.add(delta={EVIL: "again " + EVIL})
    run = runs.create_run(story.pk, {"new_message": {"parts": [{"text": EVIL}]}})
    Run.objects.filter(pk=run.pk).update(
        status="failed", error=EVIL, error_type=EVIL, traceback=EVIL, invocation_id=EVIL, finished_at=2.0
    )
    story.add(errorCode=EVIL, errorMessage=EVIL)
    story.calls(EVIL, "open" + EVIL, waiting=True, message=EVIL)
    story.add(
        {
            "functionCall": {
                "id": "ask" + EVIL,
                "name": "adk_request_confirmation",
                "args": {
                    "originalFunctionCall": {"name": EVIL, "args": {EVIL: EVIL}},
                    "toolConfirmation": {"hint": EVIL, "payload": {EVIL: EVIL}},
                },
            }
        },
        longRunningToolIds=["ask" + EVIL],
    )
    described = {
        "name": EVIL, "type": EVIL, "model": EVIL, "description": EVIL, "instruction": EVIL, "output_key": EVIL,
        "global_instruction_provider": EVIL, "callbacks": {EVIL: [EVIL]},
        "tools": [{"name": EVIL, "description": EVIL, "schema": {EVIL: EVIL}}],
        "edges": [{"from": EVIL, "to": EVIL, "route": EVIL}],
        "app": {"is_app": True, "plugins": [EVIL], "context_cache": {EVIL: EVIL}},
    }  # fmt: skip
    AgentCard.objects.create(
        app_name=EVIL,
        status="failed",
        description=json.dumps(described),
        error=json.dumps({"type": EVIL, "message": EVIL, "file": EVIL, "line": 1, "traceback": EVIL}),
    )
    return story


def pages_of(story: Story) -> Iterator[str]:
    address = f"/sessions/id/{story.pk}/"
    yield from ("/", "/sessions/", "/runs/", "/state/", "/app-menu/?place=state")
    yield "/sessions/?" + urlencode({"app": EVIL, "q": EVIL, "user": EVIL})
    yield "/state/?" + urlencode({"app": EVIL})
    yield "/state/?" + urlencode({"app": EVIL, "user": EVIL})
    yield "/agents/" + re.sub("^/sessions/([^/]*)/.*", r"\1", session_url(story.session)) + "/"
    yield address
    yield from (f"{address}?seq={seq}" for seq in range(1, story.told + 1))
    yield f"{address}delete/"
    yield from (f"{address}state/{part}/?{urlencode({'key': EVIL})}" for part in ("edit", "remove", "drift"))
    yield f"{address}?seq=6&diff=9"
    yield f"{address}?seq=6&tab=raw&open=all"
    yield f"{address}rewind/?" + urlencode({"event": EVIL})
    yield f"{address}fork/?seq=6"
    yield f"/sessions/compare/?left={story.pk}&right={story.pk}"
    yield f"{address}?" + urlencode({"event": "none" + EVIL})
    yield session_url(AgentSession(app_name=EVIL, user_id=EVIL, session_id=EVIL + "x"))
    yield "/sessions/new/?" + urlencode({"app": EVIL})
    yield "/runs/?" + urlencode({"app": EVIL})
    yield "/evals/?" + urlencode({"app": EVIL})
    yield from (f"/state/history/{change.pk}/" for change in story.session.changes.all())
    yield from (f"/state/values/{change.pk}/?pointer=" for change in story.session.changes.all())


def test_session_pages_show_invisible_characters(story: Story, client: Client):
    for address in pages_of(story):
        response = client.get(address)
        assert response.status_code in {200, 400, 404}, address
        assert_shown(response.content.decode(), address)


def test_socket_messages_show_invisible_characters(story: Story):
    batch = snapshot.read_events_after(story.pk, 0)
    assert len(batch.events) == story.told
    assert_shown(batch.html, "events")
    now = snapshot.read_snapshot(story.pk)
    assert now is not None
    assert_shown(snapshot.runs_html(story.pk, now.app_name, now.runs), "runs")
    assert_shown(snapshot.pending_html([TextStream(EVIL, EVIL, EVIL, EVIL)]), "pending")


def test_forms_and_scripts_get_the_very_name(story: Story, client: Client):
    page = parse(client.get(f"/sessions/id/{story.pk}/").content)
    assert page.one("button", aria_label="Copy the id").attrs["data-copy"] == EVIL
    question = page.all("form", css="question")[1]
    assert question.one("input", name="call_id").attrs["value"] == "ask" + EVIL
    payload = question.one("textarea", name="payload").text
    assert json.loads(payload) == {EVIL: EVIL}


def test_real_right_to_left_text_is_left_as_it_was_written(store: None, agents_dir: Path, client: Client):
    story = Story("rtl")
    story.asks("שלום, עולם!")
    story.says("می‌خواهم **بروم**")
    page = parse(client.get(f"/sessions/id/{story.pk}/").content)
    assert page.one("p", css="message-text").text == "שלום, עולם!"
    assert page.one("div", css="prose").text == "می‌خواهم بروم"
    assert not page.all("span", css="escape")


def test_error_pages_show_invisible_characters(store: None, agents_dir: Path, client: Client):
    response = client.post("/sessions/new/", {"app": EVIL, "user": EVIL * 600, "state": EVIL})
    assert response.status_code == 422
    assert_shown(re.sub(r"(?s)<textarea.*?</textarea>", "", response.content.decode()), "the form")
