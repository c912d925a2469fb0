"""Every address with every role; the rules of routes are those of the security page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.urls import resolve

from devui.workers.roles import DRAIN, REMOVE
from sessions_app.roles import AccessRule, Role
from sessions_app.routes import match_rule
from tests.accounts.conftest import BROWSER, cookie_of, sign_in
from tests.pages.html import parse
from tests.security.routes import all_rules, fill_route, routes

pytestmark = pytest.mark.usefixtures("people", "agents_dir")

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
SIGN_OUT = "POST logout/"
SECURITY = Path(__file__).resolve().parents[2] / "docs/security.md"


async def is_refused(web: Any, method: str, address: str) -> bool:
    """Tell whether the role is refused, without reading the rest of a stream."""
    async with web.stream(method, address, headers={**BROWSER, "Accept": "application/json"}) as response:
        if response.status_code != 403:
            return False
        await response.aread()
        return response.json()["code"] == "role_required"


@pytest.mark.parametrize(
    "role", [Role.READER, *(pytest.param(role, marks=pytest.mark.soak) for role in (Role.RUNNER, Role.ADMIN))]
)
async def test_every_address_with_every_role(web, role):
    web.cookies.update(await sync_to_async(cookie_of)(role.label))
    for route in routes():
        for method in METHODS:
            if f"{method} {route}" == SIGN_OUT:
                continue
            rule = match_rule(resolve("/" + fill_route(route)), method)
            may_send = rule is not None and role >= rule.role
            assert await is_refused(web, method, "/" + fill_route(route)) != may_send, (method, route)


def rules() -> Iterator[AccessRule]:
    """Yield every rule, with the variants of forms."""
    for rule in [*all_rules().values(), DRAIN, REMOVE]:  # workers have routes only with an engine
        yield from (rule, *rule.variants.values())


def test_security_page_has_the_table_of_roles():
    rows = re.findall(r"^\| ([\w ,-]+) \| ([\w ,-]+) \| (\w+) \|$", SECURITY.read_text(), re.MULTILINE)
    documented = {
        (action, kind, role)
        for actions, kinds, role in rows
        for action in actions.split(", ")
        for kind in kinds.split(", ")
    }
    assert documented == {(rule.action, rule.kind, rule.role.label) for rule in rules() if rule.action}


@pytest.mark.parametrize(
    ("name", "action", "status"),
    [
        ("reader", "tag", 403),
        ("reader", "delete:1", 403),
        ("reader", "export", 404),
        ("runner", "delete", 403),
        ("runner", "tag", 302),
        ("admin", "delete", 302),
        ("reader", "explode", 403),
        ("admin", "explode", 400),
        *(("runner", action, 403) for action in (" delete", "delete ", "\tdelete", " tag", "delete :1")),
        *(("admin", action, 400) for action in (" delete", "delete ", " tag")),
    ],
)
async def test_action_on_sessions_needs_its_own_role(web, name, action, status):
    web.cookies.update(await sync_to_async(cookie_of)(name))
    form = {"action": action, "session": "1", "tag": "x"}
    response = await web.post("/sessions/actions/", data=form, headers=BROWSER | {"Accept": "text/html"})
    assert response.status_code == status, response.text


async def test_refusal_names_the_role_on_page_fragment_and_api(web):
    web.cookies.update(await sync_to_async(cookie_of)("reader"))
    page = await web.post("/sessions/new/", headers=BROWSER | {"Accept": "text/html"})
    heading = "This needs the role runner; reader has the role reader."
    assert (page.status_code, parse(page.content).one("h1").text) == (403, heading)
    part = await web.post("/sessions/new/", headers=BROWSER | {"Accept": "text/html", "HX-Request": "true"})
    assert heading in part.text
    assert "<html" not in part.text
    api = await web.post("/run", json={}, headers=BROWSER)
    assert api.json() == {
        "detail": heading,
        "code": "role_required",
        "hint": "An admin can change it: `python manage.py changeuser reader --role runner`.",
    }


async def test_body_of_refused_request_is_not_read(web):
    web.cookies.update(await sync_to_async(cookie_of)("reader"))
    response = await web.post("/run", content=b"x" * 300_000, headers=BROWSER)
    assert (response.status_code, response.headers["connection"]) == (403, "close")


async def test_pages_hide_what_a_role_may_not_do(web):
    await sign_in(web, "reader")
    page = parse((await web.get("/sessions/")).content)
    assert page.one("body").attrs["data-role"] == "reader"
    assert page.one("button", value="delete").attrs["data-needs"] == "admin"
