"""A server with users."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.db import connection

from sessions_app.runs import runtime_client
from tests.accounts.forwarding_runtime import ForwardingRuntime
from tests.pages.conftest import agents_dir
from tests.store import finish_threads
from tests.web import over

__all__ = ["agents_dir"]

PASSWORD = "correct horse battery"
BROWSER = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}

ClientOf = Callable[..., Any]


@pytest.fixture
def people(transactional_db: None, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A user for each role, named after it, and nobody who has tried a password yet."""
    from devui.accounts import users
    from devui.accounts.models import AuditEntry
    from devui.web.login import throttling
    from sessions_app.roles import Role
    from sessions_app.store.database import append_only

    settings.DEVUI_USERS = True
    settings.DATA_DIR = tmp_path / "data"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    monkeypatch.setattr(throttling, "throttle", throttling.PasswordThrottle())
    append_only.drop_triggers(connection, AuditEntry._meta.db_table)  # or emptying the store would fail
    for role in Role:
        users.create_user(role.label, role, PASSWORD)
    yield
    finish_threads()


@pytest_asyncio.fixture
async def web() -> AsyncIterator[httpx.AsyncClient]:
    """A client that nobody has signed in with."""
    from devui.asgi import application

    async with over(application) as client:
        yield client


@pytest_asyncio.fixture
async def runner(web: httpx.AsyncClient) -> httpx.AsyncClient:
    """A browser in which the runner has signed in."""
    web.cookies.update(await sync_to_async(cookie_of)("runner"))
    web.headers.update(BROWSER)
    return web


async def sign_in(web: httpx.AsyncClient, name: str, password: str = PASSWORD, **data: str) -> httpx.Response:
    """Send the form of the sign-in page, as a browser does."""
    form = {"name": name, "password": password, **data}
    return await web.post("/login/", data=form, headers=BROWSER)


def cookie_of(name: str) -> dict[str, str]:
    """Return the cookies of a new login of a user, without the form."""
    from devui.accounts import logins, users

    return {logins.cookie_name(): logins.start_login(users.find_user(name))}


@pytest.fixture
def runtime() -> Iterator[ForwardingRuntime]:
    """The runtime of every app, which only records what it is asked."""
    fake = ForwardingRuntime()
    runtime_client.register(fake)
    yield fake
    runtime_client.register(None)
