"""The curl command for other programs sends the same request as the console."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sessions_app.console.message_draft import MessageDraft
from sessions_app.console.request_snippets import RequestSnippet
from sessions_app.store.models import AgentSession

SESSION = AgentSession(pk=7, app_name="weather", user_id="ann", session_id="it's $HOME `x`")
BASE = "http://127.0.0.1:8000/"


def test_adks_own_path_is_used_if_it_supports_everything():
    draft = MessageDraft(text="hi", streaming=True, values={"state_delta": {"a": 1}})
    call = RequestSnippet.of(SESSION, draft, [], BASE)
    assert call.url == f"{BASE}run_sse"
    assert call.body == {
        "appName": "weather",
        "userId": "ann",
        "sessionId": "it's $HOME `x`",
        "streaming": True,
        "newMessage": {"role": "user", "parts": [{"text": "hi"}]},
        "stateDelta": {"a": 1},
    }


@pytest.mark.parametrize(
    ("session", "values"),
    [
        (SESSION, {"run_config": {"max_llm_calls": 3}}),
        (AgentSession(pk=7, realm="fork/1", app_name="a", user_id="u", session_id="s"), {}),
    ],
)
def test_own_path_is_used_for_the_rest(session, values):
    call = RequestSnippet.of(session, MessageDraft(text="hi", values=values), [], BASE)
    assert call.url == f"{BASE}api/v1/runs"
    assert call.body["session"] == 7


def sent_by(command: list[str], folder: Path) -> dict[str, Any]:
    """Run a command with a fake `curl` that stores the body; return the body."""
    fake = folder / "curl"
    fake.write_text(
        "#!/bin/sh\nwhile [ $# -gt 0 ]; do\n"
        'case "$1" in -d) printf %s "$2" > body;; --data-binary) cat > body;; esac\nshift\ndone\n'
    )
    fake.chmod(0o755)
    subprocess.run(command, cwd=folder, check=True, env={"PATH": f"{folder}:/usr/bin:/bin"})
    return json.loads((folder / "body").read_text())


def test_shell_command_is_quoted_for_any_content(tmp_path):
    draft = MessageDraft(text='It\'s "$5" `now` \\n 東京\n$(rm -rf /)')
    call = RequestSnippet.of(SESSION, draft, [], BASE)
    assert sent_by(["sh", "-c", call.curl()], tmp_path) == call.body


def test_a_shell_reads_the_files_when_it_sends(tmp_path):
    names = ["a b'$x.bin", "c.txt"]
    for name in names:
        (tmp_path / name).write_bytes(name.encode() * 100)
    draft = MessageDraft(text='It\'s "$5" `now` \\ $(x)')
    body = sent_by(["sh", "-c", RequestSnippet.of(SESSION, draft, names, BASE).curl()], tmp_path)
    text, *files = body["newMessage"]["parts"]
    assert text == {"text": draft.text}
    assert [base64.b64decode(file["inlineData"]["data"]) for file in files] == [
        name.encode() * 100 for name in names
    ]


def test_the_python_program_sends_the_same(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    (tmp_path / "httpx.py").write_text(
        "import contextlib, json, pathlib, types\n"
        "@contextlib.contextmanager\n"
        "def stream(method, url, json=None, timeout=0):\n"
        "    pathlib.Path('body').write_text(__import__('json').dumps([method, url, json]))\n"
        "    yield types.SimpleNamespace(iter_lines=lambda: [])\n"
    )
    draft = MessageDraft(text='It\'s "x" \\ 東京', values={"state_delta": {"a": None, "b": True}})
    call = RequestSnippet.of(SESSION, draft, ["a.txt"], BASE)
    program = shutil.which("python3")
    assert program
    subprocess.run([program, "-c", call.python()], cwd=tmp_path, check=True)
    method, url, body = json.loads((tmp_path / "body").read_text())
    assert (method, url, body["stateDelta"]) == ("POST", call.url, {"a": None, "b": True})
    assert body["newMessage"]["parts"][0] == {"text": draft.text}
    assert base64.b64decode(body["newMessage"]["parts"][1]["inlineData"]["data"]) == b"hello"


def test_snippet_reads_the_token_from_the_environment(tmp_path):
    draft = MessageDraft(text="hi")
    call = RequestSnippet.of(SESSION, draft, [], BASE, with_token=True)
    assert '-H "Authorization: Bearer $DEVUI_TOKEN"' in call.curl()
    assert sent_by(["sh", "-c", call.curl()], tmp_path) == call.body
    program = RequestSnippet.of(SESSION, draft, ["a.txt"], BASE, with_token=True).python()
    assert """headers = {"Authorization": f"Bearer {os.environ['DEVUI_TOKEN']}"}""" in program
    assert program.startswith("import base64\nimport os\nfrom pathlib import Path\n\nimport httpx\n")
    assert "headers=headers" in program
    compile(program, "call.py", "exec")
    assert "Authorization" not in RequestSnippet.of(SESSION, draft, [], BASE).python()
