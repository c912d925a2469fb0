"""docs/mcp.md: its commands do what it says, and its table has the tools."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

from django.core.management import call_command

from devui.mcp.answers import MAX_ANSWER
from devui.mcp.read_tools import READ_TOOLS
from devui.mcp.write_tools import WRITE_TOOLS
from tests.mcp.conftest import ROOT

PAGE = (ROOT / "docs/mcp.md").read_text(encoding="utf-8")


def test_commands_of_the_page_write_and_print_an_entry(tmp_path: Path, monkeypatch, capsys):
    shutil.copytree(ROOT / "examples/agents", tmp_path / "examples/agents")
    monkeypatch.chdir(tmp_path)
    commands = [text for text in re.findall(r"```sh\n(.*?)\n```", PAGE) if "manage.py mcp" in text]
    saved, printed = (shlex.split(command)[2:] for command in commands)
    call_command(*saved)
    entry = json.loads((tmp_path / ".mcp.json").read_text())["mcpServers"]["devui"]
    assert entry["args"][-1] == str(tmp_path / "examples/agents")
    capsys.readouterr()
    call_command(*printed)
    entry = json.loads(capsys.readouterr().out)["mcpServers"]["devui"]
    assert entry["url"] == "http://127.0.0.1:8000/mcp"
    assert "DEVUI_TOKEN" in entry["headers"]["Authorization"]


def test_table_of_the_page_has_the_tools_and_says_which_write():
    rows = re.findall(r"^\| (`[a-z_`, ]+`) \| (.*) \|$", PAGE, re.MULTILINE)
    documented = {name: "`--write`" in text for names, text in rows for name in re.findall(r"`(\w+)`", names)}
    assert documented == {
        **{tool.__name__: False for tool in READ_TOOLS},
        **{tool.__name__: True for tool in WRITE_TOOLS},
    }
    assert f"{MAX_ANSWER:,} characters" in PAGE
