"""`devui mcp install`: the entry that a client reads, printed or written."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from mcp import Client
from mcp.client.stdio import StdioServerParameters

from tests.mcp.conftest import AGENTS, call


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any) -> Path:
    """A project's folder, in which the command is called."""
    settings.DEVUI_AGENTS_DIR = str(AGENTS)
    settings.DATA_DIR = tmp_path / ".devui"
    monkeypatch.chdir(tmp_path)
    return tmp_path


def install(*arguments: str) -> str:
    """Call the command and return what it prints."""
    output = StringIO()
    call_command("mcp", "install", *arguments, stdout=output, stderr=StringIO())
    return output.getvalue()


@pytest.mark.parametrize(
    ("client", "file", "field"),
    [
        ("claude-code", ".mcp.json", "mcpServers"),
        ("cursor", ".cursor/mcp.json", "mcpServers"),
        ("vscode", ".vscode/mcp.json", "servers"),
    ],
)
def test_entry_is_printed_or_written_to_the_file_of_the_client(project, client, file, field):
    printed = json.loads(install(client))
    entry = printed[field]["devui"]
    assert entry["args"] == ["-m", "devui", "mcp", "--agents", str(AGENTS)]
    assert entry["env"]["DEVUI_DATA_DIR"] == str(project / ".devui")
    assert not (project / file).exists()
    install(client, "--save")
    assert json.loads((project / file).read_text()) == printed


def test_other_servers_of_the_file_stay(project):
    other = {"command": "other"}
    (project / ".mcp.json").write_text(json.dumps({"mcpServers": {"other": other}, "more": 1}))
    install("claude-code", "--save", "--write")
    content = json.loads((project / ".mcp.json").read_text())
    assert (content["mcpServers"]["other"], content["more"]) == (other, 1)
    assert content["mcpServers"]["devui"]["args"][-1] == "--write"


@pytest.mark.parametrize("text", ["// a comment\n{}", "[]", '{"servers": 1}', "[" * 100_000])
def test_file_of_another_form_is_not_touched(project, text):
    (project / ".vscode").mkdir()
    (project / ".vscode/mcp.json").write_text(text)
    with pytest.raises(CommandError, match="not a JSON object"):
        install("vscode", "--save")
    assert (project / ".vscode/mcp.json").read_text() == text


def test_running_server_is_named_with_a_variable_for_the_token():
    entry = json.loads(install("claude-code", "--http", "http://127.0.0.1:8000/", "--token"))
    assert entry["mcpServers"]["devui"] == {
        "type": "http",
        "url": "http://127.0.0.1:8000/mcp",
        "headers": {"Authorization": "Bearer ${DEVUI_TOKEN}"},
    }
    plain = json.loads(install("cursor", "--http", "http://127.0.0.1:8000/mcp"))
    assert plain["mcpServers"]["devui"] == {"type": "http", "url": "http://127.0.0.1:8000/mcp"}


def test_password_of_the_store_is_not_written(monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://devui:secret@db/devui")
    assert "secret" not in install("claude-code")
    monkeypatch.setenv("DATABASE_URL", "sqlite:////srv/devui.sqlite3")
    assert json.loads(install("claude-code"))["mcpServers"]["devui"]["env"]["DATABASE_URL"].startswith(
        "sqlite"
    )


async def test_installed_entry_starts_the_tools(project, demo_environment, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", demo_environment["DATABASE_URL"])
    entry = json.loads(install("claude-code"))["mcpServers"]["devui"]
    environment = {**os.environ, **entry["env"], "PYTHONPATH": demo_environment["PYTHONPATH"]}
    server = StdioServerParameters(command=entry["command"], args=entry["args"], env=environment, cwd=project)
    async with Client(server) as client:
        assert (await call(client, "list_eval_runs"))["untrusted_data"]
