"""Every address requires the login once it is set up."""

from __future__ import annotations

import asyncio
import time
from html import unescape
from unittest.mock import Mock

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import InterfaceError
from django.http import HttpRequest, HttpResponse
from django.templatetags.static import static
from django.test import AsyncRequestFactory

from devui import monitoring
from devui.accounts import logins, personal_tokens, users
from devui.accounts.guard import RequestGuard
from devui.accounts.models import AuditEntry, Login
from devui.accounts.urls import urlpatterns as account_urls
from devui.web.login import sockets, unauthenticated
from sessions_app.roles import Role
from sessions_app.store.database import units_of_work
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.login.conftest import PASSWORD, replace_token, set_password, sign_in
from tests.login.probes import check_probes
from tests.pages.html import parse
from tests.patience import PATIENCE_S
from tests.security.routes import addresses, fill_route
from tests.settable_clock import Clock

EVIL = "http://evil.example"
INSIDE = "/version"
OPEN = {"/login/", "/login/sso/", "/login/sso/callback/"}
PROBES = {"/health", "/ready"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def test_login_is_not_required_until_set_up(web, data):
    assert (await web.get(INSIDE)).status_code == 200
    assert (await web.get("/login/")).status_code == 404
    assert "no-store" not in (await web.get(INSIDE)).headers.get("cache-control", "")


async def test_every_address_requires_the_login(web, login):
    for address in set(addresses()) - OPEN:
        for method in ("POST", "DELETE") if address in PROBES else ("GET", "POST", "DELETE"):
            answer = await web.request(method, address, headers={"Accept": "application/json"})
            assert answer.status_code == 401, (method, address)
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert answer.json()["code"] == "login_required"


async def test_probe_without_login_learns_only_whether_the_server_works(web, login, monkeypatch):
    monkeypatch.setattr(monitoring, "require_current_schema", lambda: None)
    await check_probes(web, monkeypatch)
    own = await web.get("/ready", headers=bearer(await replace_token()))
    assert (own.status_code, own.json()["code"]) == (503, "store_unavailable")
    assert (await web.get("/health", headers={"Host": "evil.example"})).status_code == 403
    assert (await web.get("/metrics", headers={"Accept": "text/plain"})).status_code == 401


@pytest.mark.parametrize(
    "path",
    [
        "/list-apps",
        "/run_sse",
        "/health",
        "/version",
        "/apps/weather/users/ann/sessions",
        "/dev/apps",
    ],
)
async def test_programs_get_401_for_any_accept_header(web, login, path):
    answer = await web.post(path, json={})
    assert (answer.status_code, answer.json()["detail"]) == (401, "Login required")


@pytest.mark.parametrize(
    "path",
    [
        "/static/devui/js/core/app.js",
        "/static/devui/css/session/session.css",
        "/static/ninja/swagger-ui-init.js",
        "/dev-ui/",
    ],
)
async def test_files_and_adk_front_end_require_the_login(web, login, path):
    assert (await web.get(path, headers={"Sec-Fetch-Mode": "no-cors"})).status_code == 401


async def test_files_of_the_login_page_are_public(web, login):
    page = await web.get("/login/")
    tree = parse(page.content)
    addresses = [link.attrs["href"] for link in tree.all("link")] + [
        script.attrs["src"] for script in tree.all("script")
    ]
    icons = [use.attrs["href"].partition("#")[0] for use in tree.all("use")]
    assert {*addresses, *icons} == {static(f"devui/{name}") for name in unauthenticated.PUBLIC_FILES}
    for path in addresses:
        assert (await web.get(path)).status_code == 200, path


@pytest.mark.parametrize(
    "path",
    [
        "/static/devui/js/core/boot.js/../app.js",
        "/static/devui/js/core/%62oot.js/../app.js",
        "/login/../sessions/",
        "//login/",
    ],
)
async def test_spelling_of_a_public_address_opens_no_other(web, login, path):
    assert (await web.get(path, headers={"Accept": "application/json"})).status_code in {401, 404}
    assert "sessions" not in (await web.get(path)).text


async def test_browser_is_redirected_to_login_and_back(web, login):
    refused = await web.get("/sessions/?q=a b&app=ü", headers={"Accept": "text/html"})
    assert refused.status_code == 303
    where = refused.headers["location"]
    page = parse((await web.get(where)).content)
    assert page.one("input", name="next").attrs["value"] == "/sessions/?q=a%20b&app=%C3%BC"
    welcomed = await sign_in(web, next=page.one("input", name="next").attrs["value"])
    assert (welcomed.status_code, welcomed.headers["location"]) == (303, "/sessions/?q=a%20b&app=%C3%BC")
    assert (await web.get(INSIDE)).status_code == 200


async def test_cookie_is_host_only_and_http_only(web, login):
    cookie_header = (await sign_in(web)).headers["set-cookie"]
    assert cookie_header.startswith(f"{logins.cookie_name()}=")
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie_header.split(";")}
    assert "Secure" not in cookie_header
    behind_tls = await web.post(
        "/login/", data={"password": PASSWORD}, headers={"Origin": "https://127.0.0.1"}
    )
    assert behind_tls.status_code == 403  # the proxy's origin is not allowed yet


async def test_cookie_is_secure_behind_a_tls_proxy(web, login, settings):
    settings.DEVUI_ALLOW_ORIGINS = ["https://devui.example"]
    response = await web.post(
        "/login/", data={"password": PASSWORD}, headers={"Origin": "https://devui.example"}
    )
    assert "Secure" in response.headers["set-cookie"]


@pytest.mark.parametrize(
    "value", ["", "wrong horse battery", PASSWORD.upper(), PASSWORD + " ", "x" * 100_000, "\x00"]
)
async def test_wrong_password_is_shown_at_its_field(web, login, value):
    answer = await sign_in(web, value)
    assert answer.status_code == 422
    assert "set-cookie" not in answer.headers
    page = parse(answer.content)
    assert page.one("input", id="password").attrs["aria-invalid"] == "true"
    assert page.one("p", css="errorlist").text == "Wrong password."
    assert (await web.get(INSIDE)).status_code == 401


@pytest.mark.parametrize(
    "elsewhere",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example/",
        "\\\\evil.example",
        "///evil.example",
        "/\t/evil.example",
        "http:evil.example",
        "javascript:alert(1)",
        "evil.example",
        " //evil.example",
        "/login/?next=/login/",
        "/logout/",
        "/logout",
        "/logout/?again=1",
        "/sessions/../logout/",
        "/%6cogout/",
        "",
    ],
)
async def test_login_redirects_only_to_own_pages(web, login, elsewhere):
    assert (await sign_in(web, next=elsewhere)).headers["location"] == "/"
    inside = await web.get("/login/", params={"next": elsewhere})
    assert (inside.status_code, inside.headers["location"]) == (303, "/")


@pytest.mark.parametrize("length", [3_000, 40_000])
async def test_login_from_a_long_address_leads_to_the_home_page(web, login, length):
    answer = await web.get("/sessions/", params={"q": "a" * length}, headers={"Sec-Fetch-Mode": "navigate"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login/")


async def test_next_page_is_escaped(web, login):
    page = await web.get(
        "/login/", params={"next": '/"><script>alert(1)</script>'}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert "<script>alert" not in page.text


async def test_other_sites_cannot_sign_in_or_out(web, login):
    for headers in ({"Origin": EVIL}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        assert (await web.post("/login/", data={"password": PASSWORD}, headers=headers)).status_code == 403
    await sign_in(web)
    assert (await web.post("/logout/", headers={"Origin": EVIL})).status_code == 403
    assert (await web.get("/logout/")).status_code == 405
    assert (await web.get(INSIDE)).status_code == 200


async def test_host_and_origin_are_checked_with_a_login(web, login):
    await sign_in(web)
    assert (await web.get("/", headers={"Host": "evil.example"})).status_code == 403
    assert (await web.get("/", headers={"Origin": EVIL})).status_code == 403
    assert (await web.post("/run", headers={"Sec-Fetch-Site": "same-site"})).status_code == 403


async def test_request_from_another_site_is_repeated_with_the_cookie(web, login):
    """A strict cookie is not sent with the first request, such as one that a provider of identities redirects."""
    arrives = {"Sec-Fetch-Site": "cross-site"}
    page = parse((await web.get("/login/?next=/runs/signed-in/%3Fcode=1", headers=arrives)).content)
    [again] = [meta for meta in page.all("meta") if meta.attrs.get("http-equiv") == "refresh"]
    assert again.attrs["content"] == "0; url=/runs/signed-in/?code=1"
    page = parse((await web.get("/login/?next=/", headers={"Sec-Fetch-Site": "same-origin"})).content)
    assert not [meta for meta in page.all("meta") if meta.attrs.get("http-equiv") == "refresh"]


async def test_logout_invalidates_copies_of_the_cookie(web, login):
    copied = (await sign_in(web)).cookies[logins.cookie_name()]
    out = await web.post("/logout/", headers={"Origin": "http://127.0.0.1"})
    assert (out.status_code, out.headers["location"]) == (303, "/login/")
    web.cookies.set(logins.cookie_name(), copied)
    assert (await web.get(INSIDE)).status_code == 401


async def test_expired_logins_are_removed_at_the_next_sign_in(web, login):
    await sign_in(web)
    await sync_to_async(Login.objects.update)(expires_at=time.time() - 1)
    web.cookies.clear()
    await sign_in(web)
    assert await sync_to_async(Login.objects.count)() == 1


async def test_new_password_ends_all_logins_but_not_the_token(web, login):
    token = await replace_token()
    await sign_in(web)
    await set_password("another long password")
    assert (await web.get(INSIDE)).status_code == 401
    assert (await web.get(INSIDE, headers=bearer(token))).status_code == 200


async def test_waiting_request_ends_with_its_token(login, monkeypatch):
    monkeypatch.setattr(sockets, "RECHECK_S", 0.05)
    waits = asyncio.Event()

    async def wait(request: HttpRequest) -> HttpResponse:
        waits.set()
        return await asyncio.Future()

    token = await replace_token()
    request = AsyncRequestFactory().get("/run", headers=bearer(token))
    answering = asyncio.create_task(RequestGuard(wait)(request))
    await waits.wait()
    await replace_token()
    assert (await asyncio.wait_for(answering, PATIENCE_S)).status_code == 403


async def test_login_expires(web, login, monkeypatch, tmp_path):
    await sign_in(web)
    Clock(monkeypatch, tmp_path / "shift").step(logins.AGE_S + 1)
    assert (await web.get(INSIDE)).status_code == 401


@pytest.mark.parametrize("value", ["", "x", "::", "a:b:c", "é", "x" * 10_000, "1:zzzzzz:" + "A" * 43])
async def test_forged_cookie_is_refused(web, login, value):
    cookie = f"{logins.cookie_name()}={value}".encode()
    assert (await web.get(INSIDE, headers={"Cookie": cookie})).status_code == 401


async def test_token_authenticates_programs(web, login):
    token = await replace_token()
    assert (await web.get(INSIDE, headers=bearer(token))).status_code == 200
    assert (await web.get(INSIDE, headers={"Authorization": f"bearer   {token} "})).status_code == 200
    assert (await web.post("/run", json={}, headers=bearer(token))).status_code == 422


@pytest.mark.parametrize("wrong", ["", "devui_", PASSWORD, "x" * 5000, "é"])
async def test_wrong_token_is_refused(web, login, wrong):
    token = await replace_token()
    for header in (f"Bearer {wrong}", f"Basic {token}", token, f"Bearer {token}x", f"Bearer {token[:-1]}"):
        answer = await web.get(INSIDE, headers={"Authorization": header.encode()})
        assert answer.status_code == 401, header


async def test_empty_token_is_refused_if_none_is_set(web, login):
    assert (await web.get(INSIDE, headers={"Authorization": "Bearer "})).status_code == 401


async def test_htmx_request_without_login_gets_json(web, login):
    answer = await web.get("/sessions/", headers={"HX-Request": "true", "Accept": "text/html"})
    assert (answer.status_code, answer.json()["detail"]) == (401, "Login required")


async def test_form_after_the_login_ended_has_no_effect(web, login):
    answer = await web.post("/runs/start/1/", data={"message": "Hi"}, headers={"Accept": "text/html"})
    assert answer.status_code == 401
    assert "your request was not carried out" in answer.text


async def test_authenticated_responses_are_not_cached(web, login):
    await sign_in(web)
    answer = await web.get(INSIDE)
    assert answer.headers["cache-control"] == "no-store"
    assert "Cookie" in answer.headers["vary"]


@pytest.mark.usefixtures("transactional_db", "agents_dir")
async def test_pages_offer_logout_after_login(web, login):
    await sign_in(web)
    page = parse((await web.get("/sessions/")).content)
    assert page.one("form", action="/logout/").attrs["method"] == "post"


async def test_allowed_origin_gets_preflight_and_uses_the_token(web, login, settings):
    settings.DEVUI_ALLOW_ORIGINS = ["https://ui.example"]
    ask = {"Origin": "https://ui.example", "Access-Control-Request-Method": "GET"}
    assert (await web.options(INSIDE, headers=ask)).status_code == 200
    refused = await web.get(INSIDE, headers={"Origin": "https://ui.example"})
    assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (
        401,
        "https://ui.example",
    )


async def test_store_that_does_not_answer_opens_nothing(web, login, monkeypatch):
    assert (await sign_in(web)).status_code == 303
    monkeypatch.setattr(User.objects, "filter", Mock(side_effect=InterfaceError("secret")))
    assert (await web.get("/health")).status_code == 200
    monkeypatch.setattr(Login.objects, "select_related", Mock(side_effect=InterfaceError("secret")))
    answer = await web.get(INSIDE)
    assert (answer.status_code, "secret" in answer.text) == (503, False)
    web.cookies.clear()
    assert (await web.get(INSIDE)).status_code == 401


async def test_open_server_needs_no_store_to_stay_open(web, data, monkeypatch):
    assert (await web.get(INSIDE)).status_code == 200
    monkeypatch.setattr(User.objects, "filter", Mock(side_effect=InterfaceError("secret")))
    assert (await web.get(INSIDE)).status_code == 200


@pytest.mark.parametrize("is_set_up", [True, False])
async def test_addresses_of_users_do_not_exist(web, data, is_set_up):
    if is_set_up:
        await set_password(PASSWORD)
        await sign_in(web)
    patterns = [str(route.pattern) for route in account_urls if not str(route.pattern).startswith("log")]
    assert len(patterns) > 10
    for route in [*patterns, "api/v1/tokens", "api/v1/tokens/1", "api/v1/quotas", "api/v1/quotas/mine"]:
        assert (await web.get("/" + fill_route(route))).status_code == 404, route


async def test_user_of_a_server_with_users_cannot_sign_in(web, login):
    await sync_to_async(users.create_user)("ann", Role.ADMIN, "another long password")
    user = await sync_to_async(users.find_user)("ann")
    secret, _ = await sync_to_async(personal_tokens.create_token)(user, "ci", Role.ADMIN, None)
    assert (await web.get(INSIDE, headers=bearer(secret))).status_code == 401
    assert (await sign_in(web, "another long password", name="ann")).status_code == 422
    web.cookies.set(logins.cookie_name(), await sync_to_async(logins.start_login)(user))
    assert (await web.get(INSIDE)).status_code == 401


async def test_nothing_is_written_to_the_audit_log(web, login):
    await sign_in(web, "wrong")
    await sign_in(web)
    await web.post("/sessions/new/", headers={"Sec-Fetch-Site": "same-origin"})
    await web.post("/logout/")
    assert not await sync_to_async(AuditEntry.objects.exists)()


async def test_network_server_without_login_refuses_everyone(web, data, settings):
    settings.DEVUI_LOGIN_REQUIRED = True
    answer = await web.get(INSIDE)
    assert (answer.status_code, answer.json()["code"]) == (503, "login_missing")
    assert (await web.get("/login/", headers={"Accept": "text/html"})).status_code == 503


@pytest.mark.usefixtures("transactional_db")
async def test_a_call_for_other_programs_takes_the_token_from_the_environment(web, login):
    session = await units_of_work.write(writes.create_session, SessionKey("", "weather", "ann", "s1"))
    await sign_in(web)
    headers = {"Origin": "http://127.0.0.1", "Sec-Fetch-Site": "same-origin"}
    response = await web.post(f"/runs/call/{session.pk}/", data={"message": "hi"}, headers=headers)
    units_of_work.close_pools()
    assert response.status_code == 200
    assert "Authorization: Bearer $DEVUI_TOKEN" in unescape(response.text)
    assert "os.environ['DEVUI_TOKEN']" in unescape(response.text)
