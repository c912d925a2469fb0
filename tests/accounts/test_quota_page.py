"""The page of quotas: what everybody has used, and the forms that set, change and remove a quota."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import pytest_asyncio
from asgiref.sync import sync_to_async

from devui.accounts import quotas, users
from devui.accounts.models import AuditEntry, Quota
from devui.accounts.views import quota_list
from sessions_app.quotas import quota_enforcement as counters
from sessions_app.runs import lifecycle
from sessions_app.store.database import units_of_work
from tests.accounts.conftest import BROWSER, PASSWORD, cookie_of
from tests.api.builders import create
from tests.pages.html import Element, parse

pytestmark = pytest.mark.usefixtures("people", "agents_dir")

HTMX = {"HX-Request": "true", "HX-Target": "dialog-content"}


@pytest_asyncio.fixture
async def admin(web: httpx.AsyncClient) -> httpx.AsyncClient:
    """A browser in which the admin has signed in."""
    web.cookies.update(await sync_to_async(cookie_of)("admin"))
    web.headers.update(BROWSER)
    return web


@sync_to_async
def set_quota(person: str = "", app: str = "", **limits: Any) -> int:
    quotas.set_quota(person, app, limits)
    return Quota.objects.get(person=person, app=app).pk


@sync_to_async
def stored() -> list[tuple[Any, ...]]:
    return list(Quota.objects.order_by("person", "app").values_list("person", "app", *quotas.LIMITS))


async def tables(web: httpx.AsyncClient) -> list[list[list[str]]]:
    """Return the texts of the cells of the page's tables, without the buttons."""
    page = parse((await web.get("/quotas/")).content)
    return [[_cells(row) for row in table.one("tbody").all("tr")] for table in page.all("table")]


def _cells(row: Element) -> list[str]:
    return [row.one("th").text, *(cell.text for cell in row.all("td") if "data-label" in cell.attrs)]


async def test_page_shows_limits_and_what_is_used_of_them(admin):
    await set_quota(runs_at_once=3, cost_a_day=1000.0)
    await set_quota("runner", "weather", runs_a_day=0)
    session = await create()
    await units_of_work.write(lifecycle.create_run, session.pk, {}, person="reader")
    await sync_to_async(counters.add_usage)("reader", "writer", tokens=1_500, cost=0.5)
    limits, used = await tables(admin)
    assert limits == [
        ["Every user", "All apps together", "3", "no limit", "no limit", "1000.00 USD"],
        ["runner", "weather", "as everybody", "0", "as everybody", "as everybody"],
    ]
    assert used == [
        ["reader", "All apps together", "1 of 3", "1", "1,500", "0.50 of 1000.00 USD"],
        ["runner", "All apps together", "0 of 3", "0", "0", "0.00 of 1000.00 USD"],
        ["runner", "weather", "0", "0 of 0", "0", "0.00 USD"],
    ]


async def test_page_without_quotas_says_what_they_are(admin):
    page = parse((await admin.get("/quotas/")).content)
    assert page.one("div", "empty").one("h2").text == "No quotas yet"
    assert page.all("table") == []


async def test_page_lists_those_who_have_used_most(admin, monkeypatch):
    monkeypatch.setattr(quota_list, "MAX_LISTED", 2)
    for number, person in enumerate(("ann", "ben", "cleo", "dora")):
        await sync_to_async(counters.add_usage)(person, "weather", tokens=number)
    [used] = await tables(admin)
    assert [row[0] for row in used] == ["dora", "cleo"]
    assert "2 more users used less." in (await admin.get("/quotas/")).text


async def test_page_takes_the_same_queries_for_all_persons(admin, django_assert_num_queries):
    await set_quota(runs_at_once=3)
    await sync_to_async(lambda: [counters.add_usage(f"p{n}", "weather", runs=1) for n in range(20)])()

    def find() -> int:
        rows = quotas.list_quotas()
        with django_assert_num_queries(2):
            return len(quotas.find_uses_by_person(rows))

    assert await sync_to_async(find)() == 20


async def test_quota_is_created_changed_and_removed(admin):
    form = {"person": "runner", "app": "weather", "runs_a_day": "5", "cost_a_day": "1.5"}
    assert (await admin.post("/quotas/new/", data=form)).headers["Location"] == "/quotas/"
    assert await stored() == [("runner", "weather", None, 5, None, 1.5)]
    pk = await set_quota("runner", "weather", tokens_a_day=0)
    page = parse((await admin.get(f"/quotas/{pk}/")).content)
    values = {name: page.one("input", name=name).attrs["value"] for name in quotas.LIMITS}
    assert values == {"runs_at_once": "", "runs_a_day": "5", "tokens_a_day": "0", "cost_a_day": "1.5"}
    saved = await admin.post(f"/quotas/{pk}/", data={**values, "runs_a_day": "", "person": "x"}, headers=HTMX)
    assert saved.headers["HX-Redirect"] == "/quotas/"
    assert await stored() == [("runner", "weather", None, None, 0, 1.5)]
    assert (await admin.post(f"/quotas/{pk}/remove/")).headers["Location"] == "/quotas/"
    assert await stored() == []
    entries = await sync_to_async(
        lambda: list(AuditEntry.objects.order_by("pk").values_list("action", "object_id", "app"))
    )()
    unset = "runs_at_once=none, runs_a_day=none, tokens_a_day=0, cost_a_day=1.5"
    assert entries == [
        (
            "edit",
            "runner in weather: runs_at_once=none, runs_a_day=5, tokens_a_day=none, cost_a_day=1.5",
            "weather",
        ),
        ("edit", f"runner in weather: {unset}", "weather"),
        ("delete", "runner in weather: removed", "weather"),
    ]


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({}, "Set at least one limit. To lift all limits, remove the quota."),
        ({"runs_a_day": "-1"}, "Ensure this value is greater than or equal to 0."),
        ({"runs_a_day": "1.5"}, "Enter a whole number."),
        ({"runs_a_day": "9" * 5_000}, "Enter a whole number."),
        ({"runs_at_once": str(2**31)}, "Ensure this value is less than or equal to 2147483647."),
        ({"tokens_a_day": "many"}, "Enter a whole number."),
        ({"cost_a_day": "nan"}, "Enter a number."),
        ({"cost_a_day": "inf"}, "Enter a number."),
        ({"cost_a_day": "1e30"}, "Ensure this value is less than or equal to 9007199254740992."),
        ({"runs_a_day": "1", "person": "nobody"}, "There is no user 'nobody'."),
        ({"runs_a_day": "1", "person": "x" * 151}, "at most 150 characters"),
        ({"runs_a_day": "1", "app": "a\x00b"}, "Null characters are not allowed."),
        ({"runs_a_day": "1", "app": "taken"}, "There is a quota of every user in taken already."),
    ],
)
async def test_form_says_what_is_wrong_and_keeps_what_was_typed(admin, form, message):
    await set_quota(app="taken", runs_a_day=1)
    response = await admin.post("/quotas/new/", data={"person": "", "app": "", **form}, headers=HTMX)
    assert response.status_code == 422
    page = parse(response.content)
    assert message in page.text
    for name, value in form.items():
        assert page.one("input", name=name).attrs["value"] == value
    assert len(await stored()) == 1


async def test_forms_of_a_quota_that_was_removed_are_refused(admin):
    for method, path in (("GET", "/quotas/7/"), ("POST", "/quotas/7/"), ("POST", "/quotas/7/remove/")):
        refused = await admin.request(method, path, data={"runs_a_day": "1"} if method == "POST" else None)
        assert (refused.status_code, "There is no such quota." in refused.text) == (404, True), path


async def test_quota_of_a_deleted_user_can_only_be_removed(admin):
    pk = await set_quota("runner", runs_a_day=1)
    await sync_to_async(lambda: users.find_user("runner").delete())()
    refused = await admin.post(f"/quotas/{pk}/", data={"runs_a_day": "2"})
    assert (refused.status_code, parse(refused.content).one("div", "notice-danger").text) == (
        422,
        "There is no user 'runner'. An empty name sets the quota of every user.",
    )
    await admin.post(f"/quotas/{pk}/remove/")
    assert await stored() == []


async def test_only_admins_are_offered_the_page(web):
    await sync_to_async(users.create_user)("cleo", users.Role.ADMIN, PASSWORD, ["weather"])
    for name, status in (("reader", 403), ("runner", 403), ("cleo", 403), ("admin", 200)):
        web.cookies.update(await sync_to_async(cookie_of)(name))
        assert (await web.get("/quotas/")).status_code == status, name
        links = parse((await web.get("/sessions/")).content).all("a", href="/users/")
        assert bool(links) is (status == 200), name
