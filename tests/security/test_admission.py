"""Request bodies are read only after guards and login, within limits of size, number and time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async

from devui.web import body_admission, body_limits
from devui.web.body_admission import BodyAdmission
from devui.web.body_limits import SMALL_BYTES
from tests.login.conftest import data, login, new_cookie, set_password
from tests.patience import PATIENCE_S
from tests.security.raw_http import Connection, connect
from tests.web import serve

__all__ = ["data", "login"]

LARGE = 4 * SMALL_BYTES
JSON = {"Content_Type": "application/json"}
SESSIONS = "/apps/weather/users/ann/sessions"

pytestmark = pytest.mark.usefixtures("store")


@pytest.fixture
def admission(request: pytest.FixtureRequest) -> BodyAdmission:
    """DevUI with room for one large body of JSON, and the test's own limits of time."""
    return BodyAdmission(
        max_form=LARGE,
        max_text=LARGE,
        max_total=LARGE * body_limits.PARSED_FACTOR,
        **getattr(request, "param", {}),
    )


@pytest_asyncio.fixture
async def address(admission: BodyAdmission) -> AsyncIterator[str]:
    """A server's address."""
    async with serve(admission) as address:
        yield address


async def cookie() -> dict[str, str]:
    return {"Cookie": await sync_to_async(new_cookie)()}


def state_of(size: int) -> bytes:
    empty = json.dumps({"state": {"text": ""}}).encode()
    return empty[:-3] + b"x" * (size - len(empty)) + empty[-3:]


@pytest.mark.parametrize(
    ("headers", "status", "code"),
    [
        ({}, 401, "login_required"),
        ({"Authorization": "Bearer devui_wrong"}, 401, "login_required"),
        ({"Host": "evil.example"}, 403, "host_not_allowed"),
        ({"Origin": "http://evil.example"}, 403, "origin_not_allowed"),
        ({"Sec_Fetch_Site": "cross-site"}, 403, "cross_site"),
    ],
    ids=["no login", "wrong token", "host", "origin", "cross-site"],
)
@pytest.mark.parametrize(
    "length", [{"Content_Length": "66000000"}, {"Transfer_Encoding": "chunked"}], ids=["length", "chunked"]
)
async def test_refused_request_is_answered_before_its_body(login, address, headers, status, code, length):
    async with connect(address) as client:
        await client.ask("POST", SESSIONS, **JSON, **length, **headers)
        answer = await client.answer()
        assert (answer.status, json.loads(answer.body)["code"]) == (status, code)
        assert answer.headers["connection"] == "close"
        assert "content-security-policy" in answer.headers


async def test_refused_client_that_continues_sending_gets_the_response(login, address):
    async with connect(address) as client:
        await client.ask("POST", SESSIONS, **JSON, Content_Length="20000000")
        for _ in range(20):
            await client.send(b"x" * 1_000_000)
        assert (await client.answer()).status == 401
        assert await client.ended() == b""


async def test_refused_client_is_drained_for_a_limited_time(login):
    admission = BodyAdmission(drain_s=0.1)
    async with serve(admission) as address, connect(address) as client:
        await client.ask("POST", SESSIONS, **JSON, Content_Length="20000000")
        assert (await client.answer()).status == 401
        assert await client.ended() == b""


async def test_number_of_drained_clients_is_limited(login):
    admission = BodyAdmission(max_anonymous=2, drain_s=600)
    async with serve(admission) as address, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(address)) for _ in range(3)]
        for client in clients:
            await client.ask("POST", SESSIONS, **JSON, Content_Length="20000000")
            assert (await client.answer()).status == 401
        assert await clients[2].ended() == b""
        for client in clients[:2]:
            await client.send(b"x" * 20_000_000)
            assert await client.ended() == b""


async def test_refused_client_with_expect_gets_no_100_continue(login, address):
    async with connect(address) as client:
        await client.ask("POST", SESSIONS, **JSON, Content_Length="20000000", Expect="100-continue")
        assert (await client.answer()).status == 401


async def test_expired_login_is_reported_without_reading_the_body(login, address):
    async with connect(address) as client:
        form = {"Content_Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
        await client.ask("POST", "/runs/start/1/", **form, Content_Length="2000000")
        answer = await client.answer()
    assert answer.status == 401
    assert b"your request was not carried out" in answer.body


async def test_login_that_ends_during_a_body_is_refused(login, address):
    mine = await cookie()
    body = state_of(LARGE)
    async with connect(address) as client:
        await client.ask("POST", SESSIONS, body[:-1], **JSON, **mine, Content_Length=str(LARGE))
        await set_password("another long password")
        await client.send(body[-1:])
        assert (await client.answer()).status == 401


async def test_authenticated_client_can_send_bodies(login, address):
    body = state_of(LARGE)
    async with connect(address) as client:
        for _ in range(2):  # on one connection
            await client.ask("POST", SESSIONS, body, **JSON, **await cookie(), Content_Length=str(LARGE))
            await _skip_answer(client)


async def _skip_answer(client: Connection) -> None:
    """Read an answer that comes in chunks."""
    async with asyncio.timeout(PATIENCE_S):
        head = await client.reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head.splitlines()[0]
        await client.reader.readuntil(b"\r\n0\r\n\r\n")


async def test_login_form_size_is_limited(login, address):
    form = {"Content_Type": "application/x-www-form-urlencoded"}
    async with connect(address) as client:
        await client.ask("POST", "/login/", **form, Content_Length=str(body_admission.MAX_LOGIN_FORM + 1))
        assert (await client.answer()).status == 413


async def test_number_of_concurrent_login_forms_is_limited(login):
    admission = BodyAdmission(max_anonymous=2)
    form = {"Content_Type": "application/x-www-form-urlencoded", "Content_Length": "100"}
    async with serve(admission) as address, AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(connect(address)) for _ in range(3)]
        for client in clients:
            await client.ask("POST", "/login/", **form)
        asking = [asyncio.create_task(client.answer()) for client in clients]
        [refused], waiting = await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED)
        assert (refused.result().status, len(waiting)) == (503, 2)
        for task in waiting:
            task.cancel()


@pytest.mark.parametrize("length", ["announced", "chunked"])
async def test_concurrent_bodies_share_a_quota(data, admission, address, length):
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(connect(address))
        if length == "announced":
            await first.ask("POST", SESSIONS, **JSON, Content_Length=str(LARGE))
        else:
            chunk = b"%x\r\n%s\r\n" % (LARGE - 1, b"x" * (LARGE - 1))
            await first.ask("POST", SESSIONS, chunk, **JSON, Transfer_Encoding="chunked")
        await _until(lambda: admission.quota._sum > admission.quota.total - 2 * body_limits.PARSED_FACTOR)

        second = await stack.enter_async_context(connect(address))
        await second.ask("POST", SESSIONS, state_of(LARGE), **JSON, Content_Length=str(LARGE))
        refused = await second.answer()
        assert (refused.status, refused.headers["retry-after"]) == (503, str(body_limits.RETRY_S))
        assert json.loads(refused.body)["code"] == "bodies_busy"

        third = await stack.enter_async_context(connect(address))
        await third.ask("POST", "/run", b"{}", **JSON, Content_Length="2")
        assert (await third.answer()).status == 422

    await _until(lambda: admission.quota._sum == 0)  # whoever goes away holds nothing
    async with connect(address) as fourth:
        await fourth.ask("POST", SESSIONS, state_of(LARGE), **JSON, Content_Length=str(LARGE))
        await _skip_answer(fourth)
    await _until(lambda: admission.quota._sum == 0)


async def _until(holds: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - nobody is told when a server lets go
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("admission", [{"grace_s": 0.2}], indirect=True, ids=["little time"])
async def test_slow_body_is_refused(data, admission, address):
    async with connect(address) as client:
        await client.ask("POST", SESSIONS, b"{", **JSON, Content_Length=str(LARGE))
        answer = await client.answer()
    assert (answer.status, json.loads(answer.body)["code"]) == (408, "body_timeout")
    await _until(lambda: admission.quota._sum == 0)


@pytest.mark.parametrize("admission", [{"grace_s": 0.2}], indirect=True, ids=["little time"])
async def test_slow_form_gets_an_error_page(data, admission, address):
    async with connect(address) as client:
        form = {"Content_Type": "application/x-www-form-urlencoded", "Accept": "text/html"}
        await client.ask("POST", "/runs/start/1/", b"a", **form, Content_Length="2000")
        answer = await client.answer()
    assert answer.status == 408
    assert answer.headers["content-type"].startswith("text/html")
    assert b"Request body too slow" in answer.body


@pytest.mark.parametrize("admission", [{"grace_s": 0.2, "min_rate": 10}], indirect=True, ids=["slow rate"])
async def test_steadily_sent_body_may_take_longer(data, admission, address):
    body = b"x" * 1000  # good for 100 s
    async with connect(address) as client:
        await client.ask("POST", "/run", body, **JSON, Content_Length=str(len(body) + 1))
        await asyncio.sleep(0.5)
        await client.send(b"x")
        assert (await client.answer()).status == 422
