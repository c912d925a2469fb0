"""Migration of stores in which attempts were retried in place: first outcomes count again, and no try is lost."""

from __future__ import annotations

import json
import pkgutil
from importlib import import_module

import pytest
from django.apps import apps

from evals_app import migrations
from evals_app.analysis import baselines, retries
from evals_app.models import EvalAttempt, EvalRun, MetricResult
from evals_app.runs import rerun
from evals_app.runs.attempt_status import PROCESS_GONE
from evals_app.runs.writes import attempts, resumption, runs
from evals_app.runs.writes.outcomes import Failure, Outcome
from sessions_app.sessions.writes import SessionKey, create_session
from tests.evals import stored_runs
from tests.evals.stored_runs import broken, cases, failing, passing

pytestmark = pytest.mark.django_db(transaction=True)

Status = EvalAttempt.Status
INTERRUPTED = Outcome(Status.ERROR, failure=Failure(PROCESS_GONE, "It was killed."))


def migrate():
    [name] = [name for _, name, _ in pkgutil.iter_modules(migrations.__path__) if "first_outcomes" in name]
    import_module(f"evals_app.migrations.{name}").move_later_tries(apps, None)


def retry_in_place(run, outcomes):
    """Try attempts again as stores before did it: case → outcome of its new try; None: it has not ended."""
    for attempt in run.attempts.filter(case_id__in=outcomes):
        resumption.reset_attempt(attempt, rerun.WAS_RETRIED, 1)
    run.refresh_from_db()
    resumption.requeue_run(run, None, 0.0)
    runs.claim_run(run.id, None)
    for attempt in run.attempts.filter(case_id__in=outcomes):
        attempts.start_attempt(attempt.pk)
        if outcome := outcomes[attempt.case_id]:
            attempts.finish_attempt(attempt.pk, outcome)


def retry_to_the_end(run, outcomes):
    retry_in_place(run, outcomes)
    runs.finish_run(run.id, EvalRun.Status.DONE)


def count_tries():
    rows = EvalAttempt.objects.all()
    return sum(bool(attempt.started_at) + len(attempt.earlier_tries) for attempt in rows)


def read_outcomes(run):
    run.refresh_from_db()
    rows = run.attempts.order_by("case_index")
    return {attempt.case_id: attempt.status for attempt in rows}


@pytest.fixture
def run():
    """A run of three cases: one passed, one failed, one raised."""
    return stored_runs.run(
        stored_runs.version(cases("a", "b", "c")), {"a": [passing()], "b": [failing()], "c": [broken()]}
    )


def test_first_outcomes_count_again_and_later_tries_have_a_run(run):
    retry_to_the_end(run, {"b": passing(), "c": passing()})
    scores = list(MetricResult.objects.order_by("pk").values_list("pk", "score"))
    migrate()
    assert read_outcomes(run) == {"a": "passed", "b": "failed", "c": "error"}
    assert (run.status, run.total, run.passed, run.failed, run.errors) == ("done", 3, 1, 1, 1)
    retry = EvalRun.objects.get(source="retry")
    assert read_outcomes(retry) == {"b": "passed", "c": "passed"}
    assert (retry.repeats, retry.status, retry.total, retry.passed) == (run, "done", 2, 2)
    assert (json.loads(retry.case_ids), retry.config, retry.version) == (["b", "c"], run.config, run.version)
    assert retries.find_retries(run).text == "3 of 3 after retries, 1 at first"
    assert list(MetricResult.objects.order_by("pk").values_list("pk", "score")) == scores
    assert not run.attempts.get(case_id="b").results.exists()
    assert retry.attempts.get(case_id="b").results.count() == 2


def test_restored_attempt_has_what_its_record_kept(run):
    session = create_session(SessionKey("eval/x", "counter", "u", "s"), {})
    EvalAttempt.objects.filter(case_id="c").update(
        session=session.pk, total_tokens=7, cost=0.5, started_at=10.0, finished_at=12.0, note="Look!"
    )
    first = EvalAttempt.objects.get(case_id="c")
    retry_to_the_end(run, {"b": passing(), "c": passing()})
    migrate()
    restored = run.attempts.get(case_id="c")
    for name in ("pk", "realm", "session_id", "total_tokens", "cost", "started_at", "finished_at", "error"):
        assert getattr(restored, name) == getattr(first, name)
    assert (restored.tries, restored.earlier, restored.note) == (1, "[]", "Look!")
    assert restored.cause == "RuntimeError: on fire"
    assert run.attempts.get(case_id="b").cause == "Its scores were not kept when it was tried again."
    moved = EvalAttempt.objects.get(case_id="c", run__source="retry")
    assert (moved.tries, moved.note) == (1, "")
    assert moved.realm != restored.realm


def test_deleted_session_of_a_try_is_no_obstacle(run):
    session = create_session(SessionKey("eval/x", "counter", "u", "s"), {})
    EvalAttempt.objects.filter(case_id="b").update(session=session.pk)
    retry_to_the_end(run, {"b": passing()})
    session.delete()
    migrate()
    assert run.attempts.get(case_id="b").session is None


def test_each_try_after_an_outcome_has_a_run_and_interruptions_stay_with_their_try(run):
    retry_to_the_end(run, {"b": failing(), "c": INTERRUPTED})
    retry_to_the_end(run, {"b": passing(), "c": failing()})
    before = count_tries()
    migrate()
    assert count_tries() == before == 7
    assert read_outcomes(run) == {"a": "passed", "b": "failed", "c": "error"}
    first, second = EvalRun.objects.filter(source="retry").order_by("total").reverse()
    assert (read_outcomes(first), read_outcomes(second)) == ({"b": "failed", "c": "failed"}, {"b": "passed"})
    interrupted = first.attempts.get(case_id="c")
    assert interrupted.tries == 2
    assert [(tried["try"], tried["error_type"]) for tried in interrupted.earlier_tries] == [(1, PROCESS_GONE)]
    assert retries.find_retries(run).text == "2 of 3 after retries, 1 at first"


def test_attempt_that_was_only_interrupted_stays_as_it_is(run):
    EvalAttempt.objects.filter(case_id="b").update(status="error", error_type=PROCESS_GONE)
    retry_to_the_end(run, {"b": passing()})
    migrate()
    assert not EvalRun.objects.filter(source="retry").exists()
    assert read_outcomes(run)["b"] == "passed"


def test_unreadable_record_of_tries_stays_as_it_is(run):
    EvalAttempt.objects.filter(case_id="b").update(earlier="no JSON")
    migrate()
    assert run.attempts.get(case_id="b").earlier == "no JSON"
    assert EvalRun.objects.count() == 1


@pytest.mark.parametrize("was_ended", [False, True])
def test_unfinished_retry_can_be_resumed_and_its_run_is_done(run, was_ended):
    retry_in_place(run, {"b": None})
    if was_ended:
        runs.finish_run(run.id, EvalRun.Status.CANCELLED, because="It was stopped.")
    migrate()
    assert read_outcomes(run) == {"a": "passed", "b": "failed", "c": "error"}
    assert (run.status, run.stopped_because) == ("done", "")
    retry = EvalRun.objects.get(source="retry")
    assert (retry.status, read_outcomes(retry)) == ("cancelled", {"b": "cancelled"})
    assert rerun.resume(retry).status == "pending"


def test_migrated_retries_count_in_no_history(run):
    retry_to_the_end(run, {"b": passing()})
    migrate()
    later = stored_runs.run(run.version, {"a": [passing()], "b": [passing()]})
    assert baselines.find_reference(later).run == run
    changes = {change.key.id: change for change in baselines.compare_runs(run, later).cases}
    assert changes["b"].earlier.by_run == [(0, 1)]
