"""ADK's own front end from the installed package. `e2e` tests it in a browser."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from devui.web import adk_front_end
from tests.web import over


@pytest_asyncio.fixture
async def web(transactional_db: None) -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI."""
    from devui.asgi import application

    async with over(application) as client:
        yield client


async def test_its_first_page_asks_no_other_host_and_runs_no_script_of_its_own(web):
    page = await web.get("/dev-ui/")
    assert page.status_code == 200
    assert "<app-root>" in page.text
    loaded = re.findall(r"""(?:href|src)=["']([^"']+)|url\(([^)]+)\)""", page.text)
    assert not [address for pair in loaded for address in pair if "//" in address]
    assert not re.search(r"\son\w+=", page.text)


async def test_its_policy_is_its_own_and_lets_nothing_in_from_outside(web):
    policy = (await web.get("/dev-ui/")).headers["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == "'self' 'wasm-unsafe-eval'"
    assert rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert not re.search(r"https?:|\*|'unsafe-eval'", policy)


async def test_its_policy_is_for_its_first_page_alone(web):
    for path in ("/dev-ui/adk_favicon.svg", "/", "/sessions/"):
        policy = (await web.get(path)).headers["Content-Security-Policy"]
        assert "unsafe" not in policy, path


async def test_its_files_are_served_with_their_types(web):
    page = (await web.get("/dev-ui/")).text
    scripts = re.findall(r'src="\./([^"]+\.js)"', page)
    assert scripts
    for name in scripts:
        script = await web.get(f"/dev-ui/{name}")
        assert script.status_code == 200
        assert script.headers["content-type"].startswith("text/javascript")
        assert "immutable" in script.headers["cache-control"]
    icon = await web.get("/dev-ui/adk_favicon.svg")
    assert (icon.headers["content-type"], icon.headers["cache-control"]) == ("image/svg+xml", "no-cache")


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fapi_server.py", "%2e%2e/%2e%2e/api_server.py", "%2Fetc%2Fpasswd", "assets", "none.js"]
)
async def test_only_its_own_files_are_served(web, name):
    assert (await web.get(f"/dev-ui/{name}")).status_code == 404


async def test_front_end_gets_server_address_and_no_telemetry(web):
    config = await web.get("/dev-ui/assets/config/runtime-config.json")
    assert config.json() == {"backendUrl": "", "telemetry": False}
    assert config.headers["cache-control"] == "no-store"
    assert (await web.get("/dev-ui/config")).json() == {"logo_text": None, "logo_image_url": None}


async def test_front_end_under_a_path_gets_full_socket_address(web, settings):
    settings.FORCE_SCRIPT_NAME = "/tools/devui"
    config = await web.get("/dev-ui/assets/config/runtime-config.json")
    assert config.json()["backendUrl"] == "http://127.0.0.1/tools/devui"


async def test_its_address_without_a_slash_leads_to_it(web):
    moved = await web.get("/dev-ui?app=weather")
    assert (moved.status_code, moved.headers["location"]) == (302, "/dev-ui/?app=weather")


async def test_package_without_front_end_says_so(web, monkeypatch):
    monkeypatch.setattr(adk_front_end, "front_end_folder", lambda: None)
    adk_front_end._front_end_files.cache_clear()
    adk_front_end._first_page.cache_clear()
    try:
        answer = await web.get("/dev-ui/", headers={"Accept": "application/json"})
    finally:
        adk_front_end._front_end_files.cache_clear()
    assert answer.status_code == 404
    assert "no front end" in answer.json()["detail"]
