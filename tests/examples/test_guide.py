"""docs/guide.md: its commands run in the order of the page, and it names buttons and pages that exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forked_processes
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs/guide.md").read_text(encoding="utf-8")
PASSWORD = "correct horse battery staple\n"


def commands() -> list[list[str]]:
    """Return the guide's shell commands, in its order, as lists of words."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```", GUIDE, re.MULTILINE | re.DOTALL)
    return [shlex.split(line) for block in blocks for line in block.splitlines()]


class Reader:
    """A person who types the guide's commands, with a data folder and servers of their own."""

    def __init__(self, folder: Path) -> None:
        self._environment = {
            **os.environ,
            "DEVUI_DATA_DIR": str(folder),
            "DATABASE_URL": f"sqlite:///{folder / 'devui.sqlite3'}",
        }
        self._servers: list[subprocess.Popen[str]] = []
        self.address = ""

    def type(self, words: list[str]) -> str:
        """Run one command and return what it printed; a server goes on in the background."""
        assigned = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        command = [sys.executable if word == ".venv/bin/python" else word for word in words[len(assigned) :]]
        command = [word.replace("path/to/agents", "examples/agents") for word in command]
        if command[0] == "make":
            return subprocess.run(
                ["make", "-n", *command[1:]], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
            ).stdout
        if command[0] == "curl":
            return self._ask(command[-1].replace("http://127.0.0.1:8000", self.address))
        environment = self._environment | assigned
        if command[2] == "web":
            return self._serve([*command, "--port", "0"], environment)
        process = forked_processes.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        printed, _ = process.communicate(PASSWORD, timeout=PATIENCE_S)
        assert process.returncode == 0, f"{shlex.join(words)}: {printed}"
        return printed

    def _ask(self, url: str) -> str:
        """Return the answer of a URL once the demo sessions, which are created behind the first page, have it."""
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                with urllib.request.urlopen(url) as response:
                    answer = str(response.read().decode())
                if "second-visit" in answer or time.monotonic() > until:
                    return answer
            except urllib.error.HTTPError:
                if time.monotonic() > until:
                    raise
            time.sleep(0.1)

    def _serve(self, command: list[str], environment: dict[str, str]) -> str:
        self.stop_servers()
        server = forked_processes.Popen(
            command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._servers.append(server)
        assert server.stdout is not None
        for line in server.stdout:
            if match := re.search(r"http://[^/]+:\d+", line):
                self.address = match[0].replace("0.0.0.0", "127.0.0.1")
                return line
        raise AssertionError(f"{shlex.join(command)} ended with {server.wait()}")

    def stop_servers(self) -> None:
        """End the servers that were started."""
        for server in self._servers:
            server.terminate()
            server.communicate(timeout=PATIENCE_S)
        self._servers.clear()


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[Reader]:
    """A reader of the guide."""
    reader = Reader(tmp_path)
    yield reader
    reader.stop_servers()


@pytest.mark.soak
def test_every_command_of_the_guide_works_as_described(reader: Reader) -> None:
    printed = {shlex.join(words): reader.type(words) for words in commands()}

    def of(part: str) -> str:
        return next(text for command, text in printed.items() if part in command)

    history = json.loads(of("state/history"))["changes"]
    assert {change["session"] for change in history} == {"first-visit", "second-visit"}
    assert {change["writer"]["name"] for change in history} == {"get_weather"}
    assert "14 of 14 passed" in of("--num-runs 2")
    assert "7 unchanged" in of("--baseline previous")
    assert "0.0.0.0" in of("--host 0.0.0.0")


def test_the_guide_names_controls_that_the_pages_have() -> None:
    pages = " ".join(path.read_text() for path in (ROOT / "templates").rglob("*.html"))
    pages += (ROOT / "devui/web/page_context.py").read_text()
    control_names = set(re.findall(r"\*\*([A-Z][\w ]+)\*\*", GUIDE)) - {"Run all 7 cases"}
    assert len(control_names) > 4
    assert [name for name in control_names if name not in pages] == []


def test_the_guide_links_to_pages_that_exist() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#[\w-]*)?\)", GUIDE)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
