"""Progress of optimisations: attempts without an outcome, ends that leave no run behind, limits, and hanging models."""

from __future__ import annotations

import asyncio
import logging

import pytest

from evals_app.execution import optimisers
from evals_app.execution.local_optimisation import LocalEngine
from evals_app.models import OPTIMISATION, EvalAttempt, EvalRun, Optimisation, OptimisationStep
from evals_app.optimisation import driver, steps
from evals_app.optimisation.settings import SIMPLE, OptimiserSettings
from evals_app.optimisation.steps import NextStep, OptimisedAgent
from evals_app.runs import folder_orders
from evals_app.runs.attempt_status import MODEL_UNAVAILABLE
from evals_app.runs.folder_orders import EvalsetRequest
from evals_app.runs.limits import EvalRunLimits
from sessions_app.agent_processes import processes
from sessions_app.agents.folder import open_folder
from sessions_app.store.database import units_of_work
from tests.evals.optimize_command import optimize
from tests.evals.run_evals_command import EXAMPLE_AGENTS
from tests.patience import PATIENCE_S

AGENTS = EXAMPLE_AGENTS.parent / "optimise"
ORDER = (
    *(AGENTS / "thermo", "units", "--model=offline-prompt-writer", "--proposals=2"),
    *("--training=rome_warm,cairo_wind", "--validation=paris_warm,oslo_wind"),
)
SETTINGS = OptimiserSettings(SIMPLE, "offline-prompt-writer", ("rome_warm",), ("paris_warm",))
EVALUATION = NextStep(0, NextStep.EVALUATION, "Hello.", "train", ["rome_warm"])
NO_LIMITS = EvalRunLimits()


@pytest.fixture
def process(store):
    """This process, which dispatches runs."""
    for name in ("mine", "another"):
        processes.register(name, processes.SERVER_APP, 1, "")
    processes.set_own_id("mine")
    yield
    processes.set_own_id(None)


def create_optimisation() -> Optimisation:
    agents = open_folder(AGENTS)
    new_run = folder_orders.prepare_from_folder(agents, "thermo", EvalsetRequest("units", source="page"))
    agent = OptimisedAgent("thermo", "Hello.", agents.code_version("thermo"))
    return steps.create_optimisation(new_run, SETTINGS, agent, source="page")


def list_active_ids() -> list[str]:
    return list(EvalRun.objects.filter(status__in=EvalRun.ACTIVE).values_list("pk", flat=True))


class WithoutModelEngine(LocalEngine):
    """An engine whose agent's model is unavailable in one attempt of each run."""

    async def execute(self, run):
        await super().execute(run)
        await units_of_work.write(self._lose_model, run)

    def _lose_model(self, run):
        attempt = run.attempts.order_by("case_index").first()
        lost = {"status": "error", "error_type": MODEL_UNAVAILABLE, "error": "The model is away."}
        EvalAttempt.objects.filter(pk=attempt.pk).update(**lost)


class ExpensiveEngine(LocalEngine):
    """An engine whose runs of the comparison use many tokens."""

    async def execute(self, run):
        await super().execute(run)
        if run.source != OPTIMISATION:
            await units_of_work.write(run.attempts.update, total_tokens=10_000)


class HangingEngine:
    """An engine whose optimiser's model never answers."""

    def __init__(self) -> None:
        self.model_called = asyncio.Event()

    async def find_next_step(self, optimisation_id):
        self.model_called.set()
        await asyncio.Event().wait()


def test_attempt_without_an_outcome_scores_nothing_and_is_tried_again(store, monkeypatch):
    monkeypatch.setattr("evals_app.execution.local_optimisation.LocalEngine", WithoutModelEngine)
    code, out = optimize(*ORDER)
    assert code == 2
    assert "1 attempt of run" in out
    assert "ended without an outcome, so a candidate has no score." in out
    assert "The model is away." in out
    assert OptimisationStep.objects.get().finished_at is None
    monkeypatch.undo()
    assert optimize(AGENTS / "thermo", "--resume", Optimisation.objects.get().pk)[0] == 0
    first = OptimisationStep.objects.get(position=0)
    assert sorted(first.run.attempts.values_list("tries", "status")) == [(1, "failed"), (2, "failed")]


def test_limit_is_checked_between_the_runs_of_the_comparison(store, monkeypatch):
    monkeypatch.setattr("evals_app.execution.local_optimisation.LocalEngine", ExpensiveEngine)
    code, out = optimize(*ORDER, "--limit=tokens=50000")
    assert code == 2
    assert "The limit of 50,000 tokens was reached" in out
    compared = driver.list_compared_runs(Optimisation.objects.get())
    assert [run.status for run in compared] == [EvalRun.Status.DONE, EvalRun.Status.CANCELLED]


def test_optimiser_logs_no_candidates(store, caplog):
    caplog.set_level(logging.INFO, optimisers.OPTIMISERS_LOG.name)
    assert optimize(*ORDER)[0] == 0
    assert [
        record for record in caplog.records if record.name.startswith(optimisers.OPTIMISERS_LOG.name)
    ] == []
    assert optimisers.OPTIMISERS_LOG.level == logging.INFO


def test_model_that_does_not_answer_in_time_ends_the_optimisation(store, monkeypatch):
    async def hang(*arguments):
        await asyncio.Event().wait()

    monkeypatch.setattr(optimisers, "MAX_ANSWER_S", 0.01)
    monkeypatch.setattr(optimisers, "_ask_model", hang)
    code, out = optimize(*ORDER)
    assert code == 2
    assert "did not answer within" in out


def test_end_leaves_no_run_that_could_be_executed_later(process):
    optimisation = create_optimisation()
    steps.order_evaluation(optimisation, EVALUATION, NO_LIMITS)
    steps.order_comparison(optimisation, "Hello, you.", NO_LIMITS)
    assert len(list_active_ids()) == 3
    assert steps.end_own_optimisation(optimisation.pk, Optimisation.Status.FAILED, "The model failed.")
    assert list_active_ids() == []


def test_nothing_is_ordered_after_a_cancellation(process):
    optimisation = create_optimisation()
    steps.request_cancel(optimisation.pk)
    steps.order_evaluation(optimisation, EVALUATION, NO_LIMITS)
    steps.order_comparison(optimisation, "Hello, you.", NO_LIMITS)
    assert not EvalRun.objects.exists()
    assert steps.find_optimisation(optimisation.pk).best_instruction is None


def test_waiting_run_gets_what_is_left_of_the_limits_and_keeps_its_quotas(process):
    optimisation = create_optimisation()
    steps.order_evaluation(optimisation, EVALUATION, EvalRunLimits(tokens=100, quota_tokens=70))
    run = EvalRun.objects.get()
    steps.set_run_limits(run, EvalRunLimits(tokens=50))
    run.refresh_from_db()
    assert EvalRunLimits.read(run.limits) == EvalRunLimits(tokens=50, quota_tokens=70)


async def test_cancellation_does_not_wait_for_a_model_that_hangs(process):
    optimisation = await units_of_work.write(create_optimisation)
    engine = HangingEngine()
    async with asyncio.timeout(PATIENCE_S):
        driving = asyncio.create_task(driver.drive_optimisation(optimisation.pk, engine))
        await engine.model_called.wait()
        await units_of_work.write(steps.request_cancel, optimisation.pk)
        await driving
    assert (await units_of_work.read(steps.find_optimisation, optimisation.pk)).status == "cancelled"


async def test_optimisation_that_another_process_resumed_is_left_to_it(process):
    optimisation = await units_of_work.write(create_optimisation)
    engine = HangingEngine()
    async with asyncio.timeout(PATIENCE_S):
        driving = asyncio.create_task(driver.drive_optimisation(optimisation.pk, engine))
        await engine.model_called.wait()
        rows = Optimisation.objects.filter(pk=optimisation.pk)
        await units_of_work.write(lambda: rows.update(runtime="another"))
        await driving
    assert (await units_of_work.read(steps.find_optimisation, optimisation.pk)).status == "running"
