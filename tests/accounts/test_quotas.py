"""Quotas: runs at once, and runs, tokens and cost a day, of each user in each app."""

from __future__ import annotations

import asyncio
import io
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import close_old_connections, connection, transaction

from devui.accounts import quotas
from devui.accounts.models import AuditEntry
from evals_app.models import EvalRun
from evals_app.runs.limits import EvalRunLimits, EvalSpending
from sessions_app.api import live
from sessions_app.quotas import quota_enforcement
from sessions_app.quotas.quota_limits import QuotaLimits, QuotaUsedUp
from sessions_app.runs import lifecycle
from sessions_app.sessions import housekeeping
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, NotFound
from sessions_app.store.models import Event, PersonUsage, Run
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.accounts.conftest import BROWSER, cookie_of
from tests.api.builders import append, create
from tests.evals import builders
from tests.pages.html import parse

pytestmark = pytest.mark.usefixtures("people", "agents_dir")


@sync_to_async
def set_quota(person: str = "", app: str = "", **limits: Any) -> None:
    quotas.set_quota(person, app, limits)


async def start(web: httpx.AsyncClient, session: int) -> httpx.Response:
    return await web.post("/api/v1/runs", json={"session": session, "message": "hello"})


async def test_run_above_the_runs_at_once_is_refused(runner, runtime):
    session = await create()
    await set_quota(runs_at_once=1)
    assert (await start(runner, session.pk)).status_code == 202
    refused = await start(runner, session.pk)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "10")
    assert refused.json() == {
        "detail": "runner has reached the quota of active runs, 1.",
        "code": "quota_used_up",
        "hint": "Wait until one ends, or cancel it. /account/ shows your quotas; an admin can change them:"
        " `python manage.py quota`.",
    }
    run = await sync_to_async(Run.objects.get)()
    await units_of_work.write(lifecycle.end_queued, run.pk, Run.Status.CANCELLED)
    assert (await start(runner, session.pk)).status_code == 202


async def test_run_above_the_runs_a_day_is_refused_until_midnight(runner, runtime, monkeypatch):
    session = await create()
    await set_quota(runs_a_day=1)
    await start(runner, session.pk)
    monkeypatch.setattr(quota_enforcement, "time", SimpleNamespace(time=lambda: 1000 * 86_400 - 60.0))
    await start(runner, session.pk)
    refused = await start(runner, session.pk)
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "60")
    assert "today's quota of 1 runs." in refused.json()["detail"]
    monkeypatch.setattr(quota_enforcement, "time", SimpleNamespace(time=lambda: 1000 * 86_400 + 1.0))
    assert (await start(runner, session.pk)).status_code == 202
    counted = await sync_to_async(
        lambda: list(PersonUsage.objects.filter(app_name="").values_list("runs", flat=True))
    )()
    assert counted == [1, 1, 1]


async def test_refusals_on_pages_are_notices_at_the_message(runner, runtime):
    session = await create()
    await set_quota(runs_a_day=0)
    path = f"/runs/start/{session.pk}/"
    part = await runner.post(path, data={"message": "hello"}, headers={"HX-Request": "true"})
    page = await runner.post(path, data={"message": "hello"})
    assert (part.status_code, page.status_code) == (422, 429)
    assert "today&#x27;s quota of 0 runs" in part.text
    assert "today&#x27;s quota of 0 runs" in page.text


async def test_adk_paths_are_refused_before_they_are_forwarded(runner, runtime):
    await create()
    await set_quota("runner", "weather", runs_a_day=0)
    body = {
        "appName": "weather",
        "userId": "ann",
        "sessionId": "s1",
        "newMessage": {"parts": [{"text": "x"}]},
    }
    for path in ("/run", "/run_sse"):
        refused = await runner.post(path, json=body)
        assert (refused.status_code, refused.json()["code"]) == (429, "quota_used_up")
        assert "Retry-After" in refused.headers
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "websocket.connect"}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    query = b"app_name=weather&user_id=ann&session_id=s1"
    await live.run_live({"query_string": query, "devui_person": "runner"}, receive, send)
    assert (sent[-1]["code"], runtime.headers) == (1013, [])
    assert "quota of 0 runs in the app weather" in sent[-1]["reason"]


async def test_run_charges_its_tokens_and_cost(runner, runtime, agents_dir):
    (agents_dir / "prices.toml").write_text('[[price]]\nmodel = "m"\ninput = 1000000\noutput = 0\n')
    session = await create()
    await set_quota(tokens_a_day=5)
    await start(runner, session.pk)
    await append(session, "e1")

    def finish() -> None:
        summary = {"tokens": {"prompt": 5, "total": 5}, "model": "m"}
        Event.objects.update(total_tokens=5, summary=json.dumps(summary))
        Run.objects.update(first_seq=0, status=Run.Status.RUNNING)
        lifecycle.finish(Run.objects.get().pk, Run.Status.DONE)

    await units_of_work.write(finish)
    used = await sync_to_async(quota_enforcement.usage_today)("runner")
    assert used[""] == used["weather"] == quota_enforcement.DayUsage(1, 5, 5.0)
    assert "quota of 5 tokens" in (await start(runner, session.pk)).json()["detail"]
    await set_quota(tokens_a_day=None, cost_a_day=5.0)
    assert "quota of 5.0 USD" in (await start(runner, session.pk)).json()["detail"]


async def test_eval_runs_count_and_get_what_is_left(runner, runtime, agents_dir):
    document = builders.evalset(builders.case("a", builders.turn("hi", "hello")))
    builders.write(agents_dir / "weather", "set.evalset.json", document)
    await set_quota(tokens_a_day=100, cost_a_day=2.0, runs_at_once=1)
    await sync_to_async(quota_enforcement.add_usage)("runner", "weather", tokens=30, cost=0.5)
    order = {"app": "weather", "evalset": "set", "limits": {"tokens": 500}}
    ordered = (await runner.post("/api/v1/evals/runs", json=order)).json()
    limits = EvalRunLimits.read(json.dumps(ordered["limits"]))
    assert (limits.tokens, limits.quota_tokens, limits.quota_cost) == (500, 70, 1.5)
    assert limits.describe_reached(0, EvalSpending(70)).startswith(
        "Today's quota of tokens is used up: 70 were left"
    )
    assert "rest of today's quota, 1.5 USD" in limits.describe_reached(0, EvalSpending(1, 1.6, "USD"))
    assert (await runner.post("/api/v1/evals/runs", json=order)).status_code == 429
    session = await create()
    assert (await start(runner, session.pk)).status_code == 429
    assert await sync_to_async(EvalRun.objects.count)() == 1


async def test_limits_of_a_user_replace_those_of_everybody(runner, runtime):
    session = await create()
    await set_quota(runs_a_day=0)
    await set_quota("runner", runs_a_day=1)
    assert (await start(runner, session.pk)).status_code == 202
    assert (await start(runner, session.pk)).status_code == 429
    await set_quota("runner", runs_a_day=2)
    assert (await start(runner, session.pk)).status_code == 202
    await set_quota("runner", runs_a_day=None)
    assert "quota of 0 runs" in (await start(runner, session.pk)).json()["detail"]


def test_limits_a_user_has_not_set_are_those_of_everybody():
    quotas.set_quota("", "", {"runs_at_once": 3, "tokens_a_day": 100})
    quotas.set_quota("", "weather", {"runs_a_day": 5})
    quotas.set_quota("runner", "", {"tokens_a_day": 500, "cost_a_day": 2.0})
    quotas.set_quota("runner", "writer", {"runs_a_day": 0})
    assert quotas.find_limits("runner") == [
        QuotaLimits("", runs_at_once=3, tokens_a_day=500, cost_a_day=2.0),
        QuotaLimits("weather", runs_a_day=5),
        QuotaLimits("writer", runs_a_day=0),
    ]
    assert quotas.find_limits("reader", "writer") == [QuotaLimits("", runs_at_once=3, tokens_a_day=100)]
    quotas.set_quota("runner", "writer", {"runs_a_day": None})
    assert [quota.app for quota in quotas.list_quotas() if quota.person] == [""]


async def test_simultaneous_requests_do_not_share_the_last_place(runner, runtime):
    session = await create()
    await set_quota(runs_a_day=3, runs_at_once=3)
    answers = await asyncio.gather(*(start(runner, session.pk) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [202] * 3 + [429] * 5


def test_simultaneous_processes_do_not_share_the_last_place():
    session = writes.create_session(SessionKey("", "weather", "ann", "s1"))
    quotas.set_quota("", "weather", {"runs_at_once": 1})
    begin = Barrier(4)

    def create_run() -> bool:
        begin.wait()
        try:
            lifecycle.create_run(session.pk, {}, person="runner")
        except QuotaUsedUp:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(4) as pool:
        created = list(pool.map(lambda _: create_run(), range(4)))
    close_old_connections()
    assert sorted(created) == [False, False, False, True]
    assert Run.objects.count() == 1


@pytest.mark.parametrize(("limits", "queries"), [({"runs_a_day": 5}, 2), ({"runs_at_once": 5}, 3)])
def test_admission_takes_few_queries(django_assert_num_queries, limits, queries):
    quotas.set_quota("", "", limits)
    quotas.set_quota("runner", "weather", {"runs_a_day": 5})
    with transaction.atomic(), django_assert_num_queries(queries + 2):  # and a savepoint
        quota_enforcement.admit_run("runner", "weather")


def test_runs_without_person_take_no_query(django_assert_num_queries):
    with django_assert_num_queries(0):
        quota_enforcement.admit_run("", "weather")


def test_invalid_quotas_are_refused():
    for limits in (
        {"runs_a_day": -1},
        {"cost_a_day": float("nan")},
        {"runs_at_once": 2**40},
        {"tokens_a_day": 10**400},
    ):
        with pytest.raises(BadInput, match="is not from 0"):
            quotas.set_quota("", "", limits)
    with pytest.raises(NotFound, match="no user 'nobody'"):
        quotas.set_quota("nobody", "", {"runs_a_day": 1})
    with pytest.raises(NotFound, match="no quota of every user in all apps"):
        quotas.remove_quota("", "")


def test_counters_of_past_days_are_removed(monkeypatch):
    for day in (1000, 1001, 1002):
        monkeypatch.setattr(quota_enforcement, "today", lambda day=day: day)
        quota_enforcement.add_usage("runner", "weather", runs=1)
    housekeeping.clean_up()
    assert set(PersonUsage.objects.values_list("day", flat=True)) == {1001, 1002}
    assert quota_enforcement.usage_today("runner")["weather"].runs == 1


async def test_account_page_and_api_show_what_is_used(runner, runtime):
    session = await create()
    await set_quota(runs_at_once=3, tokens_a_day=1000)
    await set_quota("runner", "weather", runs_a_day=2)
    await start(runner, session.pk)
    await sync_to_async(quota_enforcement.add_usage)("runner", "weather", tokens=30, cost=0.5)
    mine = (await runner.get("/api/v1/quotas/mine")).json()["quotas"]
    assert [(each["app"], each["active"], each["runs"], each["tokens"], each["cost"]) for each in mine] == [
        ("", 1, 1, 30, 0.5),
        ("weather", 1, 1, 30, 0.5),
    ]
    rows = (
        parse((await runner.get("/account/")).content)
        .one("table", class_="table-stack")
        .one("tbody")
        .all("tr")
    )
    assert [[cell.text for cell in row.all("td")] for row in rows] == [
        ["1 of 3", "1", "30 of 1,000", "0.50 USD"],
        ["not limited", "1 of 2", "30", "0.50 USD"],
    ]


async def test_admin_changes_quotas_over_the_api(web):
    web.headers.update(BROWSER)
    web.cookies.update(await sync_to_async(cookie_of)("admin"))
    answer = await web.put("/api/v1/quotas", json={"app": "weather", "runs_a_day": 2})
    await web.put("/api/v1/quotas", json={"app": "weather", "cost_a_day": 1.5})
    unlimited = {"runs_at_once": None, "tokens_a_day": None}
    quota = {"person": "", "app": "weather", "runs_a_day": 2, "cost_a_day": None, **unlimited}
    assert answer.json() == {"quotas": [quota]}
    assert (await web.get("/api/v1/quotas")).json() == {"quotas": [{**quota, "cost_a_day": 1.5}]}
    assert (await web.put("/api/v1/quotas", json={"runs_a_day": -1})).status_code == 422
    assert (await web.put("/api/v1/quotas", json={"person": "nobody", "runs_a_day": 1})).status_code == 404
    for app in ("a\x00b", "\ud800", "x" * 1_000):
        odd = json.dumps({"app": app, "runs_a_day": 1})
        answer = await web.put("/api/v1/quotas", content=odd, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()["code"]) == (400, "bad_input")
    assert (await web.put("/api/v1/quotas", json={"person": "a\x00b", "runs_a_day": 1})).status_code == 404
    assert (await web.delete("/api/v1/quotas?app=weather")).status_code == 204
    assert (await web.delete("/api/v1/quotas?app=weather")).status_code == 404
    web.cookies.update(await sync_to_async(cookie_of)("runner"))
    assert (await web.get("/api/v1/quotas")).status_code == 403


def test_command_shows_sets_and_removes_quotas():
    def run(*arguments: str) -> str:
        output = io.StringIO()
        call_command("quota", *arguments, stdout=output)
        return output.getvalue()

    assert run("--runs-at-once", "3", "--cost-a-day", "2.5") == (
        "every user in all apps: 3 runs at once, 2.5 cost a day\n"
    )
    run("runner", "--app", "weather", "--tokens-a-day", "2000")
    assert "runner in weather: 2,000 tokens a day\n" in run()
    run("runner", "--app", "weather", "--runs-a-day", "4")
    assert "runner in weather: 4 runs a day" in run("runner", "--app", "weather", "--tokens-a-day", "none")
    assert "weather" not in run("runner", "--app", "weather", "--remove")
    for arguments, message in (
        (["--runs-a-day", "many"], "--runs-a-day is 'many', which is not a number"),
        (["nobody", "--runs-a-day", "1"], "no user 'nobody'"),
        (["runner", "--remove"], "no quota of runner in all apps"),
    ):
        with pytest.raises(CommandError, match=message) as refused:
            run(*arguments)
        assert refused.value.returncode == 2
    entries = AuditEntry.objects.order_by("pk").values_list("action", "kind", "object_id")
    assert entries[0] == ("edit", "quota", "every user in all apps: runs_at_once=3, cost_a_day=2.5")
    assert len(entries) == 5
