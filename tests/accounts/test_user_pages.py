"""The pages on which admins create and change users."""

from __future__ import annotations

import re
from typing import Any

import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async

from devui.accounts import users
from devui.accounts.models import AuditEntry, Login, Membership
from devui.asgi import application
from sessions_app.roles import Role
from sessions_app.store.database import units_of_work
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.accounts.conftest import BROWSER, PASSWORD, cookie_of, sign_in
from tests.pages.html import parse
from tests.web import over

pytestmark = pytest.mark.usefixtures("people", "agents_dir")


@pytest_asyncio.fixture
async def admin(web):
    """A browser in which the admin has signed in."""
    web.cookies.update(await sync_to_async(cookie_of)("admin"))
    web.headers.update(BROWSER)
    return web


async def status_of_sign_in(name: str, password: str = PASSWORD) -> int:
    """Return the status of a sign-in in another browser."""
    async with over(application) as other:
        return (await sign_in(other, name, password)).status_code


def shown_password(text: str) -> str:
    match = re.search(r'id="new-password">([^<]+)<', text)
    assert match
    return match[1]


async def row_html(admin: Any, name: str) -> str:
    """Return the HTML of a user's row in the list."""
    page = (await admin.get("/users/")).text
    rows = re.findall(r"<tr.*?</tr>", page, re.DOTALL)
    return next(row for row in rows if f"/users/{name}/" in row)


@sync_to_async
def roles_of(name: str) -> list[tuple[str, str]]:
    rows = Membership.objects.filter(user__username=name).order_by("app")
    return [(row.app, row.get_role_display()) for row in rows]


@sync_to_async
def audited() -> list[tuple[Any, ...]]:
    return list(AuditEntry.objects.order_by("pk").values_list("person", "action", "kind", "object_id"))


async def test_created_user_signs_in_with_the_password_that_is_shown_once(admin):
    answer = await admin.post("/users/", data={"name": "ann", "role": Role.RUNNER.value})
    password = shown_password(answer.text)
    assert await roles_of("ann") == [("", "runner")]
    assert "new-password" not in (await admin.get("/users/ann/")).text
    assert await status_of_sign_in("ann", password) == 303


async def test_role_can_be_limited_to_apps_and_widened_again(admin):
    await units_of_work.write(writes.create_session, SessionKey("", "a, b", "ann", "s1"))
    page = parse((await admin.get("/users/")).text)
    assert page.one("input", name="name").attrs["type"] == "text"
    boxes = page.all("input", name="apps")
    assert [box.attrs["value"] for box in boxes] == ["a, b", "weather", "writer"]
    apps = ["weather", "a, b"]
    await admin.post("/users/", data={"name": "ann", "role": Role.RUNNER.value, "apps": apps})
    assert await roles_of("ann") == [("", "reader"), ("a, b", "runner"), ("weather", "runner")]
    answer = await admin.post("/users/ann/", data={"action": "role", "role": Role.ADMIN.value})
    assert (answer.status_code, answer.headers["location"]) == (303, "/users/ann/")
    assert await roles_of("ann") == [("", "admin")]


async def test_new_password_ends_the_logins_of_the_user(admin):
    await sync_to_async(cookie_of)("reader")
    answer = await admin.post("/users/reader/", data={"action": "password"})
    assert not await Login.objects.filter(user__username="reader").aexists()
    assert await status_of_sign_in("reader", PASSWORD) == 422
    assert await status_of_sign_in("reader", shown_password(answer.text)) == 303


async def test_disabled_user_cannot_sign_in_until_enabled(admin):
    await admin.post("/users/reader/", data={"action": "disable"})
    assert "disabled" in (await admin.get("/users/")).text
    assert await status_of_sign_in("reader") == 422
    await admin.post("/users/reader/", data={"action": "enable"})
    assert await status_of_sign_in("reader") == 303


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"name": "READER", "role": "1"}, "There is a user 'READER' already"),
        ({"name": "a b", "role": "1"}, "'a b' is not a name for a user"),
        ({"name": "..", "role": "1"}, "'..' is not a name for a user"),
        ({"name": "--help", "role": "1"}, "'--help' is not a name for a user"),
        ({"name": "ann", "role": "2", "apps": "nobody's"}, 'There is no app "nobody\'s".'),
        ({"name": "", "role": "1"}, "This field is required"),
        ({"name": "ann", "role": "9"}, "Select a valid choice"),
    ],
)
async def test_refused_user_is_explained_beside_the_form(admin, form, message):
    answer = await admin.post("/users/", data=form)
    assert answer.status_code == 422
    assert message in " ".join(parse(answer.text).text.split())
    assert await sync_to_async(users.User.objects.count)() == len(Role)


@pytest.mark.parametrize(
    "form", [{"action": "role", "role": "1"}, {"action": "disable"}, {"action": "explode"}, {}]
)
async def test_only_admin_is_kept_and_unknown_actions_are_refused(admin, form):
    answer = await admin.post("/users/admin/", data=form)
    assert answer.status_code in {400, 422}
    assert await roles_of("admin") == [("", "admin")]
    assert (await admin.get("/users/")).status_code == 200


@pytest.mark.parametrize("path", ["/users/", "/users/reader/"])
async def test_only_admins_see_and_change_users(runner, path):
    for answer in (
        await runner.get(path),
        await runner.post(path, data={"action": "role", "role": "3", "name": "x"}),
    ):
        assert answer.status_code == 403
    assert await roles_of("reader") == [("", "reader")]


async def test_unknown_user_is_not_found(admin):
    assert (await admin.get("/users/nobody/")).status_code == 404
    assert (await admin.post("/users/nobody/", data={"action": "disable"})).status_code == 404


async def test_list_shows_roles_in_single_apps(admin):
    await sync_to_async(users.create_user)("ann", Role.RUNNER, PASSWORD, ["weather"])
    table = parse((await admin.get("/users/")).text).all("table")[0]
    assert "ann reader, runner in weather" in table.text


async def test_changes_are_in_the_audit_log(admin):
    await admin.post("/users/", data={"name": "ann", "role": "1"})
    for form in ({"action": "role", "role": "2"}, {"action": "password"}, {"action": "disable"}):
        await admin.post("/users/ann/", data=form)
    assert await audited() == [
        ("admin", "create", "user", "ann"),
        ("admin", "edit", "user", "ann"),
        ("admin", "password", "user", "ann"),
        ("admin", "disable", "user", "ann"),
    ]


async def test_users_are_sorted_paged_and_exported_by_admins_only(admin):
    for number in range(60):
        await sync_to_async(users.create_user)(f"u{number:02}", Role.READER, PASSWORD)
    page = parse((await admin.get("/users/?sort=-name")).text)
    names = [head.text for head in page.one("table").all("th", scope="row")]
    assert names[0] == "u59"
    assert len(names) == 50
    further = parse((await admin.get(f"/users/{page.one('a', rel='next').attrs['href']}")).text)
    assert further.one("table").all("th", scope="row")[0].text == "u09"
    lines = (await admin.get("/users.csv?sort=-name")).text.splitlines()
    assert lines[:2] == ["name,role,sign-in,last-sign-in,status", "u59,reader,password,,active"]
    assert len(lines) == len(names) + len(further.one("table").all("th", scope="row")) + 1
    admin.cookies.update(await sync_to_async(cookie_of)("reader"))
    assert (await admin.get("/users.csv")).status_code == 403


async def test_list_shows_when_a_user_signed_in_last(admin):
    await sync_to_async(users.create_user)("ann", Role.READER, PASSWORD)
    assert "<time " not in await row_html(admin, "ann")
    assert await status_of_sign_in("ann") == 303
    assert "<time " in await row_html(admin, "ann")


async def test_audit_log_says_why_a_sign_in_was_refused(admin):
    assert await status_of_sign_in("reader", "wrong") == 422
    row = parse((await admin.get("/audit/?action=sign-in")).text).one("table").one("tbody").all("tr")[0]
    assert "refused" in row.text
    assert "wrong name or password" in row.text


async def test_audit_log_is_sorted_by_person(admin):
    for name in ("zoe", "ann"):
        await sync_to_async(users.create_user)(name, Role.READER, PASSWORD)
        await sync_to_async(AuditEntry.objects.create)(
            at=1.0, person=name, action="run", kind="session", outcome="done", status=200
        )
    page = parse((await admin.get("/audit/?sort=person&action=run")).text)
    assert [cell.text for cell in page.all("td", data_label="Person")] == ["ann", "zoe"]
