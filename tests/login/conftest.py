"""A server with a login."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from devui.web.login import credentials_file, views
from devui.web.login.credentials_file import Credentials
from devui.web.login.throttling import PasswordThrottle
from tests.pages.conftest import agents_dir
from tests.web import over

__all__ = ["agents_dir"]

PASSWORD = "correct horse battery"


@pytest.fixture
def data(settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder of the test's own, hashing that takes no time, and nobody who has tried a password yet."""
    settings.DATA_DIR = tmp_path / "data"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    monkeypatch.setattr(views, "throttle", PasswordThrottle())
    return tmp_path / "data"


@pytest.fixture
def login(data: Path) -> Credentials:
    """A login whose password is `PASSWORD`."""
    credentials_file.set_password(PASSWORD)
    stored_login = credentials_file.read_credentials()
    assert stored_login
    return stored_login


@pytest_asyncio.fixture
async def web() -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI that asks for nothing that is in the store."""
    from devui.asgi import application

    async with over(application) as client:
        yield client


async def sign_in(web: httpx.AsyncClient, password: str = PASSWORD, **data: str) -> httpx.Response:
    """Send the form, as a browser does."""
    headers = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    return await web.post("/login/", data={"password": password, **data}, headers=headers)
