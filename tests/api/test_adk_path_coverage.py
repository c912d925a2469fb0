"""Every path and method of ADK's server is covered; a new ADK version that adds one fails this test."""

from __future__ import annotations

import re

from fastapi.routing import APIRoute

from devui.web.error_responses import NOT_FOUND

FILLED = {"version_id": "1", "artifact_name:path": "a.txt"}


def fill_path(path: str) -> str:
    return re.sub(r"{([\w:]+)}", lambda name: FILLED.get(name[1], name[1]), path)


async def test_every_path_and_method_of_adks_server_is_answered(web, oracle):
    server, _ = oracle
    routes = [route for route in server.routes if isinstance(route, APIRoute)]
    requests = [(method, fill_path(route.path)) for route in routes for method in route.methods]
    assert len(requests) > 50
    for method, path in requests:
        answer = await web.request(method, path, json={})
        assert answer.status_code != 405, (method, path)
        body = answer.json() if answer.status_code == 404 else {}
        assert body.get("hint") != NOT_FOUND.hint, (method, path)
