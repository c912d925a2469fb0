"""Actions on runs, on the page and by the API: resume, retry, repeat, change parallelism, cancel an attempt."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.attempt_status import PROCESS_GONE
from evals_app.runs.writes import runs
from evals_app.runs.writes.attempts import start_attempt
from sessions_app.agents.folder import configured_folder
from sessions_app.store.database import units_of_work
from tests.evals.api_requests import get_json, post_json
from tests.evals.conftest import wait_until_settled
from tests.evals.web_pages import get_page, start_run

Status = EvalAttempt.Status


@pytest.fixture
async def ended_run(web, process, folder, smoke):
    """A run that has ended: one attempt passed, one failed, one erred."""
    process.source = replace(process.source, code_version=folder.code_version("counter"))
    await start_run(web)
    return await units_of_work.read(EvalRun.objects.get)


async def cut_short(run):
    """Make it a run whose process died with one attempt in flight and one waiting."""

    def cut():
        attempts = EvalAttempt.objects.filter(run=run)
        attempts.filter(case_id="good").update(status=Status.ERROR, error_type=PROCESS_GONE)
        attempts.filter(case_id="breaks").update(status=Status.CANCELLED, started_at=None, tries=0)
        EvalRun.objects.filter(pk=run.pk).update(status="crashed", passed=0, cancelled=1)

    await units_of_work.write(cut)


async def test_the_numbers_of_a_large_run_are_written_alike(web, ended_run):
    await cut_short(ended_run)
    await units_of_work.write(lambda: EvalRun.objects.filter(pk=ended_run.pk).update(total=1200))
    page = await get_page(web, f"/evals/runs/{ended_run.id}/")
    assert "1,200 attempts did not finish." in page.text
    assert "of 1,200 passed" in page.text
    assert "1200" not in page.text


def by_case():
    return {attempt.case_id: attempt for attempt in EvalAttempt.objects.order_by("case_index", "repetition")}


async def test_a_run_that_was_cut_short_is_offered_to_be_resumed(web, ended_run):
    await cut_short(ended_run)
    page = await get_page(web, f"/evals/runs/{ended_run.id}/")
    assert "2 of 3 attempts did not finish." in page.text
    assert "1 that was running when the run ended runs again" in page.text
    response = await web.post(f"/evals/runs/{ended_run.id}/resume/")
    assert (response.status_code, response.url) == (302, f"/evals/runs/{ended_run.id}/")
    await wait_until_settled()
    attempts = await units_of_work.read(by_case)
    assert {name: attempt.tries for name, attempt in attempts.items()} == {
        "good": 2,
        "bad <script>": 1,
        "breaks": 1,
    }
    page = await get_page(web, f"/evals/runs/{ended_run.id}/")
    assert "resumed 1 time" in page.text
    assert "1 attempt ran more than once" in page.text
    assert "did not finish" not in page.text


async def test_run_list_offers_to_resume_resumable_runs(web, ended_run):
    async def offered():
        page = (await web.get("/evals/counter/smoke/")).content.decode()
        return [f'action="/evals/runs/{ended_run.id}/{act}/"' in page for act in ("resume", "retry")]

    assert await offered() == [False, True]
    await cut_short(ended_run)
    assert await offered() == [True, True]
    await units_of_work.write(EvalRun.objects.update, source="import")
    assert await offered() == [False, False]
    await units_of_work.write(EvalRun.objects.update, source="page", status="running")
    assert await offered() == [False, False]


async def test_failed_attempts_are_retried_from_the_page(web, ended_run):
    page = await get_page(web, f"/evals/runs/{ended_run.id}/")
    assert "Rerun the 2 that did not pass" in page.text
    response = await web.post(f"/evals/runs/{ended_run.id}/retry/")
    retry = await units_of_work.read(EvalRun.objects.get, source="retry")
    assert response.url == f"/evals/runs/{retry.id}/"
    await wait_until_settled()
    assert (await units_of_work.read(EvalRun.objects.get, pk=retry.id)).total == 2
    page = await get_page(web, response.url)
    assert f"This run tries 2 attempts of run {ended_run.id[:7]} again." in page.text
    assert "Pass rate of cases" not in page.text
    assert "Make baseline" not in page.text
    page = await get_page(web, f"/evals/runs/{ended_run.id}/")
    assert "1 of 3 after retries, 1 at first" in page.text
    assert page.all("a", href=f"/evals/runs/{retry.id}/")


async def test_attempt_is_retried_from_the_page_and_shows_its_later_try(web, ended_run):
    broken = (await units_of_work.read(by_case))["breaks"]
    address = f"/evals/runs/{ended_run.id}/?attempt={broken.pk}"
    assert "Rerun attempt" in (await get_page(web, address)).text
    await web.post(f"/evals/runs/{ended_run.id}/retry/", {"attempt": broken.pk})
    await wait_until_settled()
    later_try = await units_of_work.read(EvalAttempt.objects.get, run__source="retry")
    page = await get_page(web, address)
    assert "Later try: error, RuntimeError: <b>on fire</b>" in page.text
    assert page.all("a", href=f"/evals/runs/{later_try.run_id}/?attempt={later_try.pk}")
    page = await get_page(web, f"/evals/runs/{later_try.run_id}/?attempt={later_try.pk}")
    assert "First try, which counts: error, RuntimeError" in page.text
    assert page.all("a", href=f"/evals/runs/{ended_run.id}/?attempt={broken.pk}")


async def test_a_run_is_repeated_from_the_page(web, ended_run):
    response = await web.post(f"/evals/runs/{ended_run.id}/again/")
    await wait_until_settled()
    second = await units_of_work.read(EvalRun.objects.exclude(pk=ended_run.pk).get)
    assert response.url == f"/evals/runs/{second.id}/"
    assert (second.repeats_id, second.version_id, second.config) == (
        ended_run.id,
        ended_run.version_id,
        ended_run.config,
    )


async def test_parallelism_and_cancellation_are_stored_for_the_process(web, smoke):
    run = await units_of_work.write(order_run)
    await units_of_work.write(runs.claim_run, run.id, None)
    waiting, running, _ = await units_of_work.read(lambda: list(run.attempts.order_by("case_index")))
    await units_of_work.write(start_attempt, running.pk)
    page = await get_page(web, f"/evals/runs/{run.id}/")
    assert "4 at once" in page.text
    assert "0 of 3 ended" in page.text

    await web.post(f"/evals/runs/{run.id}/parallelism/", {"at_once": "5"})
    for attempt in (waiting, running):
        response = await web.post(f"/evals/runs/{run.id}/attempts/{attempt.pk}/cancel/")
        assert response.url == f"/evals/runs/{run.id}/?attempt={attempt.pk}"
    attempts = await units_of_work.read(by_case)
    assert (await units_of_work.read(EvalRun.objects.get)).parallelism == 5
    assert attempts["good"].status == Status.CANCELLED
    assert (attempts["bad <script>"].status, attempts["bad <script>"].cancel_requested_at is None) == (
        Status.RUNNING,
        False,
    )


def order_run():
    from evals_app.files import library
    from evals_app.metrics import config
    from evals_app.runs import run_orders

    folder = configured_folder()
    evalset = library.register_file(folder, "counter", folder.path / "smoke.evalset.json")
    return run_orders.order_run(evalset, run_orders.RunOrder(config.default_config()))


@pytest.mark.parametrize(
    ("path", "form", "status", "message"),
    [
        ("resume/", {}, 400, "The run has no unfinished attempts."),
        ("retry/", {"attempt": "x"}, 400, "is no whole number"),
        ("retry/", {"attempt": "9" * 5000}, 400, "is no whole number"),
        ("retry/", {"attempt": "999999"}, 404, "has no attempt 999999"),
        ("parallelism/", {"at_once": "65"}, 400, "Parallelism must be 1 to 64"),
        ("parallelism/", {"at_once": ""}, 400, "is no whole number"),
        ("attempts/999999/cancel/", {}, 404, "has no attempt 999999"),
    ],
)
async def test_impossible_action_is_refused_with_reason(web, ended_run, path, form, status, message):
    response = await web.post(f"/evals/runs/{ended_run.id}/{path}", form)
    assert response.status_code == status
    assert message in response.content.decode()


async def test_limits_come_from_the_form_and_the_api(web, process, smoke):
    response = await start_run(
        web,
        **{
            "limit:seconds": "90",
            "limit:attempt_seconds": "",
            "limit:cost": "0.5",
            "limit:retry_seconds": "0",
        },
    )
    run_id = response.url.rstrip("/").rpartition("/")[2]
    run = await units_of_work.read(EvalRun.objects.get, pk=run_id)
    assert json.loads(run.limits) == {"seconds": 90.0, "cost": 0.5, "retry_seconds": 0.0}
    expected = {"app": "counter", "evalset": "smoke", "limits": {"tokens": 1000, "attempt_seconds": 60}}
    body = await post_json(web, "/runs", expected, 202)
    run = await units_of_work.read(EvalRun.objects.get, pk=body["id"])
    assert json.loads(run.limits) == {"tokens": 1000, "attempt_seconds": 60.0, "retry_seconds": 120.0}
    refusal = await post_json(web, "/runs", {**expected, "limits": {"tokens": -1}}, 400)
    assert "tokens must be a positive whole number" in refusal["detail"]


async def test_runs_are_steered_by_the_api(web, ended_run):
    await cut_short(ended_run)
    body = await post_json(web, f"/runs/{ended_run.id}/resume", {}, 202)
    await wait_until_settled()
    body = await get_json(web, f"/runs/{ended_run.id}")
    assert (body["status"], body["counts"]["passed"]) == ("done", 1)
    broken = (await units_of_work.read(by_case))["breaks"]
    body = await post_json(web, f"/runs/{ended_run.id}/retry", {"attempts": [broken.pk]}, 202)
    await wait_until_settled()
    retry = await units_of_work.read(EvalRun.objects.get, source="retry")
    assert (body["id"], body["executes"]) == (ended_run.id, [retry.id])
    body = await get_json(web, f"/runs/{ended_run.id}")
    assert body["retries"] == {"passed": 1, "runs": [retry.id]}
    assert (await get_json(web, f"/runs/{retry.id}"))["repeats"] == ended_run.id
    [later_try] = (await get_json(web, f"/attempts/{broken.pk}"))["later"]
    assert (later_try["run"], later_try["status"]) == (retry.id, "error")
    again = await post_json(web, f"/runs/{ended_run.id}/again", {}, 202)
    await wait_until_settled()
    assert (again["id"] != ended_run.id, again["source"]) == (True, "api")
    assert (await post_json(web, f"/runs/{ended_run.id}/attempts/{broken.pk}/cancel", {}, 202))[
        "status"
    ] == "error"
    url = f"/api/v1/evals/runs/{ended_run.id}/parallelism"
    response = await web.put(url, {"parallelism": 0}, content_type="application/json")
    assert response.status_code == 400
    response = await web.put(url, {"parallelism": 8}, content_type="application/json")
    assert response.json()["parallelism"] == 2  # it has ended
    assert (
        "no unfinished attempts" in (await post_json(web, f"/runs/{ended_run.id}/resume", {}, 400))["detail"]
    )
    assert "No eval run" in (await post_json(web, "/runs/nobody/again", {}, 404))["detail"]
