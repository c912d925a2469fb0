"""Power of planned runs: chances of a comparison before anything runs, on the command line and in the run form."""

from __future__ import annotations

import random

import pytest

from evals_app.analysis import baselines, planned_runs
from evals_app.analysis.change_tests import OutcomeTable, adjust_for_many, adjust_smallest
from evals_app.analysis.comparison import compare
from evals_app.analysis.dependence import OutcomeCounts
from evals_app.analysis.outcomes import CaseKey, Outcomes, Sameness
from evals_app.analysis.power import is_regression, plan_power
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.writes.runs import NewEvalRun
from sessions_app.store.errors import BadInput
from tests.evals import stored_runs
from tests.evals.run_evals_command import EXAMPLE_AGENTS, run_evals, usage_error
from tests.evals.web_pages import get_page, start_run
from tests.pages.html import parse

THEN, NOW = Sameness("a", "m", "d", "j"), Sameness("b", "m", "d", "j")


def earlier(passed, total, cases=20):
    return {CaseKey(str(number)): OutcomeCounts(passed, total) for number in range(cases)}


def random_tables(rng):
    total, earlier_total, rate = rng.randint(1, 10), rng.randint(1, 30), rng.random()

    def count(rounds, share):
        return sum(rng.random() < share for _ in range(rounds))

    return [
        OutcomeTable(count(total, rate * rng.random()), total, count(earlier_total, rate), earlier_total)
        for _ in range(rng.randint(1, 40))
    ]


@pytest.mark.parametrize("seed", range(60))
def test_simulated_runs_are_decided_as_real_ones(seed):
    tables = {CaseKey(str(n)): table for n, table in enumerate(random_tables(random.Random(seed)))}
    real = compare(
        {
            key: Outcomes(THEN, t.earlier_passed, t.earlier_total - t.earlier_passed)
            for key, t in tables.items()
        },
        {key: Outcomes(NOW, t.passed, t.total - t.passed) for key, t in tables.items()},
    )
    assert is_regression(list(tables.values()), 0.05) == bool(real.regressions)
    assert adjust_smallest(list(tables.values())) == pytest.approx(
        min(adjust_for_many(list(tables.values())))
    )


def test_more_repetitions_see_a_drop_more_often():
    chances = plan_power(earlier(30, 30), 20).chances
    assert [row.repetitions for row in chances] == [1, 2, 3, 5, 10, 20]
    single = [row.one_case for row in chances]
    assert single == sorted(single)
    assert single[0] == 0.0
    assert single[-1] > 0.95
    assert all(row.many_cases >= row.one_case for row in chances)


def test_longer_history_and_larger_drop_are_seen_more_often():
    def chance(outcomes, drop=0.5):
        return plan_power(earlier(outcomes, outcomes, 3), 3, drop).planned_chances.one_case

    assert chance(3) < chance(8) < chance(15)
    assert chance(15, 0.2) < chance(15, 0.5) < chance(15, 1.0) == 1.0


@pytest.mark.parametrize("rate", [1.0, 0.9, 0.5])
def test_false_alarm_is_never_above_the_level(rate):
    for row in plan_power(earlier(round(20 * rate), 20, 5), 3, level=0.02).chances:
        assert row.false_alarm <= 0.02


def test_same_plan_gets_the_same_answer():
    assert plan_power(earlier(18, 20, 4), 3) == plan_power(earlier(18, 20, 4), 3)


def test_many_cases_get_fewer_draws_and_say_the_precision():
    few, many = plan_power(earlier(6, 6), 1), plan_power(earlier(6, 6, 200), 1)
    assert (few.draws, many.draws) == (200, 40)
    assert (few.precision_points, many.precision_points) == (7, 15)


def test_case_that_cannot_regress_says_what_it_needs():
    cases = {
        CaseKey("new"): None,
        CaseKey("short"): OutcomeCounts(1, 1),
        CaseKey("failing"): OutcomeCounts(0, 6),
        CaseKey("long"): OutcomeCounts(90, 90),
    }
    remedies = {shortage.key.id: shortage.remedy for shortage in plan_power(cases, 3).shortages}
    assert remedies == {
        "new": "no comparable earlier outcomes: run the baseline with it first",
        "short": "1 of 1 passed earlier: needs 39 repetitions or 5 earlier outcomes in all",
        "failing": "0 of 6 passed earlier: it cannot get worse",
    }


def test_advice_says_what_to_do():
    assert plan_power({CaseKey("a"): None}, 1).advice == (
        "With 1 repetition and no earlier outcomes no drop can be proven. Run the baseline with 5 repetitions first."
    )
    assert plan_power(earlier(1, 1), 1).advice.startswith(
        "With 1 repetition no drop of a single case can be proven. Use more"
    )
    assert plan_power(earlier(30, 30), 1).advice.startswith(
        "Use 5 repetitions: they will probably show this drop"
    )
    assert plan_power(earlier(30, 30), 10).advice.startswith("10 repetitions will probably show this drop")
    assert "often be missed" in plan_power(earlier(57, 60), 10, 0.2).advice


@pytest.mark.parametrize("drop", [0.0, -0.5, 1.5, float("nan")])
def test_drop_outside_of_0_to_1_is_refused(drop):
    with pytest.raises(BadInput, match="more than 0 and at most 1"):
        plan_power(earlier(5, 5), 1, drop)


NAMES = ("one", "two", "three")
WEATHER = EXAMPLE_AGENTS / "weather"


def store_run(passes, repetitions, names=NAMES, **options):
    """Store a run in which every case passes so many times; return its version, too."""
    outcomes = [stored_runs.passing()] * passes + [stored_runs.failing()] * (repetitions - passes)
    version = stored_runs.version(stored_runs.cases(*names))
    return stored_runs.run(version, dict.fromkeys(names, outcomes), **options)


def planned_run(run, num_runs=3, names=NAMES, config=None):
    return NewEvalRun(
        run.version,
        [(place, name) for place, name in enumerate(NAMES) if name in names],
        config=config or {"criteria": stored_runs.CRITERIA},
        num_runs=num_runs,
    )


def test_plan_counts_the_baseline_and_its_history(store):
    first = store_run(3, 3)
    newest = store_run(2, 3)
    plan = planned_runs.plan_run(planned_run(newest))
    assert (plan.reference.run, plan.power.cases, plan.power.comparable) == (newest, 3, 3)
    assert plan.power.shortages == planned_runs.plan_run(planned_run(first)).power.shortages
    assert plan.power.shortages[0].earlier == OutcomeCounts(5, 6)
    EvalRun.objects.filter(pk=first.pk).update(baseline=True)
    assert planned_runs.plan_run(planned_run(newest)).reference.run == first
    plan_by_name = planned_runs.plan_run(planned_run(newest), baseline_name=newest.pk)
    assert plan_by_name.reference.run == newest


def test_plan_foresees_the_comparison_of_the_run(store):
    then = store_run(5, 5)
    assert planned_runs.plan_run(planned_run(then, 5), drop=1.0).power.planned_chances.one_case == 1.0
    now = store_run(0, 5, code="v2")
    assert baselines.compare_runs(then, now).regressions


def test_plan_is_about_the_chosen_cases_under_the_same_criteria(store):
    run = store_run(5, 5, names=("one", "two"))
    grown = store_run(5, 5)
    EvalRun.objects.filter(pk=grown.pk).delete()
    plan = planned_runs.plan_run(
        NewEvalRun(
            grown.version, [(1, "two"), (2, "three")], config={"criteria": stored_runs.CRITERIA}, num_runs=5
        )
    )
    assert plan.reference.run == run
    assert [shortage.key.id for shortage in plan.power.shortages] == ["three"]
    stricter = planned_run(grown, 5, config={"criteria": {"response_match_score": 0.9}})
    assert planned_runs.plan_run(stricter).power.comparable == 2, "stored scores are judged again"
    other = planned_run(grown, 5, config={"criteria": {"final_response_match_v2": 0.9}})
    assert planned_runs.plan_run(other).power.comparable == 0


def test_plan_says_that_a_run_without_outcomes_is_no_baseline(store):
    run = store_run(5, 5)
    run.attempts.filter(repetition__gt=2).update(status="error", error_type="ModelUnavailable")
    plan = planned_runs.plan_run(planned_run(run))
    assert plan.advice.startswith("9 of 15 attempts of the run before have no outcome")
    assert plan.power.chances == []


@pytest.mark.parametrize("cases", [3, 10])
def test_number_of_queries_does_not_grow_with_cases(store, cases, django_assert_num_queries):
    names = [f"case {number}" for number in range(cases)]
    run = store_run(2, 2, names=names)
    planned = NewEvalRun(run.version, list(enumerate(names)), config={"criteria": stored_runs.CRITERIA})
    planned_runs.plan_run(planned)
    with django_assert_num_queries(4):
        planned_runs.plan_run(planned)


def test_command_writes_the_plan_and_runs_nothing(store):
    code, out = run_evals(WEATHER, "lookups", "--plan")
    assert (code, EvalRun.objects.count()) == (0, 0)
    assert "weather/lookups.evalset.json: 7 cases, no run to compare with" in out
    assert "With 1 repetition and no earlier outcomes no drop can be proven." in out
    run_evals(WEATHER, "lookups", "--num-runs=5")
    baseline = EvalRun.objects.get()
    code, out = run_evals(WEATHER, "lookups", "--plan", "--num-runs=4", "--drop=1")
    assert (code, EvalRun.objects.count(), EvalAttempt.objects.count()) == (0, 1, 35)
    assert f"7 cases, against run {baseline.pk}" in out
    assert "chance to see a pass rate fall by 100 points, ±7 points:" in out
    assert [line.split()[0] for line in out.splitlines() if "%" in line] == ["1", "2", "3", "4", "5", "10"]
    assert next(line for line in out.splitlines() if "(planned)" in line).split()[:2] == ["4", "100"]
    assert "4 repetitions will probably show this drop" in out
    _, out = run_evals(WEATHER, "lookups", "--plan")
    assert "With 1 repetition, 7 of 7 cannot be called regressed, even if they always fail:" in out
    assert "one_city: 5 of 5 passed earlier: needs 3 repetitions or 39 earlier outcomes in all" in out


def test_command_refuses_options_that_need_a_run(store):
    assert "Leave out --markdown" in usage_error(WEATHER, "lookups", "--plan", "--markdown=a.md")
    assert "Leave out --confirm, --max-cost" in usage_error(
        WEATHER, "lookups", "--plan", "--confirm=5", "--max-cost=1"
    )
    assert "Leave out --resume" in usage_error(WEATHER, "--plan", "--resume=last")
    assert "Name evalsets to plan" in usage_error(WEATHER, "--plan")
    assert "A drop must be more than 0 and at most 1, not 2" in usage_error(
        WEATHER, "lookups", "--plan", "--drop=2"
    )
    assert "no run is marked as baseline" in usage_error(WEATHER, "lookups", "--plan", "--baseline=baseline")
    assert "--drop is an option of --plan" in usage_error(WEATHER, "lookups", "--drop=0.3")


FORM = {
    "metric": ["tool_trajectory_avg_score", "response_match_score"],
    "threshold:tool_trajectory_avg_score": "1",
    "threshold:response_match_score": "0.5",
    "num_runs": "3",
}


async def post_plan(web, status=200, headers=None, **fields):
    response = await web.post("/evals/counter/smoke/plan/", {**FORM, **fields}, headers=headers or {})
    assert response.status_code == status, response.content.decode()[:3000]
    return parse(response.content)


async def plan_text(web, status=200, **fields):
    part = await post_plan(web, status, {"HX-Request": "true", "HX-Target": "plan"}, **fields)
    return " ".join(part.text.split())


async def test_run_form_asks_for_the_chance_to_see_a_drop(web, smoke):
    form = (await get_page(web, "/evals/counter/smoke/")).one("form", id="run-form")
    run, *others = form.all("button")
    assert "formaction" not in run.attrs
    assert others[-1].attrs["formaction"] == others[-1].attrs["hx-post"] == "/evals/counter/smoke/plan/"
    assert "With 3 repetitions and no earlier outcomes no drop can be proven." in await plan_text(web)


async def test_plan_without_scripts_is_a_page(web, process, smoke):
    await start_run(web, num_runs="3")
    page = await post_plan(web)
    assert page.one("h1").text == "How many repetitions are enough"
    rows = page.one("tbody").all("tr")
    assert [row.one("th").text for row in rows] == ["1", "2", "3 (planned)", "5", "10"]
    assert "against the newest run and its history" in " ".join(page.text.split())
    assert "cannot be called regressed" in page.text
    assert (await get_page(web, "/evals/counter/smoke/plan/")).one(
        "h1"
    ).text == "How many repetitions are enough"


async def test_plan_refuses_an_invalid_form(web, smoke):
    assert "at most 1, not 2" in await plan_text(web, 422, drop="2")
    assert "The drop is no number: 'x'" in await plan_text(web, 422, drop="x")
    assert "has no case 'gone'" in await plan_text(web, 422, case="gone")
    assert "Repetitions must be 1 to" in await plan_text(web, 422, num_runs="0")
