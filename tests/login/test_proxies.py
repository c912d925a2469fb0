"""Forwarded addresses count only from trusted proxies; each client behind one has its own attempts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from django.contrib.auth.hashers import PBKDF2SHA1PasswordHasher

from devui.accounts import owner
from devui.web.login.throttling import MAX_ATTEMPTS, client_network
from devui.web.proxies import ForwardedClients
from tests.login.conftest import PASSWORD
from tests.login.servers import serving
from tests.patience import PATIENCE_S
from tests.store import store_url


async def client_of(peer: str, trusted: list[str], *headers: tuple[str, str], kind: str = "http") -> Any:
    """Return whom an application sees, and by which scheme."""
    seen: dict[str, Any] = {}

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        seen.update(scope)

    raw_headers = [(name.encode(), value.encode()) for name, value in headers]
    scheme = {"http": "http", "websocket": "ws"}[kind]
    scope = {"type": kind, "client": (peer, 1), "scheme": scheme, "headers": raw_headers}
    await ForwardedClients(app, trusted)(scope, None, None)
    return seen["client"][0], seen["scheme"]


FOR = "x-forwarded-for"


@pytest.mark.parametrize(
    ("peer", "trusted", "forwarded", "client"),
    [
        ("127.0.0.1", [], "9.9.9.9", "127.0.0.1"),
        ("10.0.0.1", ["127.0.0.1"], "9.9.9.9", "10.0.0.1"),
        ("127.0.0.1", ["127.0.0.1"], "9.9.9.9", "9.9.9.9"),
        ("127.0.0.1", ["127.0.0.1"], "1.1.1.1, 9.9.9.9", "9.9.9.9"),
        ("10.0.0.1", ["10.0.0.0/8"], "1.1.1.1, 9.9.9.9, 10.0.0.2", "9.9.9.9"),
        ("10.0.0.1", ["10.0.0.0/8"], "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("127.0.0.1", ["127.0.0.1"], "9.9.9.9, garbage1", "127.0.0.1"),
        ("127.0.0.1", ["127.0.0.0/8"], "9.9.9.9, unknown, 127.0.0.2", "127.0.0.2"),
        ("127.0.0.1", ["127.0.0.1"], "", "127.0.0.1"),
        ("127.0.0.1", ["127.0.0.1"], "9.9.9.9:4711", "9.9.9.9"),
        ("127.0.0.1", ["127.0.0.1"], "[2001:db8::1]:4711", "2001:db8::1"),
        ("127.0.0.1", ["127.0.0.1"], "2001:db8::1", "2001:db8::1"),
        ("127.0.0.1", ["127.0.0.1"], "fe80::1%" + "a" * 100, "fe80::1"),
        ("127.0.0.1", ["127.0.0.1"], "9.9.9.9%eth0", "127.0.0.1"),
        ("::1", ["::1"], "::ffff:9.9.9.9", "9.9.9.9"),
        ("::ffff:127.0.0.1", ["127.0.0.1"], "9.9.9.9", "9.9.9.9"),
        ("a socket", ["127.0.0.1"], "9.9.9.9", "a socket"),
    ],
)
async def test_client_is_the_last_address_that_no_trusted_proxy_has(peer, trusted, forwarded, client):
    assert (await client_of(peer, trusted, (FOR, forwarded)))[0] == client


async def test_repeated_header_lines_form_one_list():
    assert (await client_of("::1", ["::1"], (FOR, "1.1.1.1"), (FOR, "9.9.9.9")))[0] == "9.9.9.9"


async def test_scheme_comes_from_trusted_proxy():
    proto = ("x-forwarded-proto", "https")
    assert (await client_of("::1", ["::1"], proto))[1] == "https"
    assert (await client_of("::1", ["::1"], proto, kind="websocket"))[1] == "wss"
    of_traefik = ("x-forwarded-proto", "wss")
    assert (await client_of("::1", ["::1"], of_traefik, kind="websocket"))[1] == "wss"
    assert (await client_of("::1", ["::1"], ("x-forwarded-proto", "gopher")))[1] == "http"
    assert (await client_of("::1", [], proto))[1] == "http"


@pytest.fixture
def folder(transactional_db: None, settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of a server, whose store has a login. Its hash takes no time."""
    settings.DATA_DIR = tmp_path
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.PBKDF2SHA1PasswordHasher"]
    monkeypatch.setattr(PBKDF2SHA1PasswordHasher, "iterations", 1)
    owner.set_password(PASSWORD)
    return tmp_path


def attempt(address: str, forwarded: str, password: str = "wrong horse battery") -> int:
    headers = {"X-Forwarded-For": forwarded, "Sec-Fetch-Site": "same-origin"}
    answer = httpx.post(
        f"http://{address}/login/",
        data={"password": password},
        headers=headers,
        timeout=PATIENCE_S,
        trust_env=False,
    )
    return answer.status_code


def test_rotating_the_forwarded_address_gives_no_more_tries(folder):
    with serving(folder, DATABASE_URL=store_url()) as address:
        tried = [attempt(address, f"{n}.9.9.9" if n % 2 else f"garbage{n}") for n in range(MAX_ATTEMPTS + 3)]
    assert tried == [422] * MAX_ATTEMPTS + [429] * 3


def test_visitor_behind_proxy_locks_out_nobody_else(folder):
    with serving(folder, DATABASE_URL=store_url(), DEVUI_TRUSTED_PROXIES="127.0.0.1, 10.0.0.0/8") as address:
        tried = [attempt(address, f"{n}.1.1.1, 9.9.9.9, 10.0.0.7") for n in range(MAX_ATTEMPTS + 1)]
        assert tried == [422] * MAX_ATTEMPTS + [429]
        assert attempt(address, "8.8.8.8", PASSWORD) == 303
        assert attempt(address, "9.9.9.9", PASSWORD) == 429


async def test_ipv6_network_behind_proxy_is_one_visitor():
    addresses = [
        (await client_of("::1", ["::1"], (FOR, address)))[0] for address in ("2001:db8::1", "2001:db8::2:1")
    ]
    assert len({client_network(address) for address in addresses}) == 1
