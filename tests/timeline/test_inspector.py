"""One event in full."""

from __future__ import annotations

import json

from sessions_app.timeline import inspector
from sessions_app.timeline import window as windows
from sessions_app.timeline.inspector import Inspection, inspect
from tests.timeline.story import Story


def opened(story: Story, seq: int) -> Inspection:
    session = story.session
    return inspect(session, windows.find_event(session, seq=seq))


def test_every_kind_of_part_is_told_apart(story):
    seq = story.add(
        {"text": "hm", "thought": True},
        {"text": "hello"},
        {"functionCall": {"id": "c1", "name": "f", "args": {}}},
        {"inlineData": {"mimeType": "image/png", "data": "A" * 400, "displayName": "a.png"}},
        {"fileData": {"mimeType": "text/plain", "fileUri": "gs://x/y"}},
        {"executableCode": {"code": "1+1", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
        {"videoMetadata": {"fps": 1}},
    )
    shown = opened(story, seq)
    assert [(part.type, part.is_thought) for part in shown.parts] == [
        ("text", True),
        ("text", False),
        ("functionCall", False),
        ("inlineData", False),
        ("fileData", False),
        ("executableCode", False),
        ("codeExecutionResult", False),
        ("other", False),
    ]
    assert (shown.parts[3].media.size, shown.parts[3].media.name) == (300, "a.png")
    assert (shown.parts[4].media.size, shown.parts[4].media.uri) == (None, "gs://x/y")
    assert shown.parts[7].value == {"videoMetadata": {"fps": 1}}


def test_the_raw_json_is_what_is_stored(story):
    seq = story.says("こんにちは", delta={"x": 1}, customField={"kept": True})
    shown = opened(story, seq)
    assert json.loads(shown.raw) == json.loads(story.event(seq).data)
    assert "こんにちは" in shown.raw
    assert not shown.is_raw_cut


def test_a_huge_event_shows_its_beginning_and_says_so(story, monkeypatch):
    monkeypatch.setattr(inspector, "RAW_LIMIT", 100)
    shown = opened(story, story.says("x" * 1000))
    assert (len(shown.raw), shown.is_raw_cut) == (100, True)


def test_actions_and_fields_leave_out_what_is_empty_by_default(story):
    seq = story.says(
        "x", actions={"escalate": True, "artifactDelta": {}}, modelVersion="m1", nodeInfo={"path": ""}
    )
    shown = opened(story, seq)
    assert shown.actions == {"escalate": True}
    assert shown.fields == {"modelVersion": "m1"}


def test_credentials_are_not_in_the_raw_json(story):
    config = {"exchangedAuthCredential": {"authType": "oauth2", "oauth2": {"accessToken": "s3cret"}}}
    seq = story.add(actions={"requestedAuthConfigs": {"c1": config}})
    assert "s3cret" not in opened(story, seq).raw
