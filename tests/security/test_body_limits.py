"""Bodies above a limit are refused; large ones are parsed in a thread."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import AsyncIterator, Iterable
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from django.core.handlers.asgi import ASGIRequest

from devui.web.body_admission import BodyAdmission
from devui.web.body_limits import PARSED_FACTOR, VALUE_BYTES, LimitedBody, Message, Receive, SharedQuota
from devui.web.middleware import LARGE_BYTES
from sessions_app.api import request_bodies
from sessions_app.store.text_input import MAX_VALUES
from tests.web import over, serve

LIMIT = 1000


@pytest.fixture
def limited_app(store: None) -> Any:
    """DevUI with small limits: forms with files may have twice as much."""
    return BodyAdmission(max_form=2 * LIMIT, max_text=LIMIT)


def body_of(size: int) -> bytes:
    empty = json.dumps({"appName": "weather", "userId": "ann", "sessionId": ""}).encode()
    return empty[:-2] + b"x" * (size - len(empty)) + empty[-2:]


async def in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 300):
        yield body[start : start + 300]


async def as_stream(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


def one_chunk(chunk: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": chunk, "more_body": False}

    return receive


@pytest.mark.parametrize("path", ["/run", "/run_sse", "/apps/weather/users/ann/sessions", "/api/v1/runs"])
@pytest.mark.parametrize("announced", [True, False], ids=["content length", "chunked"])
async def test_a_body_above_the_limit_is_refused(limited_app, path, announced):
    body = body_of(LIMIT + 1)
    content = body if announced else in_pieces(body)
    async with over(limited_app) as client:
        answer = await client.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 413
    assert answer.json().keys() == {"detail", "code", "hint"}
    assert "DEVUI_MAX_JSON_MB" in answer.json()["hint"]


@pytest.mark.parametrize("announced", [True, False], ids=["content length", "chunked"])
async def test_a_body_at_the_limit_is_read(limited_app, announced):
    body = body_of(LIMIT)
    content = body if announced else in_pieces(body)
    async with over(limited_app) as client:
        answer = await client.post("/run", content=content, headers={"Content-Type": "application/json"})
    assert answer.status_code == 503  # read, and nothing here runs agents


async def test_real_server_refuses_body_without_length(limited_app):
    async with (
        serve(limited_app) as address,
        httpx.AsyncClient(base_url=f"http://{address}", trust_env=False) as client,
    ):
        answer = await client.post("/run", content=in_pieces(body_of(LIMIT * 3)))
        assert answer.status_code == 413
        assert (await client.get("/health")).status_code == 200


MANY = b"[" + b"[]," * (MAX_VALUES // 2) + b"[]]"
"""Three bytes a value: 2 MB of text, and 200 MB once it is parsed."""

JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("path", ["/run", "/run_sse", "/apps/weather/users/ann/sessions", "/api/v1/runs"])
@pytest.mark.parametrize("announced", [True, False], ids=["content length", "chunked"])
async def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(web, monkeypatch, path, announced):
    monkeypatch.setattr(request_bodies, "_parse_body", lambda request: pytest.fail("parsed"))
    body = b'{"state": {"a": ' + MANY + b"}}"
    pieces = (body[start : start + 65_536] for start in range(0, len(body), 65_536))
    answer = await web.post(path, content=body if announced else as_stream(pieces), headers=JSON)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_many_values")
    assert f"{MAX_VALUES:,} values" in answer.json()["hint"]


async def test_a_body_of_many_values_in_another_encoding_is_refused(web):
    body = ('{"x": "\\"", "state": {"a": ' + MANY.decode() + "}}").encode("utf-16")
    answer = await web.post("/apps/weather/users/ann/sessions", content=body, headers=JSON)
    assert answer.status_code == 400


async def test_commas_in_texts_are_no_values(web):
    body = json.dumps({"state": {"a": 'one, [two], {three}, "four"\\' * (MAX_VALUES // 4)}}).encode()
    answer = await web.post("/apps/weather/users/ann/sessions", content=body, headers=JSON)
    assert answer.status_code == 200


async def test_small_values_take_more_of_the_memory_that_bodies_share():
    quota = SharedQuota(1_000_000 * VALUE_BYTES)
    body = LimitedBody(one_chunk(MANY[:300_000]), quota, len(MANY), factor=PARSED_FACTOR)
    await body.read_into(io.BytesIO())
    assert body.problem is None
    assert not quota.hold("another body", 900_000 * VALUE_BYTES)
    body.hold_bytes_only()
    assert quota.hold("another body", 900_000 * VALUE_BYTES)


async def test_the_server_has_a_limit(web):
    from django.conf import settings

    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1),
    }
    answer = await web.post("/run", content=in_pieces(b"{}"), headers=headers)
    assert answer.status_code == 413


FILES = {"file": ("case.evalset.json", b"x" * LIMIT, "application/json")}


async def test_a_form_with_files_may_be_larger_but_not_on_the_api(limited_app):
    async with over(limited_app, Accept="text/html") as client:
        assert (await client.post("/evals/upload/", files=FILES)).status_code != 413
        assert (await client.post("/run", files=FILES)).status_code == 413


async def test_browser_gets_an_error_page(limited_app):
    async with over(limited_app, Accept="text/html") as client:
        answer = await client.post("/evals/upload/", files=FILES | {"more": ("a", b"x" * LIMIT)})
    assert answer.status_code == 413
    assert answer.headers["content-type"].startswith("text/html")
    assert "default-src" in answer.headers["content-security-policy"]
    assert "DEVUI_MAX_BODY_MB" in answer.text


LARGE = 2 * LARGE_BYTES


@pytest.fixture
def threads(monkeypatch) -> list[str]:
    """The threads that parse bodies of JSON, by name."""
    threads_seen: list[str] = []

    def loads(text: bytes | str) -> Any:
        threads_seen.append(threading.current_thread().name)
        return json.loads(text)

    monkeypatch.setattr(request_bodies, "text_input", SimpleNamespace(parse_json=loads))
    return threads_seen


@pytest.mark.parametrize("announced", [True, False], ids=["content length", "chunked"])
async def test_a_large_body_is_parsed_beside_the_event_loop(web, threads, announced):
    body = json.dumps({"state": {"text": "x" * LARGE}}).encode()
    content = body if announced else in_pieces(body)
    path = "/apps/weather/users/ann/sessions"
    answer = await web.post(path, content=content, headers={"Content-Type": "application/json"})
    assert answer.json()["state"] == {"text": "x" * LARGE}
    assert [name.startswith("devui-body") for name in threads] == [True]


async def test_large_body_of_own_api_is_parsed_beside_the_event_loop(web, threads):
    answer = await web.post("/api/v1/runs", json={"session": 10**9, "text": "x" * LARGE})
    assert answer.json()["code"] == "invalid"
    assert [name.startswith("devui-body") for name in threads] == [True]


@pytest.mark.parametrize(
    ("path", "status"), [("/apps/weather/users/ann/sessions", 422), ("/api/v1/runs", 400)]
)
async def test_large_malformed_json_is_refused(web, path, status):
    answers = [
        await web.post(path, content=b"{" * size, headers={"Content-Type": "application/json"})
        for size in (10, LARGE)
    ]
    assert [answer.status_code for answer in answers] == [status, status]
    assert answers[0].json() == answers[1].json()


async def test_a_large_form_is_read_beside_the_event_loop(web, monkeypatch):
    read: list[str] = []
    parse = ASGIRequest._load_post_and_files

    def load(request: ASGIRequest) -> None:
        read.append(threading.current_thread().name)
        parse(request)

    monkeypatch.setattr(ASGIRequest, "_load_post_and_files", load)
    files = {"file": ("case.evalset.json", b"x" * LARGE, "application/json")}
    answer = await web.post("/evals/upload/", files=files, headers={"Accept": "text/html"})
    assert "case.evalset.json" in answer.text
    assert [name.startswith("devui-body") for name in read] == [True]


async def test_large_malformed_form_is_refused(web):
    headers = {"Content-Type": "multipart/form-data", "Accept": "text/html"}  # without a boundary
    answer = await web.post("/evals/upload/", content=b"x" * LARGE, headers=headers)
    assert answer.status_code == 400
