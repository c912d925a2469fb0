"""The clock is set while evals run: limits are kept by what really passed, and times stay durations."""

from __future__ import annotations

import asyncio

import pytest

from evals_app.runs.limits import Limits
from evals_app.runs.progress import elapsed_seconds
from sessions_app.models import ModelCall
from sessions_app.store import units_of_work
from tests.evals.builders import case, evalset, turn
from tests.settable_clock import STEPS_S, Clock

pytestmark = pytest.mark.anywhere

TWO = evalset(*[case(word, turn(word, "fine")) for word in ("go", "set")])


@pytest.fixture
def clock(monkeypatch, tmp_path) -> Clock:
    return Clock(monkeypatch, tmp_path / "shift")


@pytest.mark.parametrize("step", STEPS_S)
async def test_a_run_and_its_attempts_take_as_long_as_they_took(play, clock, step):
    async def answer(ctx, said):
        if said == "set":
            clock.step(step)
            await asyncio.sleep(1.2)  # the run is looked at every second
        return "fine"

    run = await play(TWO, answer, parallelism=1, limits=Limits(seconds=600, attempt_seconds=300))

    attempts = await units_of_work.read(lambda: list(run.attempts.all()))
    assert (run.status, run.passed, run.stopped_because) == ("done", 2, "")
    assert 1.2 <= elapsed_seconds(run, 0) < 300
    assert all(0 <= one.finished_at - one.started_at < 300 for one in attempts)
    assert all(run.started_at <= one.started_at <= one.finished_at <= run.finished_at for one in attempts)
    calls = await units_of_work.read(lambda: list(ModelCall.objects.all()))
    assert all(0 <= call.finished_at - call.started_at < 300 for call in calls)


@pytest.mark.parametrize("limits", [Limits(seconds=0.5), Limits(attempt_seconds=0.5)])
async def test_limits_are_reached_though_the_clock_is_set_back(play, clock, limits):
    async def answer(ctx, said):
        clock.step(-3600)
        await asyncio.sleep(3600)

    document = evalset(case("hangs", turn("go", "fine")))
    async with asyncio.timeout(60):
        run = await play(document, answer, limits=limits)

    [attempt] = await units_of_work.read(lambda: list(run.attempts.all()))
    assert attempt.status in {"error", "cancelled"}
    assert 0 <= attempt.finished_at - attempt.started_at < 60
