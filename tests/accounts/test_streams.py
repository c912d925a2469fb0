"""Streamed responses end with the login or token of their request."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from devui.accounts import guard, personal_tokens, users
from devui.accounts.models import Token
from devui.accounts.roles import Role
from sessions_app.api import proxy
from sessions_app.errors import StoreUnavailable
from sessions_app.runs import runtime_client
from tests.accounts.forwarding_runtime import ForwardingRuntime
from tests.api.builders import create

pytestmark = pytest.mark.usefixtures("people")

PARTS = [b'data: {"n": 1}\n\n', b'data: {"n": 2}\n\n', b'data: {"n": 3}\n\n']


class Parts(httpx.AsyncByteStream):
    """The parts of a streamed response. With `revoke`, the token is revoked before the second part."""

    def __init__(self, revoke: bool) -> None:
        self.revoke = revoke
        self.is_closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for number, part in enumerate(PARTS):
            if self.revoke and number == 1:
                await sync_to_async(Token.objects.all().delete)()
            yield part

    async def aclose(self) -> None:
        self.is_closed = True


class StreamingRuntime(ForwardingRuntime):
    """A runtime that streams parts."""

    def __init__(self, parts: Parts) -> None:
        super().__init__()
        self.parts = parts

    @asynccontextmanager
    async def open(self, method: str, path: str, *, headers: Mapping[str, str], content: bytes) -> Any:
        answer = httpx.Response(200, headers={"Content-Type": proxy.EVENT_STREAM}, stream=self.parts)
        try:
            yield answer
        finally:
            await answer.aclose()


async def stream(web: httpx.AsyncClient, parts: Parts) -> list[Any]:
    """Stream a run with a token and return the frames."""
    await create()
    token, _ = await sync_to_async(personal_tokens.create_token)(
        await sync_to_async(users.find_user)("runner"), "ci", Role.RUNNER, None
    )
    runtime_client.register(StreamingRuntime(parts))
    message = {"role": "user", "parts": [{"text": "x"}]}
    body = {"appName": "weather", "userId": "ann", "sessionId": "s1", "newMessage": message}
    answer = await web.post("/run_sse", json=body, headers={"Authorization": f"Bearer {token}"})
    runtime_client.register(None)
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]


async def test_stream_ends_with_its_token_and_ends_the_run(web, monkeypatch):
    monkeypatch.setattr(proxy, "LOGIN_CHECK_S", -1)
    parts = Parts(revoke=True)
    first, last = await stream(web, parts)
    assert (first, last["code"]) == ({"n": 1}, "forbidden")
    assert last["error"].startswith(
        "Forbidden: The login or token of this request has ended, and the request with it"
    )
    assert parts.is_closed


async def test_stream_goes_on_while_its_token_holds_or_the_store_does_not_answer(web, monkeypatch):
    monkeypatch.setattr(proxy, "LOGIN_CHECK_S", -1)
    find_sender, calls = guard._find_sender, 0

    async def find_or_fail(request: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 4:  # two calls admit the request and its body
            raise StoreUnavailable("The store does not answer.", hint="Wait.")
        return await find_sender(request)

    monkeypatch.setattr(guard, "_find_sender", find_or_fail)
    assert await stream(web, Parts(revoke=False)) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert calls == 5
