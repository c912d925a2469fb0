"""Sign-on by the header of a trusted proxy."""

from __future__ import annotations

import pytest
from asgiref.sync import sync_to_async

from devui.accounts import owner, users
from devui.asgi import application
from devui.web.proxies import ForwardedClients
from tests.accounts.conftest import BROWSER, cookie_of
from tests.web import over

pytestmark = pytest.mark.usefixtures("people")

HEADER = "X-Forwarded-User"
INSIDE = "/version"


@pytest.fixture(autouse=True)
def header(settings) -> None:
    """The proxy at 127.0.0.1, whence these tests ask, may name users."""
    settings.DEVUI_USER_HEADER = HEADER


def behind(proxy: str):
    """Return a client whose address is a trusted proxy's if `proxy` is 127.0.0.1."""
    return over(ForwardedClients(application, [proxy]))


async def test_trusted_proxy_names_the_user_and_the_role_applies():
    async with behind("127.0.0.1") as web:
        assert (await web.get(INSIDE)).status_code == 401
        assert (await web.get(INSIDE, headers={HEADER: "reader"})).status_code == 200
        assert (await web.post("/run", json={}, headers={**BROWSER, HEADER: "reader"})).status_code == 403
        assert (await web.post("/run", json={}, headers={**BROWSER, HEADER: "runner"})).status_code == 422


async def test_proxy_cannot_name_the_owner():
    await sync_to_async(owner.set_password)("one long password")
    async with behind("127.0.0.1") as web:
        assert (await web.get(INSIDE, headers={HEADER: owner.OWNER})).status_code == 401


async def test_header_of_anybody_else_is_ignored():
    async with behind("10.0.0.1") as web:
        assert (await web.get(INSIDE, headers={HEADER: "admin"})).status_code == 401


@pytest.mark.parametrize("names", [["nobody"], ["Reader"], ["reader", "admin"], ["reader\x00"]])
async def test_unknown_or_ambiguous_user_is_refused(names):
    async with behind("127.0.0.1") as web:
        sent = [(HEADER, name) for name in names]
        assert (await web.get(INSIDE, headers=sent)).status_code == 401


async def test_other_spelling_of_the_header_is_ignored():
    async with behind("127.0.0.1") as web:
        assert (await web.get(INSIDE, headers={"X_Forwarded_User": "admin"})).status_code == 401


async def test_disabled_user_is_refused_despite_the_cookie_of_another():
    cookies = await sync_to_async(cookie_of)("admin")
    await sync_to_async(lambda: users.set_active(users.find_user("reader"), is_active=False))()
    async with behind("127.0.0.1") as web:
        web.cookies.update(cookies)
        assert (await web.get(INSIDE, headers={HEADER: "reader"})).status_code == 401
        assert (await web.get(INSIDE)).status_code == 200
