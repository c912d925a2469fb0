"""Signing in and out, and what ends a login."""

from __future__ import annotations

import time
from http.cookies import SimpleCookie

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User

from devui.accounts import logins, owner, personal_tokens, persons, users
from devui.accounts.models import Login
from devui.web.login import throttling
from devui.web.login.throttling import MAX_ATTEMPTS
from sessions_app.roles import Role
from sessions_app.store.errors import StoreUnavailable
from tests.accounts.conftest import BROWSER, PASSWORD, cookie_of, sign_in
from tests.login.probes import check_probes
from tests.pages.html import parse

pytestmark = pytest.mark.usefixtures("people")

INSIDE = "/version"


async def test_every_page_needs_a_user(web):
    browser = await web.get("/sessions/?q=a", headers={"Accept": "text/html"})
    assert (browser.status_code, browser.headers["location"]) == (303, "/login/?next=%2Fsessions%2F%3Fq%3Da")
    program = await web.get(INSIDE)
    assert (program.status_code, program.json()["code"]) == (401, "login_required")


async def test_probe_without_login_learns_only_whether_the_server_works(web, monkeypatch):
    await check_probes(web, monkeypatch)
    web.cookies.update(await sync_to_async(cookie_of)("reader"))
    own = await web.get("/ready")
    assert (own.status_code, own.json()["code"]) == (503, "store_unavailable")
    web.cookies.clear()
    assert (await web.get("/metrics", headers={"Sec-Fetch-Mode": "cors"})).status_code == 401
    assert (await web.post("/health")).status_code == 401


@pytest.mark.parametrize("path", ["/ready", "/health", "/", "/api/v1/runs"])
async def test_fault_of_the_store_is_not_described_to_strangers(web, monkeypatch, path):
    def fail(text: str) -> None:
        raise StoreUnavailable("The store 'secret' does not answer.", hint="Start it.")

    monkeypatch.setattr(persons, "_find_by_token", fail)
    answer = await web.get(path, headers={"Authorization": "Bearer x"})
    assert answer.status_code == 503
    assert "secret" not in answer.text


async def test_form_sent_after_the_login_ended_gets_the_form_for_users(web):
    headers = {**BROWSER, "Referer": "http://127.0.0.1/sessions/?q=a"}
    answer = await web.post("/sessions/new/", headers=headers)
    page = parse(answer.content)
    assert answer.status_code == 401
    assert page.one("input", id="name")
    assert page.one("input", name="next").attrs["value"] == "/sessions/?q=a"
    assert page.one("div", css="notice").text == (
        "Your login has ended, and your request was not carried out. Sign in and send it again."
    )
    assert "changeuser NAME --password" in page.one("p", css="hint").text


async def test_sign_in_sets_a_cookie_and_returns_to_the_page(web):
    answer = await sign_in(web, "reader", next="/sessions/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/sessions/")
    cookie = SimpleCookie(answer.headers["set-cookie"])[logins.cookie_name()]
    assert (cookie["httponly"], cookie["samesite"], cookie["path"]) == (True, "Strict", "/")
    inside = await web.get(INSIDE)
    assert (inside.status_code, inside.headers["cache-control"]) == (200, "no-store")
    assert (await web.get("/login/")).headers["location"] == "/"


async def test_stored_login_does_not_hold_the_cookie(web):
    answer = await sign_in(web, "reader")
    value = answer.cookies[logins.cookie_name()]
    [login] = await sync_to_async(list)(Login.objects.all())
    assert value not in (login.digest, login.password_mark)


@pytest.mark.parametrize(
    ("name", "password"), [("reader", "wrong"), ("nobody", PASSWORD), ("", ""), ("reader", "\x00")]
)
async def test_wrong_name_or_password_says_the_same(web, name, password):
    answer = await sign_in(web, name, password)
    page = parse(answer.content)
    assert answer.status_code == 422
    assert page.one("p", css="errorlist").text == "Wrong name or password."
    assert page.one("input", id="name").attrs.get("value", "") == name
    assert (await web.get(INSIDE)).status_code == 401


async def test_attempts_on_a_user_are_limited_over_all_addresses(web, monkeypatch):
    monkeypatch.setattr(throttling, "MAX_ATTEMPTS", 100)
    for _ in range(throttling.MAX_USER_ATTEMPTS):
        assert (await sign_in(web, "reader", "wrong")).status_code == 422
    throttling.throttle.forget("127.0.0.1")
    refused = await sign_in(web, "reader")
    assert refused.status_code == 429
    assert "20 attempts to sign in as reader were made within 60 s." in refused.text
    assert (await sign_in(web, "runner")).status_code == 303


async def test_attempts_of_an_address_are_limited_over_all_names(web):
    for number in range(MAX_ATTEMPTS):
        assert (await sign_in(web, f"name{number}", "wrong")).status_code == 422
    assert (await sign_in(web, "reader")).status_code == 429


async def test_sign_out_invalidates_copies_of_the_cookie(web):
    copied = (await sign_in(web, "reader")).cookies[logins.cookie_name()]
    assert (await web.post("/logout/", headers=BROWSER)).headers["location"] == "/login/"
    web.cookies.set(logins.cookie_name(), copied)
    assert (await web.get(INSIDE)).status_code == 401


@pytest.mark.parametrize("end", ["password", "django", "disabled", "deleted", "expired"])
async def test_login_ends_at_once(web, end):
    await sign_in(web, "reader")
    await sync_to_async(_end)(end)
    assert (await web.get(INSIDE)).status_code == 401


def _end(how: str) -> None:
    user = users.find_user("reader")
    if how == "password":
        users.set_password(user, "another long password")
    elif how == "django":  # such as its command `changepassword`
        user.set_password("another long password")
        user.save()
    elif how == "disabled":
        users.set_active(user, is_active=False)
    elif how == "deleted":
        user.delete()
    else:
        Login.objects.update(expires_at=time.time() - 1)


async def test_disabled_user_cannot_sign_in(web):
    await sync_to_async(lambda: users.set_active(users.find_user("reader"), is_active=False))()
    assert (await sign_in(web, "reader")).status_code == 422


async def test_new_role_applies_at_once(web):
    await sign_in(web, "reader")
    assert (await web.post("/sessions/new/", headers=BROWSER)).status_code == 403
    await sync_to_async(lambda: users.set_role(users.find_user("reader"), Role.RUNNER))()
    assert (await web.post("/sessions/new/", headers=BROWSER)).status_code == 200


async def test_password_change_keeps_only_this_login(web):
    await sign_in(web, "reader")
    other = await sync_to_async(lambda: logins.start_login(users.find_user("reader")))()
    new = "another long password"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    answer = await web.post("/account/password/", data=form, headers=BROWSER)
    assert (answer.status_code, answer.headers["location"]) == (303, "/account/?changed=password")
    assert "Password changed." in (await web.get("/account/?changed=password")).text
    web.cookies.set(logins.cookie_name(), other)
    web.cookies.clear()
    web.cookies.set(logins.cookie_name(), other)
    assert (await web.get(INSIDE)).status_code == 401
    web.cookies.clear()
    assert (await sign_in(web, "reader", new)).status_code == 303


@pytest.mark.parametrize(
    ("form", "field", "problem"),
    [
        ({"old_password": "wrong"}, "id_old_password", "incorrectly"),
        ({"new_password2": "something else"}, "id_new_password2", "match"),
        ({"new_password1": "short", "new_password2": "short"}, "id_new_password2", "at least 10"),
        ({"new_password1": "password1234", "new_password2": "password1234"}, "id_new_password2", "common"),
    ],
)
async def test_refused_password_shows_error_at_its_field(web, form, field, problem):
    await sign_in(web, "reader")
    good = {
        "old_password": PASSWORD,
        "new_password1": "another long one",
        "new_password2": "another long one",
    }
    answer = await web.post("/account/password/", data=good | form, headers=BROWSER)
    page = parse(answer.content)
    assert answer.status_code == 422
    assert page.one("input", id=field).attrs["aria-invalid"] == "true"
    assert problem in page.one("ul", id=f"{field}-error").text


async def test_password_change_counts_as_an_attempt_of_a_password(web):
    await sign_in(web, "reader")
    new = "another long one"
    form = {"old_password": "wrong", "new_password1": new, "new_password2": new}
    answers = [await web.post("/account/password/", data=form, headers=BROWSER) for _ in range(6)]
    assert [answer.status_code for answer in answers] == [422] * 5 + [429]


async def test_token_cannot_change_the_password(web):
    text, _ = await sync_to_async(
        lambda: personal_tokens.create_token(users.find_user("reader"), "ci", Role.READER, None)
    )()
    new = "another long one"
    form = {"old_password": PASSWORD, "new_password1": new, "new_password2": new}
    answer = await web.post(
        "/account/password/", data=form, headers=BROWSER | {"Authorization": f"Bearer {text}"}
    )
    assert answer.status_code == 403
    assert "A token cannot change a password." in answer.text


async def test_without_an_admin_everybody_is_told_how_to_create_one(web):
    await sync_to_async(User.objects.all().delete)()
    answer = await web.get(INSIDE)
    assert (answer.status_code, answer.json()["code"]) == (503, "no_users")
    assert "createuser" in answer.json()["hint"]


async def test_token_of_the_owner_works_until_the_login_is_removed(web):
    await sync_to_async(owner.set_password)("one long password")
    header = {"Authorization": f"Bearer {await sync_to_async(owner.replace_token)()}"}
    assert (await web.get(INSIDE, headers=header)).status_code == 200
    assert (await web.get("/account/", headers=header)).status_code == 403
    await sync_to_async(owner.remove_owner)()
    assert (await web.get(INSIDE, headers=header)).status_code == 401


@pytest.mark.parametrize("name", [owner.OWNER, ""])
async def test_owner_cannot_sign_in_on_a_server_with_users(web, name):
    await sync_to_async(owner.set_password)("one long password")
    assert (await sign_in(web, name, "one long password")).status_code == 422
    user = await sync_to_async(User.objects.get)(username=owner.OWNER)
    web.cookies.set(logins.cookie_name(), await sync_to_async(logins.start_login)(user))
    assert (await web.get(INSIDE)).status_code == 401


async def test_files_of_the_sign_in_page_are_public(web):
    page = parse((await web.get("/login/")).content)
    for link in page.all("link"):
        assert (await web.get(link.attrs["href"])).status_code == 200
    assert (await web.get("/static/devui/js/core/app.js")).status_code == 303
