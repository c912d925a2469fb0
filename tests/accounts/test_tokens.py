"""Tokens of users."""

from __future__ import annotations

import time

import pytest
from asgiref.sync import sync_to_async

from devui.accounts import personal_tokens, users
from devui.accounts.models import Token
from sessions_app.roles import Role
from tests.accounts.conftest import BROWSER, sign_in
from tests.pages.html import parse

pytestmark = pytest.mark.usefixtures("people")

INSIDE = "/version"


@sync_to_async
def create_token_header(name: str, role: Role, days: int | None = 30) -> dict[str, str]:
    return {
        "Authorization": f"Bearer {personal_tokens.create_token(users.find_user(name), 'ci', role, days)[0]}"
    }


async def test_token_is_created_shown_once_and_used(web):
    await sign_in(web, "runner")
    form = {"name": "ci", "role": "2", "days": "30"}
    part = await web.post(
        "/account/tokens/", data=form, headers={**BROWSER, "HX-Request": "true", "HX-Target": "tokens"}
    )
    tree = parse(part.content)
    text = tree.one("code", id="new-token").text
    assert "<html" not in part.text
    assert text not in (await web.get("/account/")).text
    web.cookies.clear()
    header = {"Authorization": f"Bearer {text}"}
    assert (await web.get(INSIDE, headers=header)).status_code == 200
    [token] = await sync_to_async(list)(Token.objects.all())
    assert text not in (token.digest, token.name)
    assert time.time() - (token.last_used_at or 0) < 60


@pytest.mark.parametrize(
    ("user", "scope", "status"),
    [("runner", Role.READER, 403), ("reader", Role.ADMIN, 403), ("runner", Role.ADMIN, 422)],
)
async def test_token_may_do_what_both_its_scope_and_its_user_may(web, user, scope, status):
    assert (
        await web.post("/run", json={}, headers=await create_token_header(user, scope))
    ).status_code == status


async def test_refusal_names_the_limit_of_the_token(web):
    refused = (
        await web.post("/run", json={}, headers=await create_token_header("runner", Role.READER))
    ).json()
    assert refused["detail"] == "This needs the role runner; the token 'ci' is limited to reader."
    assert refused["hint"] == "Create a token with the role runner at /account/."


async def test_refusal_names_the_role_of_the_user_if_no_token_would_help(web):
    refused = (
        await web.post("/run", json={}, headers=await create_token_header("reader", Role.READER))
    ).json()
    assert refused["detail"] == "This needs the role runner; reader has the role reader."


async def test_form_offers_no_scope_above_the_user(web):
    await sign_in(web, "reader")
    form = {"name": "ci", "role": "3", "days": ""}
    assert (await web.post("/account/tokens/", data=form, headers=BROWSER)).status_code == 422
    assert not await sync_to_async(Token.objects.exists)()


async def test_taken_name_is_shown_at_its_field(web):
    await create_token_header("reader", Role.READER)
    await sign_in(web, "reader")
    answer = await web.post("/account/tokens/", data={"name": "ci", "role": "1", "days": ""}, headers=BROWSER)
    assert answer.status_code == 422
    assert "has a token 'ci' already" in parse(answer.content).one("ul", id="id_name-error").text


@pytest.mark.parametrize("end", ["revoked", "expired", "disabled"])
async def test_token_ends_at_once(web, end):
    header = await create_token_header("reader", Role.READER)
    if end == "revoked":
        await sign_in(web, "reader")
        pk = (await sync_to_async(Token.objects.get)()).pk
        assert (await web.post(f"/account/tokens/{pk}/revoke/", headers=BROWSER)).status_code == 303
        web.cookies.clear()
    elif end == "expired":
        await sync_to_async(lambda: Token.objects.update(expires_at=time.time() - 1))()
    else:
        await sync_to_async(lambda: users.set_active(users.find_user("reader"), is_active=False))()
    refused = await web.get(INSIDE, headers=header)
    assert refused.status_code == 401
    assert "may have expired or been revoked" in refused.json()["hint"]


async def test_nobody_revokes_the_token_of_another(web):
    await create_token_header("reader", Role.READER)
    await sign_in(web, "admin")
    pk = (await sync_to_async(Token.objects.get)()).pk
    assert (await web.post(f"/account/tokens/{pk}/revoke/", headers=BROWSER)).status_code == 404


async def test_use_is_recorded_once_a_minute(web):
    header = await create_token_header("reader", Role.READER)
    await web.get(INSIDE, headers=header)
    first = (await sync_to_async(Token.objects.get)()).last_used_at
    await web.get(INSIDE, headers=header)
    assert (await sync_to_async(Token.objects.get)()).last_used_at == first
    await sync_to_async(
        lambda: Token.objects.update(last_used_at=time.time() - personal_tokens.RECORD_USE_S - 1)
    )()
    await web.get(INSIDE, headers=header)
    assert (
        time.time() - (await sync_to_async(Token.objects.get)()).last_used_at < personal_tokens.RECORD_USE_S
    )


async def test_api_creates_lists_and_revokes_tokens(web):
    header = await create_token_header("runner", Role.READER)
    response = await web.post(
        "/api/v1/tokens", json={"name": "nightly", "role": "reader", "days": None}, headers=header
    )
    outlived = (await sync_to_async(Token.objects.get)(name="ci")).expires_at
    assert (response.status_code, response.json()["expires_at"]) == (201, outlived)
    new = {"Authorization": f"Bearer {response.json()['token']}"}
    listed = (await web.get("/api/v1/tokens", headers=new)).json()["tokens"]
    assert [token["name"] for token in listed] == ["nightly", "ci"]
    assert "token" not in listed[0]
    too_much = await web.post("/api/v1/tokens", json={"name": "more", "role": "runner"}, headers=new)
    assert (too_much.status_code, too_much.json()["hint"]) == (400, "Your role is reader.")
    odd = await web.post("/api/v1/tokens", json={"name": "a\x00", "role": "reader"}, headers=new)
    assert odd.status_code == 422
    path = f"/api/v1/tokens/{response.json()['id']}"
    assert [(await web.delete(path, headers=header)).status_code for _ in range(2)] == [204, 404]
    assert (await web.get("/api/v1/tokens", headers=new)).status_code == 401
