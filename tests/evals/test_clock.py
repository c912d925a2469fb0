"""Clock changes while evals run: limits use elapsed time, and durations stay right."""

from __future__ import annotations

import asyncio

import pytest

from evals_app.execution.run_execution import execute_run
from evals_app.files import library
from evals_app.metrics.config import RunConfig
from evals_app.models import EvalRun
from evals_app.runs import rerun, run_orders
from evals_app.runs.limits import EvalRunLimits
from evals_app.runs.progress import elapsed_seconds
from evals_app.runs.run_orders import RunOrder
from evals_app.runs.spending import spending_since
from evals_app.runs.writes import crashes, runs
from evals_app.runs.writes.attempts import finish_attempt, start_attempt
from evals_app.runs.writes.crashes import ProcessDeath
from evals_app.runs.writes.outcomes import Outcome
from evals_app.runs.writes.runs import crash_run
from sessions_app.agent_processes import processes
from sessions_app.prices import Prices
from sessions_app.store.database import units_of_work
from sessions_app.store.models import ModelCall
from tests.evals import agents
from tests.evals.builders import case, evalset, turn, write
from tests.patience import PATIENCE_S
from tests.settable_clock import STEPS_S, Clock

TWO = evalset(*[case(word, turn(word, "fine")) for word in ("go", "set")])


@pytest.fixture
def clock(monkeypatch, tmp_path) -> Clock:
    return Clock(monkeypatch, tmp_path / "shift")


@pytest.mark.parametrize("step", STEPS_S)
async def test_durations_ignore_clock_changes(play, clock, step):
    async def answer(ctx, text):
        if text == "set":
            clock.step(step)
            await asyncio.sleep(1.2)  # the run is looked at every second
        return "fine"

    run = await play(TWO, answer, parallelism=1, limits=EvalRunLimits(seconds=600, attempt_seconds=300))

    attempts = await units_of_work.read(lambda: list(run.attempts.all()))
    assert (run.status, run.passed, run.stopped_because) == ("done", 2, "")
    assert 1.2 <= elapsed_seconds(run) < 300
    assert all(0 <= attempt.finished_at - attempt.started_at < 300 for attempt in attempts)
    assert all(
        run.started_at <= attempt.started_at <= attempt.finished_at <= run.finished_at for attempt in attempts
    )
    calls = await units_of_work.read(lambda: list(ModelCall.objects.all()))
    assert all(0 <= call.finished_at - call.started_at < 300 for call in calls)


@pytest.mark.parametrize("limits", [EvalRunLimits(seconds=0.5), EvalRunLimits(attempt_seconds=0.5)])
async def test_limits_are_reached_though_the_clock_is_set_back(play, clock, limits):
    async def answer(ctx, text):
        clock.step(-3600)
        await asyncio.sleep(3600)

    document = evalset(case("hangs", turn("go", "fine")))
    async with asyncio.timeout(PATIENCE_S):
        run = await play(document, answer, limits=limits)

    [attempt] = await units_of_work.read(lambda: list(run.attempts.all()))
    assert attempt.status in {"error", "cancelled"}
    assert 0 <= attempt.finished_at - attempt.started_at < 60


PROCESS = "p" * 32


def interrupted_run(folder, clock, limits, seconds, step):
    """Return a run whose process died after some seconds; then the clock was set."""
    processes.register(PROCESS, "counter", 1, "v1")
    registered = library.register_file(folder, "counter", write(folder.path, "s.evalset.json", TWO))
    order = RunOrder(RunConfig({"criteria": {"response_match_score": 0.5}}, "the test"), limits=limits)
    run = runs.claim_run(run_orders.order_run(registered, order).pk, PROCESS)
    attempt = start_attempt(run.attempts.first().pk, run.started_at + 0.5, PROCESS)
    runs.note_step(run.pk, run.started_at, run.started_at + seconds)
    clock.step(step)
    assert crashes.continue_without_process(PROCESS, ProcessDeath("exit status 3")) == [run.pk]
    return EvalRun.objects.get(pk=run.pk), attempt


@pytest.mark.parametrize("step", STEPS_S)
def test_run_continues_from_seconds_spent_after_process_death(store, folder, clock, step):
    run, attempt = interrupted_run(folder, clock, EvalRunLimits(seconds=600), 40.0, step)
    began, ended = attempt.started_at, attempt.started_at + 39.5
    assert (run.limits_seconds, run.spent_seconds, elapsed_seconds(run)) == pytest.approx((40, 40, 40))
    [earlier] = run.attempts.first().earlier_tries
    assert (earlier["started_at"], earlier["finished_at"]) == pytest.approx((began, ended))
    again = runs.claim_run(run.pk, PROCESS)
    assert again.started_at > ended
    assert (again.limits_from, again.limits_seconds) == pytest.approx((began - 0.5, 40))
    runs.note_step(run.pk, again.started_at, again.started_at + 2)
    again.refresh_from_db()
    clock.step(step)
    assert 42 <= elapsed_seconds(again) <= 60
    crash_run(run.pk, "The power failed.")
    again.refresh_from_db()
    assert (again.finished_at - again.started_at, elapsed_seconds(again)) == pytest.approx((2, 42))


@pytest.mark.parametrize("step", STEPS_S)
@pytest.mark.parametrize(("seconds", "status"), [(599.0, "stopped"), (1.0, "done")])
async def test_limit_of_seconds_counts_time_of_dead_process(store, folder, clock, step, seconds, status):
    async def answer(ctx, text):
        await asyncio.sleep(3600 if status == "stopped" else 1.2)
        return "fine"

    run, _ = await units_of_work.write(
        interrupted_run, folder, clock, EvalRunLimits(seconds=600, attempt_seconds=300), seconds, step
    )
    source = agents.Source(agents.Scripted(name="counter", answer=answer), folder=folder)
    async with asyncio.timeout(PATIENCE_S):
        await execute_run(run.pk, source, asyncio.Event(), runtime_id=PROCESS)
    run = await units_of_work.read(EvalRun.objects.get, pk=run.pk)
    assert run.status == status
    assert seconds < elapsed_seconds(run) < seconds + 60
    assert run.started_at < run.last_step_at <= run.finished_at


@pytest.mark.parametrize("step", STEPS_S)
def test_tokens_count_from_last_resume_despite_clock_changes(store, folder, clock, step):
    limits = EvalRunLimits(tokens=100)
    run, attempt = interrupted_run(folder, clock, limits, 40.0, step)
    run = runs.claim_run(run.pk, PROCESS)
    attempt = start_attempt(attempt.pk, run.started_at + 1)
    finish_attempt(attempt.pk, Outcome("passed", total_tokens=60), run.started_at + 2)
    other = start_attempt(run.attempts.last().pk, run.started_at + 2)
    assert spending_since(run, [], run.limits_from, limits, Prices()).tokens == 60
    clock.step(step)
    crash_run(run.pk, "The power failed.")
    run = rerun.resume(EvalRun.objects.get(pk=run.pk))
    assert (run.limits_from, run.limits_seconds) == (None, 0)
    run = runs.claim_run(run.pk, PROCESS)
    assert spending_since(run, [], run.limits_from, limits, Prices()).tokens == 0
    other = start_attempt(other.pk, run.started_at + 1)
    finish_attempt(other.pk, Outcome("passed", total_tokens=7), run.started_at + 2)
    assert spending_since(run, [], run.limits_from, limits, Prices()).tokens == 7
