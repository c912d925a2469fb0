"""Bodies above the limit are refused, announced or not, before anything reads them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from devui.limits import BodyLimit
from tests.web import over, serve

LIMIT = 1000


@pytest.fixture
def limited(store: None) -> Any:
    """DevUI with a small limit."""
    from devui.asgi import application

    return BodyLimit(application, LIMIT)


def body_of(size: int) -> bytes:
    empty = json.dumps({"appName": "weather", "userId": "ann", "sessionId": ""}).encode()
    return empty[:-2] + b"x" * (size - len(empty)) + empty[-2:]


async def in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 300):
        yield body[start : start + 300]


@pytest.mark.parametrize("path", ["/run", "/run_sse", "/apps/weather/users/ann/sessions", "/api/v1/runs"])
@pytest.mark.parametrize("announced", [True, False], ids=["content length", "chunked"])
async def test_a_body_above_the_limit_is_refused(limited, path, announced):
    body = body_of(LIMIT + 1)
    content = body if announced else in_pieces(body)
    async with over(limited) as client:
        answer = await client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert answer.json().keys() == {"detail", "code", "hint"}
    assert "DEVUI_MAX_BODY_MB" in answer.json()["hint"]


@pytest.mark.parametrize("announced", [True, False], ids=["content length", "chunked"])
async def test_a_body_at_the_limit_is_read(limited, announced):
    body = body_of(LIMIT)
    content = body if announced else in_pieces(body)
    async with over(limited) as client:
        answer = await client.post("/run", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 503  # read, and nothing here runs agents


async def test_a_real_server_refuses_a_body_without_a_length_too(limited):
    async with (
        serve(limited) as address,
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client,
    ):
        answer = await client.post("/run", content=in_pieces(body_of(LIMIT * 3)))
        assert answer.status_code == 413
        assert (await client.get("/health")).status_code == 200


async def test_the_server_has_a_limit(web):
    from django.conf import settings

    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1),
    }
    answer = await web.post("/run", content=in_pieces(b"{}"), headers=headers)
    assert answer.status_code == 413
