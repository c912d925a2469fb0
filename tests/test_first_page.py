"""Imports for the first page: the APIs are built on request, or after that page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests import forked_processes

ROOT = Path(__file__).resolve().parent.parent

ASK = """
import asyncio, sys
import devui
devui.setup(sys.argv[1])
import devui.serving.server
from devui.asgi import application
from tests.web import over

async def ask(paths):
    async with over(application) as client:
        return [(await client.get(path)).status_code for path in paths]

print(asyncio.run(ask(sys.argv[2:])), "devui.apis.build" in sys.modules, "ninja" in sys.modules)
"""

BEHIND = """
import asyncio, sys
import devui
devui.setup(sys.argv[1])
from devui.apis import urls as api_urls
from devui.asgi import application
from tests.web import over
api_urls.BUILD_DELAY_S = 0

async def main():
    building = asyncio.create_task(api_urls.build_after_first_page())
    await asyncio.sleep(0)
    assert "devui.apis.build" not in sys.modules
    async with over(application) as client:
        await client.get("/")
    await asyncio.wait_for(building, 60)

asyncio.run(main())
print("devui.apis.build" in sys.modules)
"""


def run(script: str, store: Path, *paths: str) -> str:
    """Return what a fresh process prints."""
    done = forked_processes.run([sys.executable, "-c", script, f"sqlite:///{store}", *paths], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_pages_are_served_without_building_the_api(tmp_path: Path):
    pages = ["/", "/sessions/", "/evals/"]
    assert run(ASK, tmp_path / "store.sqlite3", *pages) == "[200, 200, 200] False False"


@pytest.mark.parametrize(
    ("path", "status"),
    [("/health", 200), ("/api/v1/sessions", 200), ("/api/v1/docs", 200), ("/no/such/page", 404)],
)
def test_an_api_that_is_asked_first_is_built_and_answers(tmp_path: Path, path: str, status: int):
    assert run(ASK, tmp_path / "store.sqlite3", path) == f"[{status}] True True"


def test_the_api_is_built_behind_the_first_page(tmp_path: Path):
    assert run(BEHIND, tmp_path / "store.sqlite3") == "True"
