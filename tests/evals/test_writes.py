"""Writes of runs and attempts: every change has a revision, and every end is counted once."""

from __future__ import annotations

import time

import pytest

from evals_app.files import library
from evals_app.metrics import config
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.runs import run_orders
from evals_app.runs.run_orders import RunOrder
from evals_app.runs.writes import attempts, crashes, runs
from evals_app.runs.writes.outcomes import MetricScore, Outcome
from evals_app.runs.writes.runs import crash_run
from sessions_app.adk import DjangoSessionService
from sessions_app.agent_processes import processes
from sessions_app.delivery.ownership import UNASSIGNED_S
from tests.evals.builders import case, evalset, turn, write
from tests.settable_clock import STEPS_S, Clock, later

pytestmark = pytest.mark.django_db
Status = EvalAttempt.Status


@pytest.fixture
def run(folder):
    path = write(folder.path, "s.evalset.json", evalset(*[case(name, turn("x", "y")) for name in "abc"]))
    return run_orders.order_run(
        library.register_file(folder, "counter", path), RunOrder(config.default_config())
    )


def fresh(run):
    return EvalRun.objects.get(pk=run.pk)


def counts(run):
    now = fresh(run)
    return (now.passed, now.failed, now.errors, now.incomplete, now.cancelled)


def first(run):
    return run.attempts.order_by("pk").first()


def test_every_change_takes_the_next_revision(run):
    assert runs.claim_run(run.id, None).status == EvalRun.Status.RUNNING
    attempt = first(run)
    assert attempts.start_attempt(attempt.pk)
    attempt.refresh_from_db()
    assert attempt.revision == fresh(run).revision == 2
    score = MetricScore(0, "m", None, 1.0, 0.5, MetricResult.Status.PASSED)
    assert attempts.finish_attempt(attempt.pk, Outcome(Status.PASSED, scores=[score]))
    attempt.refresh_from_db()
    assert attempt.revision == fresh(run).revision == 3
    assert counts(run) == (1, 0, 0, 0, 0)


def test_ended_run_does_not_end_again(run):
    runs.claim_run(run.id, None)
    attempt = first(run)
    attempts.start_attempt(attempt.pk)
    assert attempts.finish_attempt(attempt.pk, Outcome(Status.FAILED))
    assert not attempts.finish_attempt(attempt.pk, Outcome(Status.PASSED))
    assert not attempts.start_attempt(attempt.pk)
    assert runs.finish_run(run.id, EvalRun.Status.DONE)
    assert not runs.finish_run(run.id, EvalRun.Status.FAILED)
    assert not runs.begin_cancel(run.id)
    assert runs.claim_run(run.id, None) is None
    assert counts(run) == (0, 1, 0, 0, 2)
    assert fresh(run).finished == 3


def test_late_writer_of_a_repeated_try_and_claim_changes_nothing(run):
    """A process that was thought gone finishes what another one does now."""
    processes.register("r" * 32, "counter", 1, "v1")
    claimed = runs.claim_run(run.id, "r" * 32)
    late = attempts.start_attempt(first(run).pk, runtime_id="r" * 32)
    death = crashes.ProcessDeath("It was silent.", by_itself=False)
    assert crashes.continue_without_process("r" * 32, death) == [run.id]
    assert runs.claim_run(run.id, None).started_at > claimed.started_at
    current = attempts.start_attempt(late.pk)

    assert not attempts.finish_attempt(late.pk, Outcome(Status.FAILED), tries=late.tries)
    assert not runs.finish_run(run.id, EvalRun.Status.DONE, started_at=claimed.started_at)
    assert not runs.release_run(run.id, claimed.started_at)
    assert first(run).status == Status.RUNNING
    assert attempts.finish_attempt(late.pk, Outcome(Status.PASSED), tries=current.tries)
    assert counts(run) == (1, 0, 0, 0, 0)


def test_a_pending_run_that_is_cancelled_ends_at_once(run):
    assert runs.begin_cancel(run.id)
    assert fresh(run).status == EvalRun.Status.CANCELLED
    assert counts(run) == (0, 0, 0, 0, 3)


def test_run_without_process_has_crashed(run):
    processes.register("r" * 32, "counter", 1, "v1")
    runs.claim_run(run.id, "r" * 32)
    attempts.start_attempt(first(run).pk)
    assert crashes.end_with_process("r" * 32, "It was killed.") == []
    now = fresh(run)
    assert (now.status, now.error) == (EvalRun.Status.CRASHED, "It was killed.")
    assert counts(run) == (0, 0, 1, 0, 2)
    assert first(run).error == "It was killed."


def test_orphaned_runs_are_ended(run, folder):
    processes.register("r" * 32, "counter", 1, "v1")
    runs.assign_runs([run.id], "r" * 32)
    assert crashes.crash_orphans() == 0
    processes.mark_stopped("r" * 32)
    assert crashes.crash_orphans() == 1
    assert fresh(run).status == EvalRun.Status.CRASHED


@pytest.mark.parametrize("step", STEPS_S)
def test_unassigned_run_ends_after_timeout_despite_clock_changes(run, monkeypatch, tmp_path, step):
    clock = Clock(monkeypatch, tmp_path / "shift")
    assert crashes.crash_orphans() == 0
    clock.step(step)
    assert crashes.crash_orphans() == 0
    with later(UNASSIGNED_S - 1):
        assert crashes.crash_orphans() == 0
    with later(UNASSIGNED_S + 1):
        assert crashes.crash_orphans() == 1


@pytest.mark.django_db(transaction=True)
async def test_active_attempt_keeps_its_session(store, folder):
    from sessions_app.store.database import units_of_work

    def order():
        path = write(folder.path, "s.evalset.json", evalset(case("a", turn("x", "y"))))
        new_run = run_orders.order_run(
            library.register_file(folder, "counter", path), RunOrder(config.default_config())
        )
        runs.claim_run(new_run.id, None)
        attempts.start_attempt(first(new_run).pk)
        return new_run, first(new_run)

    created, attempt = await units_of_work.write(order)
    await DjangoSessionService(realm=attempt.realm).create_session(app_name="counter", user_id="u")
    await units_of_work.write(crash_run, created.id, "gone")
    session = (
        await units_of_work.read(EvalAttempt.objects.select_related("session").get, pk=attempt.pk)
    ).session
    assert session.realm == attempt.realm


def test_the_time_until_a_crash_is_noticed_is_not_the_runs(run):
    """A server that was killed in the evening is started in the morning."""
    evening = time.time() - 36_000
    process = processes.register("p" * 32, "counter", 1, "v1")
    runs.claim_run(run.id, process.id)
    attempts.start_attempt(first(run).pk)
    EvalRun.objects.update(started_at=evening)
    run.attempts.filter(status=Status.RUNNING).update(started_at=evening + 10)
    runs.note_step(run.id, evening, evening + 60)
    type(process).objects.update(stopped_at=time.time())
    assert crashes.crash_orphans() == 1
    assert fresh(run).finished_at == first(run).finished_at == evening + 60


def test_a_run_that_crashed_ended_no_sooner_than_its_last_step(run):
    process = processes.register("p" * 32, "counter", 1, "v1")
    runs.claim_run(run.id, process.id)
    attempt = attempts.start_attempt(first(run).pk)
    type(process).objects.update(heartbeat_at=1.0, stopped_at=time.time())
    crashes.crash_orphans()
    assert fresh(run).finished_at == attempt.started_at
