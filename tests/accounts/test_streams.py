"""Requests in progress end with the login, the token or the role of their sender, whether they stream or wait."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from devui.accounts import guard, personal_tokens, users
from devui.accounts.models import Membership, Token
from devui.web.login import sockets
from sessions_app.roles import Role
from sessions_app.runs import runtime_client
from sessions_app.store.errors import StoreUnavailable
from tests.accounts.forwarding_runtime import ForwardingRuntime
from tests.api.builders import create
from tests.patience import PATIENCE_S

pytestmark = pytest.mark.usefixtures("people")

FRAME = b'data: {"n": 1}\n\n'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check open requests often."""
    monkeypatch.setattr(sockets, "RECHECK_S", 0.05)


class Answer(httpx.AsyncByteStream):
    """A streamed response: a part, and the next one when the test lets it go on."""

    def __init__(self, runtime: WaitingRuntime) -> None:
        self.runtime = runtime

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield FRAME
        await self.runtime.wait()
        yield FRAME

    async def aclose(self) -> None:
        self.runtime.is_closed = True


class WaitingRuntime(ForwardingRuntime):
    """A runtime whose agent works until the test lets it go on."""

    def __init__(self, content_type: str) -> None:
        super().__init__()
        self.content_type = content_type
        self.is_closed = False
        self.works = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def wait(self) -> None:
        self.works.set()
        try:
            await self.goes_on.wait()
        except asyncio.CancelledError:
            self.is_closed = True
            raise

    @asynccontextmanager
    async def open(self, method: str, path: str, *, headers: Mapping[str, str], content: bytes) -> Any:
        if self.content_type == "application/json":
            await self.wait()
            yield httpx.Response(200, json=[])
        else:
            yield httpx.Response(200, headers={"Content-Type": self.content_type}, stream=Answer(self))
            self.is_closed = True


async def create_token_header(name: str = "runner") -> dict[str, str]:
    """Return the header of a new token of a user."""
    user = await sync_to_async(users.find_user)(name)
    secret, _ = await sync_to_async(personal_tokens.create_token)(user, "ci", Role.RUNNER, None)
    return {"Authorization": f"Bearer {secret}"}


@asynccontextmanager
async def working(web: httpx.AsyncClient, path: str, headers: Mapping[str, str]) -> AsyncIterator[Any]:
    """Send a message to an agent that works; yield its runtime and the request."""
    await create()
    runtime = WaitingRuntime("text/event-stream" if path == "/run_sse" else "application/json")
    runtime_client.register(runtime)
    message = {"role": "user", "parts": [{"text": "x"}]}
    body = {"appName": "weather", "userId": "ann", "sessionId": "s1", "newMessage": message}
    asking = asyncio.create_task(web.post(path, json=body, headers=headers))
    await asyncio.wait_for(runtime.works.wait(), PATIENCE_S)
    yield runtime, asking
    runtime_client.register(None)


def frames(answer: httpx.Response) -> list[Any]:
    return [json.loads(line.removeprefix("data: ")) for line in answer.text.splitlines() if line]


def revoke() -> None:
    Token.objects.all().delete()


def disable() -> None:
    users.set_active(users.find_user("runner"), is_active=False)


def demote() -> None:
    Membership.objects.filter(user__username="runner").update(role=Role.READER)


ENDS = [revoke, disable, demote]


@pytest.mark.parametrize("end", ENDS)
async def test_silent_stream_and_its_run_end(web, end: Callable[[], None]):
    async with working(web, "/run_sse", await create_token_header()) as (runtime, asking):
        await sync_to_async(end)()
        first, last = frames(await asyncio.wait_for(asking, PATIENCE_S))
    assert (first, last["code"]) == ({"n": 1}, "forbidden")
    assert last["error"].startswith("Forbidden: The login, token or role of this request has ended")
    assert runtime.is_closed


@pytest.mark.parametrize("end", ENDS)
async def test_waiting_request_is_refused_and_its_run_ends(web, end: Callable[[], None]):
    async with working(web, "/run", await create_token_header()) as (runtime, asking):
        await sync_to_async(end)()
        answer = await asyncio.wait_for(asking, PATIENCE_S)
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
    assert runtime.is_closed


async def test_role_in_the_app_of_the_request_counts(web):
    def limit_to(app: str) -> None:
        user = users.find_user("runner")
        Membership.objects.filter(user=user).delete()
        roles = {"": Role.READER, app: Role.RUNNER}
        Membership.objects.bulk_create(
            Membership(user=user, app=name, role=role) for name, role in roles.items()
        )

    await sync_to_async(limit_to)("weather")
    async with working(web, "/run", await create_token_header()) as (_, asking):
        await sync_to_async(limit_to)("writer")
        assert (await asyncio.wait_for(asking, PATIENCE_S)).status_code == 403


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
async def test_request_goes_on_while_its_sender_may_send_it_or_the_store_is_away(web, monkeypatch, path):
    find_sender, checks = guard._find_sender, asyncio.Semaphore(0)

    async def find_or_fail(request: Any) -> Any:
        checks.release()
        if runtime.works.is_set() and not checks._value % 2:
            raise StoreUnavailable("The store does not answer.", hint="Wait.")
        return await find_sender(request)

    async with working(web, path, await create_token_header()) as (runtime, asking):
        monkeypatch.setattr(guard, "_find_sender", find_or_fail)
        for _ in range(4):
            await asyncio.wait_for(checks.acquire(), PATIENCE_S)
        runtime.goes_on.set()
        answer = await asyncio.wait_for(asking, PATIENCE_S)
    assert answer.status_code == 200
    assert path == "/run" or frames(answer) == [{"n": 1}] * 2


@pytest.mark.parametrize("made_by", [0, 1, 2])
async def test_revoking_a_token_revokes_all_that_it_has_created(web, made_by: int):
    headers = [await create_token_header()]
    for number in range(3):
        response = await web.post(
            "/api/v1/tokens", json={"name": f"t{number}", "role": "reader"}, headers=headers[-1]
        )
        headers.append({"Authorization": f"Bearer {response.json()['token']}"})
    own = await sync_to_async(lambda: list(Token.objects.order_by("pk").values_list("pk", flat=True)))()
    await web.delete(f"/api/v1/tokens/{own[made_by]}", headers=headers[0])
    statuses = [(await web.get("/api/v1/tokens", headers=header)).status_code for header in headers]
    assert statuses == [200] * made_by + [401] * (4 - made_by)
