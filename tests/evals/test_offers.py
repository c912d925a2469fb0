"""Offers of attempts to workers: no more than the run's parallelism, each taken once, repeated when a process dies."""

from __future__ import annotations

import pytest

from evals_app.files import library
from evals_app.metrics import config
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import run_orders
from evals_app.runs.attempt_status import UNFINISHED, must_run_alone
from evals_app.runs.run_orders import RunOrder
from evals_app.runs.writes import attempts, crashes, offers, resumption, runs
from evals_app.runs.writes.crashes import ProcessDeath
from evals_app.runs.writes.outcomes import Outcome
from sessions_app.agent_processes import processes
from sessions_app.runs.job_queue import QUEUE_ID
from tests.evals.builders import case, evalset, turn, write

Status = EvalAttempt.Status
WORKER, ONE, OTHER = "w" * 32, "1" * 32, "2" * 32


@pytest.fixture
def run(folder, db):
    """A run of four cases, two at once, that a worker has claimed."""
    for runtime_id in (WORKER, QUEUE_ID):
        processes.register(runtime_id, processes.SERVER_APP, 1, "")
    for runtime_id in (ONE, OTHER):
        processes.register(runtime_id, "counter", 1, "v1", WORKER)
    path = write(folder.path, "s.evalset.json", evalset(*[case(word, turn("x", "y")) for word in "abcd"]))
    order = RunOrder(config.default_config(), parallelism=2)
    ordered = run_orders.order_run(library.register_file(folder, "counter", path), order)
    return runs.claim_run(ordered.pk, WORKER)


class Jobs(list):
    """The attempts for which jobs were written."""

    def offer(self, run):
        """Offer attempts and return whether some are left."""
        return offers.offer_attempts(run, self.extend)


def start(attempt_pk, runtime_id=ONE):
    return attempts.start_attempt(attempt_pk, runtime_id=runtime_id, offered=True)


def ids(run, pks):
    return [run.attempts.get(pk=pk).case_id for pk in pks]


def test_as_many_attempts_are_offered_as_the_parallelism_allows(run):
    jobs = Jobs()
    assert jobs.offer(run)
    assert jobs.offer(run)
    assert ids(run, jobs) == ["a", "b"]
    started = start(jobs[0])
    jobs.offer(run)
    assert len(jobs) == 2
    attempts.finish_attempt(started.pk, Outcome(Status.PASSED), tries=started.tries)
    jobs.offer(run)
    assert ids(run, jobs) == ["a", "b", "c"]


def test_run_has_no_attempts_left_when_all_have_ended(run):
    run.parallelism = 4
    jobs = Jobs()
    jobs.offer(run)
    for pk in jobs:
        attempts.finish_attempt(pk, Outcome(Status.PASSED), tries=start(pk).tries)
    assert not jobs.offer(run)


def test_offered_attempt_is_started_once(run):
    jobs = Jobs()
    jobs.offer(run)
    assert start(jobs[0]).runtime_id == ONE
    assert start(jobs[0], OTHER) is None
    assert offers.find_offered_attempt(jobs[0]) is None


def test_attempt_is_not_started_unless_it_is_offered_by_an_active_run(run):
    jobs = Jobs()
    jobs.offer(run)
    assert start(run.attempts.get(case_id="c").pk) is None
    runs.release_run(run.pk)
    assert start(jobs[0]) is None


def test_coordinator_whose_run_was_claimed_again_offers_nothing(run):
    runs.release_run(run.pk)
    runs.claim_run(run.pk, WORKER)
    jobs = Jobs()
    jobs.offer(run)
    assert jobs == []


def test_next_coordinator_offers_again_what_waits_and_counts_what_runs(run):
    jobs = Jobs()
    jobs.offer(run)
    running = start(jobs[0])
    assert crashes.continue_without_coordinator(run.pk, run.started_at)
    claimed = runs.claim_run(run.pk, WORKER)
    offers.withdraw_offers(run.pk)
    again = Jobs()
    again.offer(claimed)
    assert again == [jobs[1]]
    assert attempts.finish_attempt(running.pk, Outcome(Status.PASSED), tries=running.tries)


def test_death_of_a_process_repeats_only_its_own_attempts_alone(run):
    jobs = Jobs()
    jobs.offer(run)
    late, other = start(jobs[0], ONE), start(jobs[1], OTHER)
    assert crashes.continue_without_process(ONE, ProcessDeath("exit status 3")) == []
    run.refresh_from_db()
    assert (run.status, run.runtime_id) == (EvalRun.Status.RUNNING, WORKER)
    repeated = EvalAttempt.objects.get(pk=late.pk)
    assert (repeated.status, repeated.runtime_id, must_run_alone(repeated)) == ("pending", None, True)
    assert EvalAttempt.objects.get(pk=other.pk).status == "running"


def test_late_outcome_of_a_reset_attempt_changes_nothing(run):
    jobs = Jobs()
    jobs.offer(run)
    late = start(jobs[0])
    crashes.continue_without_process(ONE, ProcessDeath("It was silent.", by_itself=False))
    attempts.note_judge(late.pk, "late", late.tries)
    assert not attempts.finish_attempt(late.pk, Outcome(Status.FAILED), tries=late.tries)
    attempt = EvalAttempt.objects.get(pk=late.pk)
    assert (attempt.status, attempt.judged_by) == ("pending", "")


def test_attempt_that_ends_its_process_alone_is_at_fault(run):
    for how in ("first", "second"):
        jobs = Jobs()
        run.parallelism = 1 if how == "first" else 4
        jobs.offer(run)
        culprit = EvalAttempt.objects.get(run=run, case_id="a").pk
        assert culprit in jobs
        start(culprit)
        crashes.continue_without_process(ONE, ProcessDeath("exit status 3"))
    assert EvalAttempt.objects.get(pk=culprit).error_type == "ProcessEnded"


def test_run_goes_on_while_its_last_attempt_runs_elsewhere(run):
    jobs = Jobs()
    jobs.offer(run)
    start(jobs[0])
    run.attempts.exclude(pk=jobs[0]).update(status=Status.PASSED)
    assert crashes.continue_without_coordinator(run.pk)
    run.refresh_from_db()
    assert run.status == EvalRun.Status.PENDING


def test_attempt_that_no_process_can_start_ends_with_the_reason_and_is_resumable(run):
    jobs = Jobs()
    jobs.offer(run)
    offers.fail_offered_attempt(jobs[0], "The agent cannot be loaded.")
    attempt = EvalAttempt.objects.get(pk=jobs[0])
    assert (attempt.status, attempt.error, attempt.tries) == ("error", "The agent cannot be loaded.", 1)
    runs.finish_run(run.pk, EvalRun.Status.STOPPED)
    assert not EvalAttempt.objects.filter(runtime_id=QUEUE_ID).exists()
    assert resumption.restart_attempts(run.pk, UNFINISHED, "again") == 4
