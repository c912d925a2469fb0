"""Checks of a run before it starts, and what the form and the list of runs say of the run before."""

from __future__ import annotations

import pytest

from evals_app.analysis.run_checks import preview_run
from evals_app.files import library
from evals_app.metrics.config import RunConfig
from evals_app.metrics.model_keys import find_missing_key
from evals_app.runs import run_orders
from evals_app.runs.run_orders import RunOrder
from sessions_app.runs import job_queue
from sessions_app.store.database import units_of_work
from tests.evals.builders import case, evalset, turn, write
from tests.evals.web_pages import get_page, start_run

QUALITY = "rubric_based_final_response_quality_v1"
RUBRIC = {
    "rubric_id": "greets",
    "rubric_content": {"text_property": "It greets."},
    "type": "FINAL_RESPONSE_QUALITY",
}
SCENARIO = {
    "eval_id": "scenario",
    "conversation_scenario": {"starting_prompt": "hi", "conversation_plan": "ask"},
}
CHECKED = evalset(
    case("judged", turn("hi", "hello"), rubrics=[RUBRIC]),
    case("untyped", turn("hi", "hello"), rubrics=[{**RUBRIC, "type": None}]),
    SCENARIO,
    eval_set_id="checked",
)


@pytest.fixture
def checked(web, folder, monkeypatch):
    """An evalset of which one case has rubrics of a type, one rubrics without a type, and one is a scenario."""
    for name in (
        "GOOGLE_API_KEY",
        "GEMINI_API_KEY",
        "GOOGLE_GENAI_USE_VERTEXAI",
        "GOOGLE_GENAI_USE_ENTERPRISE",
    ):
        monkeypatch.delenv(name, raising=False)
    return write(folder.path, "checked.evalset.json", CHECKED)


async def preview(criteria, *, cases=(), num_runs=1, **config):
    def read():
        evalset_row = library.find_evalset("counter", "checked")
        order = RunOrder(RunConfig({"criteria": criteria, **config}, "the test"), list(cases), num_runs)
        return preview_run(run_orders.prepare_run(evalset_row, order))

    await units_of_work.write(library.refresh_known, "counter")
    return await units_of_work.read(read)


async def test_metric_names_how_many_cases_it_judges(checked):
    warnings = (
        await preview({QUALITY: 0.5, "response_match_score": 0.8, "tool_trajectory_avg_score": 1.0})
    ).warnings
    assert [warning.partition(" cases")[0] for warning in warnings[:3]] == [
        "Rubric based final response quality: applies to 1 of 3",
        "Response match: applies to 2 of 3",
        "Tool trajectory: applies to 2 of 3",
    ]
    assert not (await preview({"response_match_score": 0.8}, cases=["judged"])).warnings


async def test_rubrics_of_a_criterion_apply_to_all_cases(checked, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "k")
    assert not (await preview({QUALITY: {"threshold": 0.5, "rubrics": [RUBRIC]}})).warnings


@pytest.mark.parametrize(("threshold", "is_warned"), [(0.99, False), (0.995, True), (1.0, True)])
async def test_unreachable_response_match_is_named(checked, threshold, is_warned):
    warnings = (await preview({"response_match_score": threshold}, cases=["judged"])).warnings
    assert any("paraphrases" in warning for warning in warnings) is is_warned


async def test_judge_and_simulated_user_without_key_are_named(checked):
    of_judge = await preview({"hallucinations_v1": 0.5}, cases=["judged"])
    assert [warning.partition(":")[0] for warning in of_judge.warnings] == ["gemini-2.5-flash"]
    of_scenario = await preview(
        {"hallucinations_v1": 0.5}, cases=["scenario"], user_simulator_config={"model": "openai/x"}
    )
    assert [warning.partition(":")[0] for warning in of_scenario.warnings] == ["gemini-2.5-flash", "openai/x"]
    assert not (await preview({"response_match_score": 0.5}, cases=["judged"])).warnings


@pytest.mark.parametrize(
    ("line", "is_set"),
    [
        ("GEMINI_API_KEY=abc", True),
        ("export GOOGLE_API_KEY = 'abc'", True),
        ("GOOGLE_API_KEY=", False),
        ('GOOGLE_API_KEY=""', False),
        ("# GOOGLE_API_KEY=abc", False),
    ],
)
async def test_key_in_the_env_file_of_the_agent_counts(checked, folder, line, is_set):
    (folder.path / ".env").write_text(f"A=1\n{line}\n")
    warnings = (await preview({"hallucinations_v1": 0.5}, cases=["judged"])).warnings
    assert (not warnings) is is_set
    assert "abc" not in str(warnings)


async def test_keys_of_workers_are_not_known(checked, monkeypatch):
    monkeypatch.setattr(job_queue, "current_queue", object)
    assert not (await preview({"hallucinations_v1": 0.5}, cases=["judged"])).warnings


def test_models_of_unknown_providers_need_no_key():
    assert find_missing_key("offline-judge", set()) == ""
    assert find_missing_key("gemini-2.5-pro", {"GOOGLE_GENAI_USE_VERTEXAI"}) == ""
    assert find_missing_key("anthropic/claude", {"GOOGLE_API_KEY"}) == "ANTHROPIC_API_KEY"


async def test_time_comes_from_earlier_attempts(web, process, smoke):
    async def estimate():
        page = await get_page(web, "/evals/counter/smoke/")
        return page.one("div", id="run-checks").text

    assert "3 attempts: time and cost are unknown before the first run." in await estimate()
    await start_run(web)
    assert "by 3 earlier attempts" in await estimate()


async def test_checks_follow_the_form(web, checked):
    fields = {
        "metric": ["hallucinations_v1"],
        "threshold:hallucinations_v1": "0.5",
        "case": ["judged"],
        "num_runs": "4",
    }
    await web.get("/evals/counter/checked/")
    headers = {"HX-Request": "true", "HX-Target": "run-checks"}
    response = await web.post("/evals/counter/checked/plan/", fields, headers=headers)
    assert response.status_code == 200
    assert "gemini-2.5-flash: no key" in response.content.decode()
    assert "4 attempts" in response.content.decode()
    response = await web.post("/evals/counter/checked/plan/", {**fields, "num_runs": "x"}, headers=headers)
    assert response.status_code == 200
    assert "no whole number" in response.content.decode()


async def test_form_remembers_repetitions_and_thresholds_of_the_last_run(web, process, smoke):
    await start_run(web, num_runs="2", **{"threshold:response_match_score": "0.6"})
    page = await get_page(web, "/evals/counter/smoke/")
    assert page.one("input", name="num_runs").attrs["value"] == "2"
    assert page.one("input", name="threshold:response_match_score").attrs["value"] == "0.6"
    assert page.one("input", name="threshold:tool_trajectory_avg_score").attrs["value"] == "1"
    assert "As in the last run; configured: 0.8" in page.text
    assert "6 attempts" in page.one("div", id="run-checks").text


async def test_list_of_runs_shows_a_changed_threshold(web, process, smoke):
    await start_run(web)
    await start_run(web)
    await start_run(web, **{"threshold:response_match_score": "0.9"})
    page = await get_page(web, "/evals/counter/smoke/")
    notes = page.one("div", id="evalset-runs").all("span", css="warn-text")
    assert [note.text for note in notes] == ["response match 0.5 → 0.9"]
