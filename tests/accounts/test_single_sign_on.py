"""Single sign-on by OpenID Connect, with a provider on this machine."""

from __future__ import annotations

import asyncio
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.cookies import SimpleCookie
from threading import Barrier
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.db import connection
from joserfc.jwk import RSAKey
from starlette.responses import JSONResponse, Response

from devui.accounts import logins, users
from devui.accounts.models import AuditEntry, Login, OidcAccount
from devui.accounts.oidc import client, flow, linked_users
from devui.accounts.oidc.claims import OidcIdentity
from devui.config.single_sign_on import OidcProvider
from devui.web.login.throttling import MAX_ATTEMPTS
from sessions_app.roles import Role
from tests.accounts.conftest import PASSWORD, cookie_of, sign_in
from tests.accounts.oidc_provider import CLIENT_ID, CLIENT_SECRET, SmallProvider, key_of
from tests.pages.html import parse
from tests.patience import PATIENCE_S
from tests.web import serve

pytestmark = pytest.mark.usefixtures("people")

INSIDE = "/version"
FOREIGN = {"Accept": "text/html", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}


@pytest_asyncio.fixture
async def provider(settings):
    """A provider that the server uses; people without a user here become readers."""
    provider = SmallProvider()
    async with serve(provider.app) as address:
        provider.issuer = f"http://{address}"
        settings.DEVUI_OIDC = provider.settings
        yield provider


def test_simultaneous_first_sign_ins_of_a_person_share_a_user(monkeypatch):
    if connection.vendor == "sqlite":
        pytest.skip("SQLite runs transactions that write one after the other.")
    both, create_user = Barrier(2), users.create_user

    def create_together(*args: Any, **kwargs: Any) -> str:
        both.wait(PATIENCE_S)
        return create_user(*args, **kwargs)

    monkeypatch.setattr(users, "create_user", create_together)
    identity = OidcIdentity("https://provider", "1", "ann@example.com", None)

    def sign_in_once() -> str:
        try:
            return linked_users.sign_in_identity(SmallProvider().settings, identity).username
        finally:
            connection.close()

    with ThreadPoolExecutor(2) as pool:
        names = [signing.result() for signing in [pool.submit(sign_in_once) for _ in range(2)]]
    assert names == ["ann@example.com"] * 2
    assert OidcAccount.objects.count() == 1


async def begin(web: httpx.AsyncClient, next_path: str = "/") -> str:
    """Follow the link of the sign-in page and return the address to which the provider sends the browser back."""
    answer = await web.get("/login/sso/", params={"next": next_path})
    assert answer.status_code == 303, answer.text
    async with httpx.AsyncClient() as browser:
        return (await browser.get(answer.headers["location"])).headers["location"]


async def sign_on(web: httpx.AsyncClient, next_path: str = "/") -> httpx.Response:
    """Sign in at the provider and return."""
    return await web.get(await begin(web, next_path), headers=FOREIGN)


def failure_of(answer: httpx.Response) -> str:
    """Return the error on the sign-in page."""
    page = parse(answer.content)
    assert page.one("h1").text == "DevUI"
    assert page.one("input", id="name")
    return page.one("div", css="notice").text


async def entries() -> list[tuple[str, str, str]]:
    """Return user, action and outcome of the entries of the audit log."""
    return await sync_to_async(list)(
        AuditEntry.objects.order_by("pk").values_list("person", "action", "outcome")
    )


async def assert_nobody_signed_in(web: httpx.AsyncClient) -> None:
    """No login, user or link came into being, and the flow cannot go on."""
    assert not await sync_to_async(Login.objects.exists)()
    assert not await sync_to_async(OidcAccount.objects.exists)()
    assert await sync_to_async(User.objects.count)() == len(Role)
    assert (await web.get(INSIDE)).status_code == 401
    assert not web.cookies


async def test_sign_in_page_offers_the_provider(web, provider):
    page = parse((await web.get("/login/?next=/sessions/%3Fq%3Da%26b")).content)
    link = page.one("a", css="button")
    assert (link.text, link.attrs["href"]) == (
        "Sign in with Example",
        "/login/sso/?next=%2Fsessions%2F%3Fq%3Da%26b",
    )
    assert page.one("input", id="password")


async def test_without_a_provider_nothing_offers_it(web):
    page = parse((await web.get("/login/")).content)
    assert page.all("a") == []
    for path in ("/login/sso/", "/login/sso/callback/?state=a&code=b"):
        answer = await web.get(path, headers={"Accept": "application/json"})
        assert (answer.status_code, answer.json()["hint"]) == (
            404,
            "An admin can set it up: DEVUI_OIDC_ISSUER.",
        )


async def test_new_person_becomes_a_user_and_returns_to_the_page(web, provider):
    answer = await sign_on(web, "/sessions/?q=a")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sessions/?q=a")
    cookie, ended = map(SimpleCookie, answer.headers.get_list("set-cookie"))
    values = cookie[logins.cookie_name()]
    assert (values["httponly"], values["samesite"], values["path"]) == (True, "Strict", "/")
    assert ended[f"{logins.cookie_name()}-sso"].value == ""
    assert "form-action 'self'" in answer.headers["content-security-policy"]
    assert (await web.get(INSIDE)).status_code == 200
    user = await sync_to_async(users.find_user)("ann@example.com")
    assert not user.has_usable_password()
    assert await sync_to_async(list)(user.memberships.values_list("app", "role")) == [("", Role.READER)]
    assert await entries() == [("ann@example.com", "sign-in", "done")]
    account = parse((await web.get("/account/")).content)
    assert [heading.text for heading in account.all("h2")][:2] == ["Role", "Tokens"]


async def test_each_sign_in_begins_a_new_login(web, provider):
    first = (await sign_on(web)).cookies[logins.cookie_name()]
    web.cookies.clear()
    second = (await sign_on(web)).cookies[logins.cookie_name()]
    assert first != second
    assert await sync_to_async(OidcAccount.objects.count)() == 1


async def test_who_has_signed_in_needs_no_provider(web, provider):
    web.cookies.update(await sync_to_async(cookie_of)("runner"))
    callback = await begin_as_stranger(web)
    assert (await web.get("/login/sso/?next=/sessions/")).headers["location"] == "/sessions/"
    assert (await web.get(callback)).headers["location"] == "/"
    assert await sync_to_async(Login.objects.count)() == 1


async def begin_as_stranger(web: httpx.AsyncClient) -> str:
    """Begin a sign-in without the cookies of `web`."""
    from devui.asgi import application
    from tests.web import over

    async with over(application) as stranger:
        return await begin(stranger)


async def test_request_to_the_provider_has_pkce_state_and_nonce(web, provider):
    answer = await web.get("/login/sso/")
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    again = parse_qs(urlsplit((await web.get("/login/sso/")).headers["location"]).query)
    for name in ("state", "nonce", "code_challenge"):
        assert len(query[name][0]) >= 43
        assert query[name] != again[name]
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == ["http://127.0.0.1/login/sso/callback/"]
    cookie = SimpleCookie(answer.headers["set-cookie"])[f"{logins.cookie_name()}-sso"]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Lax", "/login/sso/callback/")
    assert CLIENT_SECRET not in answer.headers["set-cookie"]


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/", "/login/sso/", "\\\\evil"])
async def test_sign_in_redirects_only_to_own_pages(web, provider, target):
    assert (await sign_on(web, target)).headers["location"] == "/"


async def test_secret_is_sent_in_the_form_if_the_provider_asks_for_that(web, provider):
    provider.description = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    assert (await sign_on(web)).status_code == 303


async def test_existing_user_of_the_name_is_linked_and_keeps_the_role(web, provider):
    await sync_to_async(users.create_user)("ann@example.com", Role.ADMIN, PASSWORD)
    assert (await sign_on(web)).status_code == 303
    assert (await web.get("/audit/")).status_code == 200


async def test_linked_user_stays_the_same_when_the_provider_renames_them(web, provider):
    await sign_on(web)
    provider.claims["email"] = "ann.lee@example.com"
    web.cookies.clear()
    await sign_on(web)
    assert (await entries())[-1] == ("ann@example.com", "sign-in", "done")


async def test_another_account_of_the_same_name_is_refused_until_unlinked(web, provider):
    await sign_on(web)
    provider.claims["sub"] = "2"
    web.cookies.clear()
    answer = await sign_on(web)
    assert answer.status_code == 403
    assert "'ann@example.com' belongs to another account of the provider" in failure_of(answer)
    await sync_to_async(lambda: users.unlink_oidc_account(users.find_user("ann@example.com")))()
    assert (await sign_on(web)).status_code == 303


async def test_disabled_user_cannot_sign_in(web, provider):
    await sign_on(web)
    await sync_to_async(lambda: users.set_active(users.find_user("ann@example.com"), is_active=False))()
    assert (await web.get(INSIDE)).status_code == 401
    answer = await sign_on(web)
    assert (answer.status_code, failure_of(answer)) == (
        403,
        "The user ann@example.com is disabled. Ask an admin to enable it.",
    )
    assert (await web.get(INSIDE)).status_code == 401
    assert (await entries())[-1] == ("ann@example.com", "sign-in", "refused")


async def test_unknown_person_is_refused_without_a_default_role(web, provider, settings):
    settings.DEVUI_OIDC = replace(settings.DEVUI_OIDC, default_role="")
    answer = await sign_on(web)
    assert answer.status_code == 403
    assert "createuser ann@example.com --role reader" in failure_of(answer)
    await assert_nobody_signed_in(web)
    assert await entries() == [("ann@example.com", "sign-in", "refused")]


@pytest.mark.parametrize(
    ("groups", "role"),
    [(["devs", "admins"], Role.ADMIN), ("devs", Role.RUNNER), (["others"], Role.READER), (None, Role.READER)],
)
async def test_groups_give_the_role_at_each_sign_in(web, provider, settings, groups, role):
    settings.DEVUI_OIDC = replace(settings.DEVUI_OIDC, group_roles={"admins": "admin", "devs": "runner"})
    await sign_on(web)
    web.cookies.clear()
    provider.user_info = {"groups": groups}
    assert (await sign_on(web)).status_code == 303
    user = await sync_to_async(users.find_user)("ann@example.com")
    assert await sync_to_async(list)(user.memberships.values_list("app", "role")) == [("", role)]


async def test_person_without_a_group_is_refused_without_a_default_role(web, provider, settings):
    settings.DEVUI_OIDC = replace(settings.DEVUI_OIDC, group_roles={"devs": "runner"}, default_role="")
    provider.claims["groups"] = ["devs"]
    assert (await sign_on(web)).status_code == 303
    web.cookies.clear()
    provider.claims["groups"] = []
    answer = await sign_on(web)
    assert (answer.status_code, failure_of(answer)[:44]) == (
        403,
        "ann@example.com is in no group that may use ",
    )


async def test_only_admin_is_not_demoted_by_groups(web, provider, settings):
    settings.DEVUI_OIDC = replace(settings.DEVUI_OIDC, group_roles={"devs": "runner"}, name_claim="name")
    provider.claims["name"] = "admin"
    answer = await sign_on(web)
    assert "'admin' is the only admin." in failure_of(answer)
    await assert_nobody_signed_in(web)


@pytest.mark.parametrize(
    ("claims", "status", "message"),
    [
        ({"email_verified": False}, 403, "Example has not verified your email address."),
        ({"email_verified": None}, 403, "Example has not verified your email address."),
        ({"email": None}, 403, "Example did not send your email."),
        ({"email": "ann lee"}, 400, "'ann lee' is not a name for a user."),
        ({"email": "\uff52eader"}, 400, "'\uff52eader' is not a name for a user."),
        ({"email": "Reader"}, 409, "There is a user 'Reader' already."),
        ({"email": "ann\x00@example.com"}, 502, "The provider sent a name of the person that is not valid."),
        ({"email": "ann\n@example.com"}, 502, "The provider sent a name of the person that is not valid."),
        ({"email": "a" * 300}, 400, "is not a name for a user."),
        ({"sub": "1\x00"}, 502, "The provider sent an id of the person that is not valid."),
        ({"sub": 7}, 502, "The provider sent an "),
        ({"sub": None}, 502, "The provider sent an ID token that is not valid"),
    ],
)
async def test_person_without_a_proper_name_is_refused(web, provider, claims, status, message):
    provider.claims |= claims
    answer = await sign_on(web)
    assert answer.status_code == status
    assert message in failure_of(answer)
    await assert_nobody_signed_in(web)
    assert len(await entries()) == 1


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "another client"},
        {"aud": [CLIENT_ID, "other"], "azp": "other"},
        {"iss": "https://evil.example"},
        {"nonce": "another"},
        {"nonce": None},
        {"nonce": lambda nonce: [nonce]},
        {"iss": lambda issuer: [issuer]},
        {"exp": 1e308},
        {"exp": float("inf")},
        {"exp": int(time.time()) - 3_600},
        {"exp": None},
    ],
)
async def test_token_for_another_client_sign_in_or_time_is_refused(web, provider, claims):
    provider.id_token_claims = claims
    answer = await sign_on(web)
    assert answer.status_code == 502
    assert "The provider sent an ID token" in failure_of(answer)
    await assert_nobody_signed_in(web)
    assert await entries() == [("(no name)", "sign-in", "failed")]


async def test_token_with_another_signature_is_refused(web, provider):
    provider.signing_key = RSAKey.generate_key(2048, {"kid": provider.key.kid})
    answer = await sign_on(web)
    assert "The provider sent an ID token that is not valid: bad_signature" in failure_of(answer)
    await assert_nobody_signed_in(web)


async def test_key_may_change_between_sign_ins(web, provider):
    await sign_on(web)
    web.cookies.clear()
    provider.key = provider.signing_key = key_of("second")
    assert (await sign_on(web)).status_code == 303


@pytest.mark.parametrize(
    ("id_token", "user_info", "status"),
    [
        ({"email": None, "email_verified": True}, {"email_verified": False}, 403),
        ({"email": None, "email_verified": True}, {"email_verified": None}, 403),
        ({"email": None, "email_verified": False}, {"email_verified": True}, 303),
        ({"email_verified": None, "groups": None}, {"email_verified": True}, 403),
        ({"email_verified": True, "groups": None}, {"email_verified": False}, 303),
    ],
)
async def test_email_is_verified_by_whoever_states_it(web, provider, settings, id_token, user_info, status):
    settings.DEVUI_OIDC = replace(provider.settings, group_roles={"staff": "reader"})
    provider.claims |= {"groups": ["staff"]}
    provider.id_token_claims, provider.user_info = id_token, user_info
    assert (await sign_on(web)).status_code == status


@pytest.mark.parametrize(
    ("announces", "issuer", "status"),
    [
        (True, "", 502),
        (True, "https://evil.example", 502),
        (True, "own", 303),
        (False, "https://evil.example", 502),
        (False, "own", 303),
    ],
)
async def test_answer_of_another_provider_is_refused(web, provider, announces, issuer, status):
    provider.description = {"authorization_response_iss_parameter_supported": announces}
    provider.answer = {"iss": provider.issuer if issuer == "own" else issuer} if issuer else {}
    answer = await sign_on(web)
    assert answer.status_code == status
    if status == 502:
        assert "Another provider than Example answered." in failure_of(answer)
        await assert_nobody_signed_in(web)


async def test_user_info_of_another_person_is_refused(web, provider, settings):
    provider.id_token_claims = {"email": None}
    provider.user_info = {"sub": "2"}
    answer = await sign_on(web)
    assert failure_of(answer).startswith("The provider described another person than the one who signed in.")
    await assert_nobody_signed_in(web)


async def no_json(request):
    return Response("<html>")


async def wrong_shape(request):
    return JSONResponse([None])


async def nothing_inside(request):
    return JSONResponse({})


async def fails(request):
    return Response("oops", 500)


async def odd_keys(request):
    return JSONResponse({"keys": [None, 3]})


async def hangs(request):
    await asyncio.sleep(1)
    return Response()


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/token", "/jwks"])
@pytest.mark.parametrize("answer", [no_json, wrong_shape, nothing_inside, fails, odd_keys, hangs])
async def test_provider_that_answers_nonsense_signs_nobody_in(web, provider, monkeypatch, path, answer):
    callback = await begin(web)
    monkeypatch.setattr(client, "TIMEOUT_S", 0.3)
    provider.broken[path] = answer
    response = await web.get(callback, headers=FOREIGN)
    assert response.status_code == 502
    assert "provider" in failure_of(response) or provider.issuer in failure_of(response)
    assert "Traceback" not in response.text
    assert "http-equiv" not in response.text
    await assert_nobody_signed_in(web)


async def test_huge_answer_is_not_read(web, provider):
    async def answer(request):
        return Response(b" " * 3_000_000)

    provider.broken["/.well-known/openid-configuration"] = answer
    response = await web.get("/login/sso/", headers={"Accept": "text/html"})
    assert response.status_code == 502
    assert "answered more than 1,048,576 bytes" in failure_of(response)


@pytest.mark.parametrize("answer", [no_json, wrong_shape, nothing_inside, fails, hangs])
async def test_provider_that_does_not_describe_itself_is_named(web, provider, monkeypatch, answer):
    monkeypatch.setattr(client, "TIMEOUT_S", 0.3)
    provider.broken["/.well-known/openid-configuration"] = answer
    response = await web.get("/login/sso/", headers={"Accept": "text/html"})
    assert response.status_code == 502
    assert f"{provider.issuer}/.well-known/openid-configuration" in failure_of(response)
    assert not web.cookies


async def test_provider_that_cannot_be_reached_is_named(web, provider, settings):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        issuer = f"http://127.0.0.1:{closed.getsockname()[1]}"
    settings.DEVUI_OIDC = replace(settings.DEVUI_OIDC, issuer=issuer)
    response = await web.get("/login/sso/")
    assert (response.status_code, response.headers["cache-control"]) == (502, "no-store")
    assert f"{issuer}/.well-known/openid-configuration cannot be reached" in failure_of(response)


async def test_endpoint_without_tls_elsewhere_is_refused(web, provider):
    provider.description = {"authorization_endpoint": "http://elsewhere.example/authorize"}
    response = await web.get("/login/sso/")
    assert "no https:// address as its authorization_endpoint" in failure_of(response)


async def test_refusal_of_the_provider_is_shown(web, provider):
    callback = urlsplit(await begin(web))
    state = parse_qs(callback.query)["state"][0]
    query = {"state": state, "error": "access_denied", "error_description": "<b>No</b> entry"}
    response = await web.get(callback.path, params=query, headers=FOREIGN)
    assert (response.status_code, failure_of(response)) == (
        403,
        "Example refused the sign-in: <b>No</b> entry. Sign in again.",
    )
    await assert_nobody_signed_in(web)


@pytest.mark.parametrize(
    "fault", ["no cookie", "other state", "no state", "forged cookie", "too old", "other secret"]
)
async def test_return_without_the_own_flow_is_refused(web, provider, settings, monkeypatch, fault):
    callback = await begin(web)
    name = f"{logins.cookie_name()}-sso"
    value = web.cookies[name]
    if fault == "no cookie":
        web.cookies.clear()
    elif fault == "other state":
        callback = await begin_as_stranger(web)
    elif fault == "no state":
        callback = "/login/sso/callback/?code=a"
    elif fault == "forged cookie":
        web.cookies.clear()
        web.cookies.set(name, value[:-2] + "xx")
    elif fault == "too old":
        monkeypatch.setattr(flow, "AGE_S", -1)
    else:
        settings.DEVUI_OIDC = replace(settings.DEVUI_OIDC, client_secret="other")
    response = await web.get(callback, headers=FOREIGN)
    assert response.status_code == 403
    assert failure_of(response).startswith(
        "This sign-in has expired, or was begun in another browser or tab."
    )
    web.cookies.clear()
    await assert_nobody_signed_in(web)
    assert await entries() == []


async def test_callback_cannot_be_used_twice(web, provider):
    callback = await begin(web)
    await web.get(callback)
    web.cookies.delete(logins.cookie_name())
    assert "This sign-in has expired" in failure_of(await web.get(callback))


async def test_failed_returns_of_an_address_are_limited(web, provider):
    provider.broken["/token"] = fails
    for _ in range(MAX_ATTEMPTS):
        assert (await sign_on(web)).status_code == 502
    assert (await sign_on(web)).status_code == 429
    assert len(await entries()) == MAX_ATTEMPTS


async def test_password_still_signs_in(web, provider):
    assert (await sign_in(web, "admin")).status_code == 303


async def test_start_warns_of_a_provider_that_does_not_answer(provider, settings, caplog):
    await client.warn_about_faults(settings.DEVUI_OIDC)
    assert caplog.text == ""
    await client.warn_about_faults(replace(settings.DEVUI_OIDC, issuer=f"{provider.issuer}/realms/typo"))
    assert "Nobody can use single sign-on" in caplog.text
    assert "/realms/typo/.well-known/openid-configuration answered 404" in caplog.text


def test_secret_is_not_shown(settings):
    provider = OidcProvider("https://a.example", "id", CLIENT_SECRET, "", "", "", "", {}, "")
    assert CLIENT_SECRET not in repr(provider)
