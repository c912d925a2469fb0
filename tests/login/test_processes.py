"""Logins are shared by the web processes of a store, also their ends."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
import websockets
from django.test import override_settings

from devui.accounts import logins, owner
from sessions_app.store.models import AgentSession
from tests.login.conftest import PASSWORD, new_cookie, set_password
from tests.login.servers import serving
from tests.patience import PATIENCE_S
from tests.store import store_url

FORM = {"Sec-Fetch-Site": "same-origin"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder that the processes share."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture(scope="module")
def addresses(folder: Path, module_store: None) -> Iterator[tuple[str, str]]:
    """Two web processes."""
    with ExitStack() as stack:
        one, other = (stack.enter_context(serving(folder, DATABASE_URL=store_url())) for _ in range(2))
        yield one, other


@pytest.fixture(autouse=True)
def login(folder: Path, module_store: None) -> Iterator[None]:
    """A new login, which no test has ended."""
    hashers = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    with override_settings(DATA_DIR=folder, PASSWORD_HASHERS=hashers):
        owner.remove_owner()
        owner.set_password(PASSWORD)
        yield


@pytest.fixture
def clients(addresses: tuple[str, str], login: None) -> Iterator[list[httpx.Client]]:
    """One browser, as each process meets it: signed in at the first, with the same cookie at the second."""
    with ExitStack() as stack:
        http_clients = [
            stack.enter_context(
                httpx.Client(base_url=f"http://{address}", timeout=PATIENCE_S, trust_env=False)
            )
            for address in addresses
        ]
        name, _, value = new_cookie().partition("=")
        for client in http_clients:
            client.cookies.set(name, value)
            assert status(client) == 200
        yield http_clients


def status(client: httpx.Client) -> int:
    return client.get("/version").status_code


@pytest.mark.parametrize("here", [0, 1])
def test_logout_holds_at_the_other_process_at_once(clients, here):
    copies = dict(clients[here].cookies)
    assert clients[here].post("/logout/", headers=FORM).status_code == 303
    for client in clients:
        client.cookies.update(copies)
        assert status(client) == 401


def test_two_logouts_at_two_processes_at_once_both_hold(clients, addresses):
    """Nobody writes over what another process has written."""
    others = [new_cookie() for _ in range(20)]

    async def sign_out() -> None:
        async with httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False) as client:
            answers = await asyncio.gather(
                *(
                    client.post(
                        f"http://{addresses[n % 2]}/logout/",
                        headers={**FORM, "Cookie": cookie},
                    )
                    for n, cookie in enumerate(others)
                )
            )
        assert {answer.status_code for answer in answers} == {303}

    asyncio.run(sign_out())
    for client in clients:
        for cookie in others:
            client.cookies.set(*cookie.split("="))
            assert status(client) == 401


def test_new_password_ends_the_logins_of_every_process(clients):
    owner.set_password("another long password")
    assert [status(client) for client in clients] == [401, 401]


def test_new_token_revokes_the_old_one_in_every_process(clients):
    for client in clients:
        client.cookies.clear()
    old = owner.replace_token()
    for _ in range(20):
        new = owner.replace_token()
        for client in clients:
            for token, expected in ((new, 200), (old, 401)):
                client.headers["Authorization"] = f"Bearer {token}"
                assert status(client) == expected
        old = new


def test_removed_login_stays_invalid_after_a_new_one(clients):
    owner.remove_owner()
    assert [status(client) for client in clients] == [200, 200]
    owner.set_password(PASSWORD)
    assert [status(client) for client in clients] == [401, 401]


@pytest.mark.parametrize("end", ["logout", "password"])
def test_silent_socket_of_an_ended_login_is_closed_in_every_process(clients, addresses, end):
    cookie = clients[0].cookies[logins.cookie_name()]
    assert clients[0].post("/apps/weather/users/ann/sessions", json={}).status_code == 200
    path = f"/ws/sessions/{AgentSession.objects.latest('pk').pk}/?after=0"

    async def end_while_open() -> None:
        async with (
            _open_socket(addresses[0], path, cookie) as first,
            _open_socket(addresses[1], path, cookie) as second,
        ):
            if end == "logout":
                await asyncio.to_thread(clients[0].post, "/logout/", headers=FORM)
            else:
                await set_password("another long password")
            for socket in (first, second):
                async with asyncio.timeout(PATIENCE_S):
                    await socket.wait_closed()
                assert (socket.close_code, socket.close_reason) == (1008, "The login has ended.")

    asyncio.run(end_while_open())


def _open_socket(address: str, path: str, cookie: str) -> websockets.connect:
    headers = {"Cookie": f"{logins.cookie_name()}={cookie}", "Origin": f"http://{address}"}
    return websockets.connect(f"ws://{address}{path}", additional_headers=headers, proxy=None)
