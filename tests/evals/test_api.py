"""/api/v1/evals: evalsets, a run from start to results, refusals in one shape."""

from __future__ import annotations

import pytest

from evals_app.models import EvalRun
from sessions_app.store.database import units_of_work
from tests.evals import stored_runs
from tests.evals.api_requests import get_json, post_json
from tests.evals.builders import write
from tests.evals.conftest import wait_until_settled
from tests.pages.html import parse


async def test_evalsets_are_listed_with_their_problems(web, smoke, folder):
    write(folder.path, "broken.evalset.json", "{")
    broken, good = await get_json(web, "/evalsets?app=counter")
    assert (good["id"], [case["id"] for case in good["cases"]]) == (
        "smoke",
        ["good", "bad <script>", "breaks"],
    )
    assert broken["problems"][0]["line"] == 1
    assert good["problems"] == []


async def test_a_run_from_its_start_to_its_results(web, process, smoke):
    expected = {"app": "counter", "evalset": "smoke", "cases": ["good", "breaks"], "num_runs": 2}
    started = await post_json(web, "/runs", expected, 202)
    await wait_until_settled()
    run = await get_json(web, f"/runs/{started['id']}")
    assert (run["status"], run["source"]) == ("done", "api")
    assert run["counts"] == {
        "total": 4,
        "passed": 2,
        "failed": 0,
        "error": 2,
        "incomplete": 0,
        "cancelled": 0,
    }
    results = await get_json(web, f"/runs/{run['id']}/results")
    by_case = {(attempt["case"], attempt["repetition"]): attempt for attempt in results["attempts"]}
    assert by_case["breaks", 2]["error"]["type"] == "RuntimeError"
    overall = {m["metric"]: m["score"] for m in by_case["good", 1]["metrics"] if m["turn"] is None}
    assert overall["tool_trajectory_avg_score"] == 1.0
    json = await get_json(web, f"/attempts/{by_case['good', 1]['id']}")
    assert json["session"]
    assert (await get_json(web, "/runs?app=counter&evalset=smoke&limit=1"))["runs"][0]["id"] == run["id"]
    assert (await post_json(web, f"/runs/{run['id']}/cancel", {}, 202))["status"] == "done"


async def test_a_configuration_may_be_sent(web, process, smoke):
    config = {"criteria": {"response_match_score": {"threshold": 0.1}}}
    run = await post_json(web, "/runs", {"app": "counter", "evalset": "smoke", "config": config}, 202)
    assert run["config"] == config


async def test_metrics_are_listed_with_reason_if_unavailable(web):
    metrics = {metric["name"]: metric for metric in await get_json(web, "/metrics")}
    assert metrics["response_match_score"]["default"] == 0.8
    assert "vertex extra" in metrics["safety_v1"]["reason"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"app": "counter", "evalset": "none"}, 404, "not_found"),
        ({"app": "counter", "evalset": "smoke", "metrics": ["nonsense"]}, 400, "bad_input"),
        ({"app": "counter", "evalset": "smoke", "criteria": {"response_match_score": 3}}, 400, "bad_input"),
        ({"app": "counter", "evalset": "smoke", "config": {"criteria": 3}}, 400, "bad_file"),
        ({"app": "counter", "evalset": "smoke", "num_runs": 0}, 400, "bad_input"),
        ({"evalset": "smoke"}, 422, None),
    ],
)
async def test_invalid_order_is_refused(web, smoke, body, status, code):
    answer = await post_json(web, "/runs", body, status)
    assert {"detail", "code", "hint"} <= set(answer)
    assert code is None or answer["code"] == code


async def test_missing_objects_are_404(web):
    assert (await get_json(web, "/runs/none", 404))["code"] == "not_found"
    assert (await get_json(web, "/attempts/1", 404))["code"] == "not_found"


async def test_comparison_and_case_are_exported_as_html_files(web):
    def store_runs():
        of = stored_runs.version(stored_runs.cases("a"))
        then, now = (stored_runs.run(of, {"a": [stored_runs.passing()]}, code=code) for code in ("v1", "v2"))
        return then.pk, now.pk, now.attempts.get().pk

    then, now, attempt = await units_of_work.write(store_runs)
    files = {
        f"/api/v1/evals/runs/{now}/compare/html?with={then}": "counter / kept: two runs",
        f"/api/v1/evals/attempts/{attempt}/html": "a",
    }
    for address, heading in files.items():
        response = await web.get(address)
        assert response.headers["Content-Type"] == "text/html; charset=utf-8"
        assert response.headers["Content-Disposition"].startswith("attachment")
        assert parse(response.content).one("h1").text == heading
    assert (await web.get(f"/api/v1/evals/attempts/{10**9}/html")).status_code == 404
    assert (await web.get(f"/api/v1/evals/runs/{now}/compare/html?with=none")).status_code == 404


async def test_run_that_could_not_run_is_compared_and_says_so(web):
    def store_runs():
        of = stored_runs.version(stored_runs.cases("a"))
        then, now = (stored_runs.run(of, {"a": [stored_runs.passing()]}, code=code) for code in ("v1", "v2"))
        EvalRun.objects.filter(pk=now.pk).update(status=EvalRun.Status.FAILED)
        return then.pk, now.pk

    then, now = await units_of_work.write(store_runs)
    response = await web.get(f"/api/v1/evals/runs/{now}/compare?with={then}")
    facts = response.json()
    assert (response.status_code, facts["title"], facts["exit_code"]) == (200, "Evals could not run", 2)
