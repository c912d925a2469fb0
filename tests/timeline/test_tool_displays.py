"""Edits of files, output of commands and raw audio are shown for what they are."""

from __future__ import annotations

import base64
import io
import wave
from typing import Any

import pytest
from django.test import Client

from sessions_app.presentation.raw_audio import wrap_in_wav
from sessions_app.timeline.tool_displays import read_file_edit, read_shell_output
from tests.pages.client import Get
from tests.timeline.story import Story


def inspection(get: Get, story: Story, seq: int) -> Any:
    return get(f"/sessions/id/{story.pk}/?seq={seq}").one("div", id="inspection")


def test_edit_of_a_file_is_shown_line_by_line(story: Story, get: Get):
    args = {"path": "<b>/app.py", "old_string": "a = 1\nb = 2\n", "new_string": "a = 1\nb = '<i>'\n"}
    seq = story.add({"functionCall": {"id": "c1", "name": "EditFile", "args": args}})
    shown = inspection(get, story, seq)
    assert "edits <b>/app.py" in shown.text
    lines = shown.one("ol", css="value-diff").all("li")
    assert [(line.attrs["class"], line.one("code").text) for line in lines] == [
        ("same", "a = 1"),
        ("removed", "b = 2"),
        ("added", "b = '<i>'"),
    ]


@pytest.mark.parametrize(
    "args", [None, "text", {}, {"old_string": "a"}, {"old_string": 1, "new_string": "b"}, {"new_string": "b"}]
)
def test_other_calls_are_no_edits(args: Any):
    assert read_file_edit(args) is None


def test_output_of_a_command_is_shown_in_its_colors(story: Story, get: Get):
    response = {
        "status": "error",
        "stdout": "\x1b[31mred\x1b[0m <script>",
        "stderr": "missing",
        "exit_code": 2,
    }
    seq = story.add({"functionResponse": {"id": "c1", "name": "Execute", "response": response}})
    shown = inspection(get, story, seq)
    stdout, stderr = shown.all("pre", css="code-block")
    assert (stdout.text, stderr.text) == ("red <script>", "missing")
    assert stdout.all("span")
    assert "exit code 2" in shown.text


@pytest.mark.parametrize(
    "response", [None, "text", {}, {"stdout": 3}, {"exit_code": 1}, {"result": "stdout"}, {"result": [1]}]
)
def test_other_results_are_no_output(response: Any):
    assert read_shell_output(response) is None


def test_output_in_a_wrapped_result_has_no_exit_code_that_is_a_truth_value():
    output = read_shell_output({"result": {"stderr": "no", "exit_code": True}})
    assert output is not None
    assert (output.stdout, output.stderr, output.exit_code) == ("", "no", None)


@pytest.mark.parametrize(
    ("mime", "rate", "channels"),
    [
        ("audio/pcm;rate=16000", 16_000, 1),
        ("audio/pcm", 24_000, 1),
        ("audio/L16; rate=44100; channels=2", 44_100, 2),
        ("audio/pcm;rate=999999", 384_000, 1),
    ],
)
def test_raw_audio_becomes_a_file_that_players_read(mime: str, rate: int, channels: int):
    with wave.open(io.BytesIO(wrap_in_wav(b"\1\0\2\0\3", mime))) as audio:
        assert (audio.getframerate(), audio.getnchannels(), audio.getsampwidth()) == (rate, channels, 2)
        assert audio.readframes(9) == b"\1\0\2\0"


def test_raw_audio_of_an_event_is_served_as_a_player_needs_it(story: Story, get: Get):
    data = base64.b64encode(b"\0\1" * 400).decode()
    seq = story.add({"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": data}})
    [player] = inspection(get, story, seq).all("audio")
    answer = Client().get(player.attrs["src"])
    assert answer["Content-Type"] == "audio/wav"
    assert len(answer.content) == 844
