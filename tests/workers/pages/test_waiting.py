"""Reasons for which runs wait for a worker."""

from __future__ import annotations

import pytest
from django.db import connection

from devui.workers import waiting
from devui.workers.waiting import Capacity
from devui.workers.worker_facts import WorkerFacts
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.progress import read_progress
from sessions_app.runs import job_queue, lifecycle
from sessions_app.runs.job_queue import QUEUE_ID
from sessions_app.timeline.run_marks import read_session_runs
from tests.evals import stored_runs
from tests.workers.pages.conftest import CODE, queue_run

BOTH = ("conversations", "evals")


def worker(engine_id: int, **values) -> WorkerFacts:
    facts = {"apps": {"weather": CODE}, "kinds": BOTH, "concurrency": 2, "is_draining": False} | values
    return WorkerFacts(f"w{engine_id}", "here", f"here:{engine_id}", engine_id=engine_id, **facts)


@pytest.mark.parametrize(
    ("workers", "tasks", "code", "text"),
    [
        ([], {}, "no_worker", "No worker is running."),
        ([worker(1, apps={"office": CODE})], {}, "no_app", "No worker has app weather."),
        ([worker(1, apps={"weather": "other"})], {}, "no_code", "No worker has code 9bc6d7c of app weather."),
        (
            [worker(1, kinds=("evals",))],
            {},
            "no_queue",
            "No worker with app weather takes conversations (--queues).",
        ),
        ([worker(1, is_draining=True)], {}, "draining", "All workers with app weather are draining."),
        (
            [worker(1), worker(2, concurrency=1), worker(3, is_draining=True)],
            {1: 2, 2: 1},
            "slots",
            "All 3 slots of the workers with app weather are taken.",
        ),
        (
            [worker(1, concurrency=1)],
            {1: 1},
            "slots",
            "The only slot of the workers with app weather is taken.",
        ),
        ([worker(1), worker(2)], {1: 2, 2: 1}, "delivery", "A worker is about to take it."),
    ],
)
def test_reason_names_what_is_missing(workers, tasks, code, text):
    reason = Capacity(workers, tasks).explain("conversations", "weather", CODE)
    assert (reason.code, reason.text) == (code, text)


def take_jobs(engine_id: int) -> None:
    """Let a worker's id in Procrastinate's table have all jobs."""
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO procrastinate_workers (id) OVERRIDING SYSTEM VALUE VALUES (%s)", [engine_id]
        )
        cursor.execute("UPDATE procrastinate_jobs SET status = 'doing', worker_id = %s", [engine_id])


@pytest.mark.usefixtures("queue")
def test_waiting_runs_are_grouped_by_app_and_reason(add_worker, django_assert_num_queries):
    add_worker("w1", engine_id=7, concurrency=1)
    first = queue_run("s1")
    take_jobs(7)
    lifecycle.claim(first.pk, QUEUE_ID, CODE)
    lifecycle.create_run(first.session_id, {})
    queue_run("s2")
    queue_run("s3")
    queue_run("s4", app="office")
    capacity = waiting.read_capacity()
    with django_assert_num_queries(3):
        groups = waiting.read_waiting(capacity)
    assert [(group.app_name, group.reason.code, group.count) for group in groups] == [
        ("weather", "session_busy", 1),
        ("weather", "slots", 2),
        ("office", "no_app", 1),
    ]


@pytest.mark.usefixtures("queue")
def test_eval_run_that_needs_old_code_names_it(add_worker):
    add_worker("w1", apps={"counter": "another"})
    run = stored_runs.run(stored_runs.version(stored_runs.cases("one")), {"one": [stored_runs.passing()]})
    EvalRun.objects.filter(pk=run.pk).update(
        status=EvalRun.Status.PENDING, runtime=QUEUE_ID, code_version=CODE
    )
    run.refresh_from_db()
    assert job_queue.explain_waiting(run) == "No worker has code 9bc6d7c of app counter."
    (group,) = waiting.read_waiting(waiting.read_capacity())
    assert (group.run_id, group.title, group.reason.code) == (run.pk, "kept", "no_code")


@pytest.mark.parametrize(
    ("adk_version", "code", "text"),
    [
        ("2.12.0", "no_adk", "No worker with the code of app counter has ADK 2.12.0."),
        ("2.13.0", "delivery", "A worker is about to take it."),
    ],
)
@pytest.mark.usefixtures("queue")
def test_attempts_wait_for_a_worker_with_their_code_and_adk(add_worker, adk_version, code, text):
    add_worker("w1", apps={"counter": CODE})
    names = ("one", "two")
    run = stored_runs.run(
        stored_runs.version(stored_runs.cases(*names)), {name: [stored_runs.passing()] for name in names}
    )
    EvalRun.objects.filter(pk=run.pk).update(
        status=EvalRun.Status.RUNNING, code_version=CODE, adk_version=adk_version
    )
    EvalAttempt.objects.filter(run=run).update(status=EvalAttempt.Status.PENDING, runtime=QUEUE_ID)
    run.refresh_from_db()
    (group,) = waiting.read_waiting(waiting.read_capacity())
    assert (group.kind, group.count, group.run_id) == ("attempts", 2, run.pk)
    assert (group.reason.code, group.reason.text) == (code, text)
    assert read_progress(run).waits_for == text


@pytest.mark.usefixtures("queue")
def test_session_page_names_the_reason_of_its_first_queued_run(add_worker):
    run = queue_run()
    assert read_session_runs(run.session_id).waits_for == "No worker is running."
    add_worker("w1")
    runs = read_session_runs(run.session_id)
    assert runs.waits_for == "A worker is about to take it."
    assert runs.waits_for in runs.mark


@pytest.mark.usefixtures("queue")
def test_run_that_a_worker_has_waits_for_its_process(add_worker):
    row = add_worker("w1")
    run = queue_run()
    lifecycle.assign(run.pk, row.pk)
    assert read_session_runs(run.session_id).waits_for.startswith("A worker has it")
