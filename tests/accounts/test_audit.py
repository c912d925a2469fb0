"""The audit log: who did what to which object, from where, with which outcome."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import re
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.db import Error, connection, transaction
from django.http import HttpRequest, HttpResponse
from django.test import AsyncRequestFactory

from devui.accounts import audit, personal_tokens, users
from devui.accounts.guard import RequestGuard
from devui.accounts.models import AuditEntry
from devui.web.login.throttling import MAX_ATTEMPTS
from sessions_app.roles import Role
from sessions_app.sessions import saved_views
from sessions_app.store.database import append_only, units_of_work
from sessions_app.store.errors import Forbidden
from sessions_app.store.models import AgentSession, Run
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.accounts.conftest import BROWSER, cookie_of, sign_in
from tests.api.builders import create
from tests.pages.html import parse

pytestmark = pytest.mark.usefixtures("people", "agents_dir")


@sync_to_async
def entries() -> list[tuple[str, ...]]:
    """Return the entries, without time and status."""
    return list(
        AuditEntry.objects.order_by("pk").values_list(
            "person", "action", "kind", "object_id", "app", "outcome"
        )
    )


async def test_sign_ins_and_sign_outs_are_recorded_also_if_they_fail(web):
    await sign_in(web, "reader", "wrong")
    await sign_in(web, "mallory\x00")
    await sign_in(web, "reader")
    await web.post("/logout/", headers=BROWSER)
    assert [(person, action, outcome) for person, action, *_, outcome in await entries()] == [
        ("reader", "sign-in", "refused"),
        ("mallory\ufffd", "sign-in", "refused"),
        ("reader", "sign-in", "done"),
        ("reader", "sign-out", "done"),
    ]


async def test_throttled_sign_ins_are_recorded(web):
    for _ in range(MAX_ATTEMPTS + 1):
        answer = await sign_in(web, "reader", "wrong")
    assert (answer.status_code, int(answer.headers["Retry-After"]) > 0) == (429, True)
    statuses = await sync_to_async(lambda: list(AuditEntry.objects.values_list("status", "outcome")))()
    assert statuses == [(422, "refused")] * MAX_ATTEMPTS + [(429, "refused")]


async def test_action_is_recorded_even_if_its_client_leaves():
    session = await units_of_work.write(writes.create_session, SessionKey("", "weather", "ann", "s1"))

    async def delete_until_client_leaves(request: HttpRequest) -> HttpResponse:
        raise asyncio.CancelledError

    request = AsyncRequestFactory().post(f"/sessions/id/{session.pk}/delete/")
    request.COOKIES.update(await sync_to_async(cookie_of)("admin"))
    with pytest.raises(asyncio.CancelledError):
        await RequestGuard(delete_until_client_leaves)(request)
    assert await entries() == [("admin", "delete", "session", str(session.pk), "weather", "failed")]


async def test_entry_names_object_app_client_and_refusal(web):
    session = await units_of_work.write(writes.create_session, SessionKey("", "weather", "ann", "s1"))
    path = f"/sessions/id/{session.pk}/delete/"
    for name in ("reader", "admin"):
        web.cookies.update(await sync_to_async(cookie_of)(name))
        await web.post(path, data={"next": "/sessions/"}, headers=BROWSER)
    await web.delete("/apps/weather/users/ann/sessions/s1", headers=BROWSER)
    pk = str(session.pk)
    assert await entries() == [
        ("reader", "delete", "session", pk, "weather", "refused"),
        ("admin", "delete", "session", pk, "weather", "done"),
        ("admin", "delete", "session", "ann/s1", "weather", "done"),
    ]
    addresses = await sync_to_async(lambda: set(AuditEntry.objects.values_list("address", flat=True)))()
    assert addresses == {"127.0.0.1"}


async def test_form_decides_the_verb_and_names_its_objects(web):
    web.cookies.update(await sync_to_async(cookie_of)("runner"))
    form = {"action": "tag", "session": ["7", "8"], "tag": "x"}
    await web.post("/sessions/actions/", data=form, headers=BROWSER)
    await web.post("/sessions/actions/", data={**form, "action": "delete"}, headers=BROWSER)
    assert await entries() == [
        ("runner", "label", "session", "7, 8", "", "done"),
        ("runner", "delete", "session", "7, 8", "", "refused"),
    ]


MESSAGE = {"parts": [{"text": "hello"}]}
ADK_RUN = {"appName": "weather", "userId": "ann", "sessionId": "s1", "newMessage": MESSAGE}
ADK_SESSION = "/apps/weather/users/ann/sessions"
SET = {"person": "runner", "app": "weather", "runs_a_day": 2, "cost_a_day": None}
WEATHER = {"app": "weather"}
ANN = {**WEATHER, "user": "ann"}
ANNS = {**ANN, "session": "s1"}
FILES = {"file": ("notes.txt", b"hello", "text/plain")}
TOKEN = {"name": "ci", "role": "reader"}
EVALSET = {"evalSet": {"eval_set_id": "mine"}}

REQUESTS: list[tuple[str, dict[str, Any], str, str, str]] = [
    # method and path, body, then what the entry has: action and kind, object, app
    ("POST /api/v1/runs", {"json": {"session": "PK", "message": "hi"}}, "run session", "PK/RUN", "weather"),
    ("POST /run", {"json": ADK_RUN}, "run session", "ann/s1", "weather"),
    ("POST /run_sse", {"json": ADK_RUN}, "run session", "ann/s1", "weather"),
    (f"POST {ADK_SESSION}", {"json": {"sessionId": "s2"}}, "create session", "ann/s2", "weather"),
    ("POST /api/v1/sessions/active", {"json": ANN}, "create session", "PK", "weather"),
    ("POST /api/v1/sessions/delete", {"json": {"sessions": ["PK", 99]}}, "delete session", "PK, 99", ""),
    ("GET /api/v1/sessions/export?session=PK", {}, "export session", "PK", ""),
    (
        "POST /sessions/new/",
        {"data": {**ANN, "how": "new", "session_id": "s3"}},
        "create session",
        "NEW",
        "weather",
    ),
    ("POST /sessions/views/", {"data": {"name": "mine", "query": "q=x"}}, "edit saved view", "mine", ""),
    (
        "POST /artifacts/upload/",
        {"data": ANNS, "files": FILES},
        "create artifact",
        "ann/s1/notes.txt",
        "weather",
    ),
    (
        "POST /artifacts/upload/",
        {"data": ANN, "files": FILES},
        "create artifact",
        "ann/user:notes.txt",
        "weather",
    ),
    ("POST /memory/add/", {"data": ANNS}, "create memory", "ann/s1", "weather"),
    ("POST /evals/new/", {"data": {**WEATHER, "id": "mine"}}, "edit evalset", "mine", "weather"),
    ("POST /evals/upload/", {"data": WEATHER, "files": FILES}, "edit evalset", "notes.txt", "weather"),
    ("POST /evals/record/", {"data": {"session": "PK", "new_id": "mine"}}, "edit evalset", "mine", "weather"),
    ("POST /dev/apps/weather/eval-sets", {"json": EVALSET}, "edit evalset", "mine", "weather"),
    ("POST /api/v1/evals/runs", {"json": {**WEATHER, "evalset": "set"}}, "run evals", "set", "weather"),
    ("POST /api/v1/evals/replays", {"json": {"session": "PK"}}, "run evals", "PK", "weather"),
    ("POST /api/v1/tokens", {"json": TOKEN}, "create token", "ci", ""),
    ("POST /account/tokens/", {"data": {"name": "ci", "role": "1", "days": "30"}}, "create token", "ci", ""),
    (
        "PUT /api/v1/quotas",
        {"json": SET},
        "edit quota",
        "runner in weather: runs_a_day=2, cost_a_day=none",
        "weather",
    ),
    ("DELETE /api/v1/quotas?app=weather", {}, "delete quota", "every user in weather: removed", "weather"),
]


@pytest.mark.parametrize(("address", "body", "action_and_kind", "object_id", "app"), REQUESTS)
async def test_entry_names_the_object_of_requests_whose_address_does_not(
    web, runtime, address, body, action_and_kind, object_id, app
):
    session = await create()
    web.cookies.update(await sync_to_async(cookie_of)("admin"))
    method, path = address.replace("PK", str(session.pk)).split()
    if "files" not in body:
        body = json.loads(json.dumps(body).replace('"PK"', str(session.pk)))
    await web.request(method, path, headers=BROWSER, **body)
    run = await sync_to_async(Run.objects.first)()
    newest = await sync_to_async(AgentSession.objects.order_by("-pk").first)()
    names = {"PK": session.pk, "RUN": run and run.pk, "NEW": newest.pk}
    named = re.sub("PK|RUN|NEW", lambda name: str(names[name[0]]), object_id)
    [(person, action, kind, *rest)] = await entries()
    assert (person, f"{action} {kind}", rest[:2]) == ("admin", action_and_kind, [named, app])


async def test_entry_of_a_removed_token_or_view_keeps_its_name(web):
    await sign_in(web, "admin")
    token = (await web.post("/api/v1/tokens", json={"name": "ci", "role": "reader"}, headers=BROWSER)).json()
    await web.post(f"/account/tokens/{token['id']}/revoke/", headers=BROWSER)
    view = await sync_to_async(saved_views.save)("mine", "q=x")
    await web.post(f"/sessions/views/{view.pk}/", data={"delete": "1"}, headers=BROWSER)
    assert [entry[1:4] for entry in (await entries())[2:]] == [
        ("revoke", "token", "ci"),
        ("edit", "saved view", "mine"),
    ]


async def test_reading_is_not_recorded_and_exporting_is(web):
    web.cookies.update(await sync_to_async(cookie_of)("reader"))
    await web.get("/sessions/")
    await web.head("/api/v1/sessions/export")
    await web.options("/api/v1/sessions/export")
    await web.get("/api/v1/sessions/export")
    assert [(action, kind) for _, action, kind, *_ in await entries()] == [("export", "session")]


async def test_request_with_body_is_recorded_once(web):
    text, _ = await sync_to_async(
        lambda: personal_tokens.create_token(users.find_user("runner"), "ci", Role.RUNNER, None)
    )()
    header = {"Authorization": f"Bearer {text}"}
    for scope in ("/run", "/config/telemetry"):
        await web.post(scope, json={}, headers=header)
    rows = await sync_to_async(lambda: list(AuditEntry.objects.values_list("token", "action", "outcome")))()
    assert rows == [("ci", "run", "failed"), ("ci", "settings", "refused")]


async def test_odd_ids_do_not_break_the_response(web):
    web.cookies.update(await sync_to_async(cookie_of)("admin"))
    answer = await web.post(f"/sessions/id/{10**30}/delete/", headers=BROWSER)
    assert answer.status_code in {400, 404}
    await sync_to_async(users.create_user)("limited", Role.RUNNER, apps=["weather"])
    web.cookies.update(await sync_to_async(cookie_of)("limited"))
    for app in ("a\x00b", "\ud800", "x" * 2_000):
        body = json.dumps({"appName": app, "userId": "u", "sessionId": "s", "newMessage": {}})
        await web.post("/run", content=body, headers={**BROWSER, "Content-Type": "application/json"})
    assert [app for *_, app, _ in (await entries())[1:]] == ["a\ufffdb", "\ufffd", "x" * audit.MAX_TEXT]


def test_commands_are_recorded_with_the_system_user(monkeypatch):
    from devui import __main__ as program

    monkeypatch.setattr("sys.stdin", io.StringIO("\n"))
    call_command("createuser", "ann", role="reader", stdout=io.StringIO())
    program._record_command(["purge_sessions", "--expired"])
    program._record_command(["check"])
    made, purged = AuditEntry.objects.order_by("pk")
    assert (made.action, made.object_id) == ("create", "ann: role reader")
    assert (purged.action, purged.object_id) == ("purge", "--expired")
    assert made.person.endswith("(command line)")


def test_change_of_a_role_names_the_role_and_its_apps():
    call_command("changeuser", "runner", role="reader", app=["weather", "writer"], stdout=io.StringIO())
    assert AuditEntry.objects.get().object_id == "runner: role reader in weather, writer"


def test_entries_are_neither_changed_nor_deleted():
    audit.record_command("purge", "session")
    entry = AuditEntry.objects.get()
    for change in (entry.save, entry.delete, AuditEntry.objects.all().delete):
        with pytest.raises(Forbidden, match="append-only"):
            change()
    with pytest.raises(Forbidden, match="append-only"):
        AuditEntry.objects.update(person="nobody")
    append_only.create_triggers(connection, AuditEntry._meta.db_table)
    try:
        for sql in ("UPDATE accounts_auditentry SET person = ''", "DELETE FROM accounts_auditentry"):
            with (
                pytest.raises(Error, match="append-only"),
                transaction.atomic(),
                connection.cursor() as cursor,
            ):
                cursor.execute(sql)
    finally:
        append_only.drop_triggers(connection, AuditEntry._meta.db_table)


async def test_page_filters_and_pages(web):
    await sync_to_async(lambda: [audit.record_command("purge", "session", f"s{n}") for n in range(60)])()
    await sign_in(web, "admin")
    page = parse((await web.get("/audit/")).content)
    assert len(page.one("tbody").all("tr")) == 50
    older = page.one("a", rel="next").attrs["href"]
    assert len(parse((await web.get(f"/audit/{older}")).content).one("tbody").all("tr")) == 11
    for query, rows in (
        ("action=sign-in", 1),
        ("person=admin", 1),
        ("object=s59", 1),
        ("until=2020-01-01", 0),
    ):
        body = (await web.get(f"/audit/?{query}")).content
        assert len(parse(body).all("td", data_label="Person")) == rows, query
    assert (await web.get("/audit/?since=yesterday")).status_code == 400


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
async def test_export_has_every_entry_that_matches(web, kind):
    await sync_to_async(audit.record_command)("purge", "session", "=1+1")
    await sign_in(web, "admin")
    answer = await web.get(f"/audit/export/?format={kind}&action=purge")
    if kind == "jsonl":
        [entry] = [json.loads(line) for line in answer.text.splitlines()]
        assert entry["object_id"] == "=1+1"
    else:
        [entry] = list(csv.DictReader(io.StringIO(answer.text)))
        assert entry["object_id"] == "'=1+1"
    assert (entry["action"], entry["outcome"]) == ("purge", "done")


async def test_only_admins_read_it(web):
    await sign_in(web, "runner")
    assert (await web.get("/audit/")).status_code == 403
    assert (await web.get("/audit/export/?format=csv")).status_code == 403
