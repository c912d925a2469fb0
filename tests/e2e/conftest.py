"""The whole product: `manage.py web` on the example agents, its own store, a browser."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser import OpenWindow
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parent.parent.parent

DEMO = ROOT / "examples" / "demo.json"


@dataclass(frozen=True)
class Server:
    """A running DevUI and the folder of its store."""

    url: str
    folder: Path
    environment: dict[str, str]

    def sessions(self) -> set[tuple[str, str, str]]:
        """Return the app, user and id of every session that the server lists."""
        body = httpx.get(f"{self.url}/api/v1/sessions?limit=200", trust_env=False, timeout=PATIENCE_S).json()
        return {(row["app"], row["user"], row["id"]) for row in body["sessions"]}

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a program of the project on the server's store, as a user would beside it."""
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )


def wait_until(answered, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answered():
            return
        time.sleep(0.2)
    raise AssertionError(f"Waited {seconds:.0f} s for {what}.")


def address_in(log: Path) -> str:
    """Return where a server says that it serves; empty before it does."""
    match = re.search(r" on (http://\S+?)/ ", log.read_text())
    return match.group(1) if match else ""


@contextmanager
def serve_agents(folder: Path, agents: Path, *options: str) -> Iterator[Server]:
    """Run DevUI on a folder of agents, with a store in another folder."""
    environment = {
        **os.environ,
        "DATABASE_URL": f"sqlite:///{folder}/.devui/devui.sqlite3",
        "DEVUI_EXAMPLE_DELAY_MS": "30",
        "PYTHONPATH": str(ROOT),
    }
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    log = folder / "server.log"
    command = [sys.executable, str(ROOT / "manage.py"), "web", str(agents)]
    with log.open("w") as output:
        process = subprocess.Popen(
            [*command, *options, "--port", "0"],
            cwd=folder,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: process.poll() is not None or address_in(log), PATIENCE_S, "the address")
        assert process.poll() is None, log.read_text()
        yield Server(address_in(log), folder, environment)
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """DevUI on the example agents with their demo sessions."""
    folder = tmp_path_factory.mktemp("devui")
    with serve_agents(folder, ROOT / "examples" / "agents", "--demo", str(DEMO)) as running:
        yield running


@pytest.fixture
def window(open_window: OpenWindow, server: Server) -> BrowserContext:
    """A browser window."""
    return open_window(server.url, viewport={"width": 1440, "height": 900})


@pytest.fixture
def demo(server: Server) -> None:
    """The demo sessions: the server makes them in the background, one after the other, by running the agents."""
    demo_sessions = json.loads(DEMO.read_text(encoding="utf-8"))
    expected = {(session["app"], session["user"], session["session_id"]) for session in demo_sessions}
    wait_until(lambda: expected <= server.sessions(), PATIENCE_S, "the demo sessions")


def open_new_session(page: Page, app: str, user: str, session_id: str) -> None:
    """Make a session by the form, and return when its page is live."""
    page.goto(f"/sessions/new/?app={app}")
    page.get_by_label("User", exact=True).fill(user)
    page.get_by_label("Session id").fill(session_id)
    page.get_by_role("button", name="Create session").click()
    page.wait_for_url(f"**/sessions/{app}/{user}/{session_id}/**")
    expect(page.locator("[data-connection]")).to_have_text("live")


def say(page: Page, text: str) -> None:
    """Send a message as people do."""
    page.locator("#message").fill(text)
    page.locator("#message").press("Enter")
