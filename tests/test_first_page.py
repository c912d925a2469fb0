"""Imports for the first page: the APIs, other pages and sockets are imported on request, or after that page."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from evals_app import urls as eval_urls
from sessions_app import urls as session_urls
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

statuses = asyncio.run(ask(sys.argv[2:]))
print(statuses, *(name in sys.modules for name in ("devui.apis.build", "ninja")))
print(*(name for name in sys.modules if name.startswith(("sessions_app.views.", "evals_app.views."))))
"""

BEHIND = """
import asyncio, sys
import devui
devui.setup(sys.argv[1])
from devui.asgi import application
from devui.serving import deferred_imports
from tests.patience import PATIENCE_S
from tests.web import over
deferred_imports.DELAY_S = 0

async def main():
    importing = asyncio.create_task(deferred_imports.import_after_first_page())
    await asyncio.sleep(0)
    assert "devui.apis.build" not in sys.modules
    async with over(application) as client:
        await client.get("/")
    await asyncio.wait_for(importing, PATIENCE_S)

asyncio.run(main())
print(*(name in sys.modules for name in sys.argv[2:]))
"""


def run(script: str, store: Path, *paths: str) -> str:
    """Return what a fresh process prints."""
    done = forked_processes.run([sys.executable, "-c", script, f"sqlite:///{store}", *paths], cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_pages_are_served_without_building_the_api(tmp_path: Path):
    pages = ["/", "/sessions/", "/evals/"]
    output = run(ASK, tmp_path / "store.sqlite3", *pages).splitlines()
    assert output[0] == "[200, 200, 200] False False"


def test_the_first_page_imports_no_view_of_another_page(tmp_path: Path):
    assert run(ASK, tmp_path / "store.sqlite3", "/").splitlines() == ["[200] False False"]


def test_every_route_names_an_existing_view():
    routes = [route for app in (session_urls, eval_urls) for route in app.urlpatterns]
    assert len(routes) > 80
    for route in routes:
        route.import_view()
        assert route.callback.__name__ == route.lookup_str.rpartition(".")[2]


@pytest.mark.parametrize(
    ("path", "status"),
    [("/api/v1/docs", 200), ("/no/such/page", 404)],
)
def test_api_requested_first_is_built_and_answers(tmp_path: Path, path: str, status: int):
    assert run(ASK, tmp_path / "store.sqlite3", path).splitlines()[0] == f"[{status}] True True"


def test_everything_else_is_imported_after_the_first_page(tmp_path: Path):
    modules = [
        "devui.apis.build",
        "devui.web.socket_routes",
        "sessions_app.views.session",
        "evals_app.views.trends",
    ]
    assert run(BEHIND, tmp_path / "store.sqlite3", *modules) == "True True True True"
