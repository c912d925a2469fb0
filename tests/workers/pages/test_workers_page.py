"""The page of the workers and its API: who is there, draining and removing."""

from __future__ import annotations

import time

import pytest
from asgiref.sync import sync_to_async
from django.db import connection

from devui.accounts.models import AuditEntry
from devui.workers import advertisement, worker_control
from devui.workers.advertisement import Instruction
from devui.workers.models import Worker
from devui.workers.overview import read_overview
from devui.workers.worker_facts import living_workers
from evals_app.models import EvalAttempt, EvalRun
from evals_app.rates.model_rates import note_back_off
from sessions_app.agent_processes import processes
from sessions_app.runs import lifecycle
from sessions_app.store.errors import NotFound
from sessions_app.store.models import Run, RuntimeProcess
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes
from tests.accounts.conftest import BROWSER, cookie_of
from tests.evals import stored_runs
from tests.pages.html import parse
from tests.workers.pages.conftest import CODE, ELSEWHERE

pytestmark = pytest.mark.usefixtures("people")


async def open_as(web, name: str, path: str = "/workers/", **headers: str):
    web.cookies.update(await sync_to_async(cookie_of)(name))
    return await web.get(path, headers=BROWSER | headers)


def busy_run(worker_id: str) -> Run:
    """Return a run that a process of a worker executes."""
    RuntimeProcess.objects.create(
        id="p1",
        app_name="weather",
        host=ELSEWHERE,
        pid=2,
        server_id=worker_id,
        started_at=1.0,
        heartbeat_at=1.0,
    )
    session = writes.create_session(SessionKey("", "weather", "ann", "s1"))
    run = lifecycle.create_run(session.pk, {}, runtime_id="p1")
    lifecycle.claim(run.pk, "p1", CODE)
    return run


def take_slot(engine_id: int) -> None:
    """Let a worker have a job of which no row shows yet that it has begun."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO procrastinate_workers (id) OVERRIDING SYSTEM VALUE VALUES (%s)", [engine_id]
        )
        cursor.execute(
            "INSERT INTO procrastinate_jobs (queue_name, task_name, args, status, worker_id)"
            " VALUES ('attempts', 'attempt', '{}', 'doing', %s)",
            [engine_id],
        )


async def test_page_shows_who_does_what_with_which_code(web, add_worker):
    await sync_to_async(add_worker)("w1", engine_id=1)
    await sync_to_async(add_worker)("w2", is_draining=True)
    await sync_to_async(add_worker)("w3", stopped_at=time.time())
    await sync_to_async(add_worker)("w4", engine_id=4)
    await sync_to_async(busy_run)("w1")
    await sync_to_async(take_slot)(4)
    page = parse((await open_as(web, "reader")).content)
    rows = {
        row.attrs["id"]: row.text
        for row in page.one("table", css="worker-table").all("tr")
        if "id" in row.attrs
    }
    assert list(rows) == ["worker-w1", "worker-w2", "worker-w4", "worker-w3"]
    assert rows["worker-w1"].startswith("alive w1:8100")
    assert "ADK 2.13.0" in rows["worker-w1"]
    assert "weather 9bc6d7c" in rows["worker-w1"]
    assert "s1 started" in rows["worker-w1"]
    assert "0 of 2" in rows["worker-w1"]
    assert rows["worker-w2"].startswith("draining")
    assert rows["worker-w3"].startswith("gone")
    assert page.one("nav", css="subplaces", aria_label="Monitor").all("a")[-1].text == "Workers"
    idle = page.one("tr", id="worker-w2").all("td", data_label="Works on")
    assert [cell.text for cell in idle] == ["nothing"]
    assert "starting 1 of 2" in rows["worker-w4"]


def test_attempts_count_at_the_worker_that_executes_them(add_worker, people):
    for worker_id in ("w1", "w2"):
        add_worker(worker_id)
        RuntimeProcess.objects.create(
            id=f"p-{worker_id}",
            app_name="counter",
            host=ELSEWHERE,
            pid=2,
            server_id=worker_id,
            started_at=1.0,
            heartbeat_at=1.0,
        )
    names = ("one", "two", "three")
    run = stored_runs.run(
        stored_runs.version(stored_runs.cases(*names)), {name: [stored_runs.passing()] for name in names}
    )
    EvalRun.objects.filter(pk=run.pk).update(status=EvalRun.Status.RUNNING, runtime="w1")
    attempts = EvalAttempt.objects.filter(run=run)
    attempts.exclude(case_id="one").update(status=EvalAttempt.Status.RUNNING, runtime="p-w2")
    work = {worker.row.pk: worker.work for worker in read_overview().workers}
    assert {pk: [(item.title, item.attempts) for item in items] for pk, items in work.items()} == {
        "w1": [("kept", 0)],
        "w2": [("kept", 2)],
    }


async def test_page_names_the_models_that_must_not_be_asked(web, add_worker):
    await sync_to_async(add_worker)("w1")
    await sync_to_async(note_back_off)("gemini-2.5-flash", 3_600, "Its service asked for a pause", None)
    page = parse((await open_as(web, "reader")).content)
    (row,) = page.all("table")[0].all("tr")[1:]
    assert row.text == "requests to gemini-2.5-flash Its service asked for a pause."
    answer = (await open_as(web, "reader", "/api/v1/workers")).json()
    assert [model["model"] for model in answer["held_models"]] == ["gemini-2.5-flash"]


async def test_list_is_sent_again_only_when_it_has_changed(web, add_worker):
    await sync_to_async(add_worker)("w1")
    page = parse((await open_as(web, "reader")).content)
    poll = page.one("div", id="workers").attrs["hx-get"]
    headers = {"HX-Request": "true", "HX-Target": "workers"}
    assert (await open_as(web, "reader", poll, **headers)).status_code == 204
    await sync_to_async(RuntimeProcess.objects.filter(pk="w1").update)(heartbeat_at=time.time())
    assert (await open_as(web, "reader", poll, **headers)).status_code == 204
    await sync_to_async(worker_control.drain_worker)("w1")
    assert "draining" in (await open_as(web, "reader", poll, **headers)).text


async def test_page_without_workers_says_how_to_start_one(web):
    page = parse((await open_as(web, "reader")).content)
    assert "devui worker AGENTS_DIR" in page.one("div", id="workers").text


def test_fleet_takes_ten_queries(transactional_db, add_worker, django_assert_num_queries):
    for number in range(4):
        add_worker(f"w{number}", engine_id=number)
    busy_run("w1")
    with django_assert_num_queries(10):
        overview = read_overview()
    assert [len(worker.work) for worker in overview.workers] == [0, 1, 0, 0]


def test_worker_of_another_host_is_gone_after_its_silence(transactional_db, add_worker, monkeypatch):
    add_worker("w1", host=ELSEWHERE)
    assert [worker.id for worker in living_workers()] == ["w1"]
    monkeypatch.setattr(processes, "SILENCE_S", 0.0)
    assert [worker.status for worker in read_overview().workers] == ["gone"]


def test_worker_reads_that_it_is_drained(transactional_db, add_worker):
    add_worker("w1")
    facts = {"engine_id": 3, "is_draining": False}
    assert advertisement.advertise("w1", {}, **facts) == Instruction.TAKE_RUNS
    worker_control.drain_worker("w1")
    assert advertisement.advertise("w1", {}, **facts) == Instruction.DRAIN
    assert Worker.objects.get(pk="w1").is_draining


def test_removed_worker_is_gone_with_its_processes_and_ends_when_it_wakes(transactional_db, add_worker):
    add_worker("w1")
    run = busy_run("w1")
    worker_control.remove_worker("w1")
    assert read_overview().workers == living_workers() == []
    lifecycle.crash_orphans()
    assert lifecycle.get_status(run.pk) == Run.Status.CRASHED
    assert advertisement.advertise("w1", {}, engine_id=3, is_draining=False) == Instruction.END
    assert RuntimeProcess.objects.get(pk="w1").stopped_at is not None
    with pytest.raises(NotFound, match="There is no worker 'w1'"):
        worker_control.remove_worker("w1")


def test_worker_whose_row_was_deleted_ends(transactional_db):
    assert advertisement.advertise("w1", {}, engine_id=3, is_draining=False) == Instruction.END


@pytest.mark.parametrize("name", ["reader", "runner"])
async def test_only_admins_drain_and_remove(web, add_worker, name):
    await sync_to_async(add_worker)("w1")
    web.cookies.update(await sync_to_async(cookie_of)(name))
    for send in (
        web.post("/workers/w1/drain/", headers=BROWSER),
        web.post("/workers/w1/remove/", headers=BROWSER),
        web.post("/api/v1/workers/w1/drain", headers=BROWSER),
        web.delete("/api/v1/workers/w1", headers=BROWSER),
    ):
        assert (await send).status_code == 403
    assert not await sync_to_async(Worker.objects.exclude(is_draining=False, removed_at=None).exists)()


async def test_draining_and_removing_are_audited(web, add_worker):
    await sync_to_async(add_worker)("w1")
    web.cookies.update(await sync_to_async(cookie_of)("admin"))
    assert (await web.post("/workers/w1/drain/", headers=BROWSER)).status_code == 302
    question = parse((await web.get("/workers/w1/remove/", headers=BROWSER)).content)
    assert question.one("h1", id="dialog-title").text == "Remove this worker?"
    assert (await web.post("/workers/w1/remove/", headers=BROWSER)).status_code == 302
    assert (await web.post("/workers/w1/drain/", headers=BROWSER)).status_code == 404
    columns = ("person", "action", "kind", "object_id", "outcome")
    entries = await sync_to_async(lambda: list(AuditEntry.objects.order_by("pk").values_list(*columns)))()
    assert entries == [
        ("admin", "drain", "worker", "w1", "done"),
        ("admin", "remove", "worker", "w1", "done"),
        ("admin", "drain", "worker", "w1", "failed"),
    ]


async def test_request_of_another_site_changes_nothing(web, add_worker):
    await sync_to_async(add_worker)("w1")
    web.cookies.update(await sync_to_async(cookie_of)("admin"))
    headers = {"Origin": "https://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    assert (await web.post("/workers/w1/remove/", headers=headers)).status_code == 403
    assert await sync_to_async(Worker.objects.filter(removed_at=None).count)() == 1


async def test_api_lists_drains_and_removes(web, add_worker):
    await sync_to_async(add_worker)("w1", engine_id=1)
    await sync_to_async(busy_run)("w1")
    web.cookies.update(await sync_to_async(cookie_of)("admin"))
    (worker,) = (await web.get("/api/v1/workers", headers=BROWSER)).json()["workers"]
    assert worker["apps"] == {"weather": CODE}
    assert (worker["status"], worker["slots"], worker["adk_version"]) == ("alive", 2, "2.13.0")
    assert [(item["kind"], item["title"]) for item in worker["work"]] == [("conversation", "s1")]
    assert (await web.post("/api/v1/workers/w1/drain", headers=BROWSER)).status_code == 204
    (worker,) = (await web.get("/api/v1/workers", headers=BROWSER)).json()["workers"]
    assert worker["status"] == "draining"
    assert (await web.delete("/api/v1/workers/w1", headers=BROWSER)).status_code == 204
    refused = await web.delete("/api/v1/workers/w1", headers=BROWSER)
    assert (refused.status_code, refused.json()["code"]) == (404, "not_found")


async def test_metrics_and_readiness_know_the_workers(web, add_worker):
    await sync_to_async(add_worker)("w1", engine_id=1)
    await sync_to_async(add_worker)("w2", is_draining=True)
    text = (await open_as(web, "reader", "/metrics")).text
    assert 'devui_workers{status="alive"} 1.0' in text
    assert 'devui_workers{status="draining"} 1.0' in text
    assert 'devui_worker_slots{state="free"} 4.0' in text
    ready = (await open_as(web, "reader", "/ready")).json()
    assert ready == {"status": "ready", "engine": {"name": "procrastinate", "alive": 1, "draining": 1}}
    web.cookies.clear()
    assert (await web.get("/ready")).json() == {"status": "ready"}
