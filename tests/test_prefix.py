"""DevUI under a path of a proxy: links contain the path, whether or not the proxy strips it."""

from __future__ import annotations

import os
import sys

import pytest

from tests import forked_processes

VISIT = """
import asyncio, httpx, re, devui
devui.setup()
from devui.asgi import application

async def main():
    transport = httpx.ASGITransport(app=application)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        for prefix in ("", "/tools/devui"):
            page = await client.get(prefix + "/sessions/", headers={"Accept": "text/html"})
            assert page.status_code == 200, (prefix, page.text[:300])
            links = re.findall('(?:href|src)="(/[^"]*)"', page.text)
            assert links and all(link.startswith("/tools/devui/") for link in links), links
            files = [link for link in links if "/static/" in link]
            for link in files:
                answer = await client.get(prefix + link.removeprefix("/tools/devui").partition("#")[0])
                assert answer.status_code == 200, (prefix, link)
            assert (await client.get(prefix + "/list-apps")).json()["code"] == "runtime_unavailable"
            assert (await client.get(prefix + "/nothing", headers={"Accept": "*/*"})).status_code == 404
            foreign = await client.get(prefix + "/health", headers={"Origin": "http://evil.example"})
            assert foreign.status_code == 403

asyncio.run(main())
"""


SPELLED = [
    pytest.param(arguments, marks=pytest.mark.soak)
    for arguments in ("tools/devui/", "https://host.example/tools/devui")
]


@pytest.mark.parametrize("value", ["/tools/devui", *SPELLED])
def test_links_and_files_work_under_the_proxys_path(value, tmp_path):
    environment = {**os.environ, "DEVUI_URL_PREFIX": value, "DATABASE_URL": f"sqlite:///{tmp_path}/s.sqlite3"}
    result = forked_processes.run(
        [sys.executable, "-c", VISIT],
        env=environment,
        cwd=tmp_path,
    )
    assert result.returncode == 0, result.stderr
