"""A server with a login."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from devui.accounts import logins, owner
from devui.web.login import throttling
from tests.pages.conftest import agents_dir
from tests.store import finish_threads
from tests.web import over

__all__ = ["agents_dir"]

PASSWORD = "correct horse battery"


@pytest.fixture
def data(transactional_db: None, settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder of the test's own, hashing that takes no time, and nobody who has tried a password yet."""
    settings.DATA_DIR = tmp_path / "data"
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    monkeypatch.setattr(throttling, "throttle", throttling.PasswordThrottle())
    yield tmp_path / "data"
    finish_threads()


@pytest.fixture
def login(data: Path) -> None:
    """A login whose password is `PASSWORD`."""
    owner.set_password(PASSWORD)


@pytest_asyncio.fixture
async def web() -> AsyncIterator[httpx.AsyncClient]:
    """A client of DevUI."""
    from devui.asgi import application

    async with over(application) as client:
        yield client


async def sign_in(web: httpx.AsyncClient, password: str = PASSWORD, **data: str) -> httpx.Response:
    """Send the form, as a browser does."""
    headers = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    return await web.post("/login/", data={"password": password, **data}, headers=headers)


def new_cookie() -> str:
    """Return the cookie of a new login, without the form."""
    return f"{logins.cookie_name()}={logins.start_login(User.objects.get(username=owner.OWNER))}"


set_password = sync_to_async(owner.set_password)
replace_token = sync_to_async(owner.replace_token)
