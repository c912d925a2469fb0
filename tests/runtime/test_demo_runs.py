"""Eval runs of the demo: the recorded ones in `examples/`, and files that cannot be used."""

from __future__ import annotations

import gzip
import json
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from devui.serving.demo_runs import SUFFIX, copy_demo_runs
from devui.serving.demo_times import DAY_S
from evals_app.analysis import baselines
from evals_app.analysis.case_verdicts import Verdict
from evals_app.files.atomic_writes import text_digest
from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs.deletion import delete_run
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession, Event, ModelCall, StateChange, Trace

EXAMPLES = Path(__file__).parents[2] / "examples"
DEMO = EXAMPLES / "demo.json"


def packed_store(folder: Path, change: Callable[[sqlite3.Connection], object]) -> Path:
    """Return a demo file beside a changed copy of the recorded runs."""
    path = folder / "runs.sqlite3"
    path.write_bytes(gzip.decompress(DEMO.with_suffix(SUFFIX).read_bytes()))
    with closing(sqlite3.connect(path)) as connection, connection:
        change(connection)
    (folder / f"demo{SUFFIX}").write_bytes(gzip.compress(path.read_bytes()))
    return folder / "demo.json"


def recorded_runs() -> list[EvalRun]:
    return list(EvalRun.objects.order_by("created_at"))


async def test_second_run_of_the_demo_fixed_a_case_of_the_first(store: None):
    await copy_demo_runs(DEMO)
    failed_run, fixed_run = await units_of_work.read(recorded_runs)
    assert (failed_run.passed, failed_run.failed) == (15, 5)
    assert (fixed_run.passed, fixed_run.failed) == (20, 0)
    assert failed_run.code_version != fixed_run.code_version
    assert fixed_run.note

    def compare() -> dict[str, Verdict]:
        comparison = baselines.compare_runs(failed_run, fixed_run)
        assert comparison.advice.title == "Better: 1 case fixed, none worse."
        return {case.key.label: case.verdict for case in comparison.cases}

    verdicts = await units_of_work.read(compare)
    assert verdicts.pop("gold_fails_on_purpose") == Verdict.FIXED
    assert set(verdicts.values()) == {Verdict.UNCHANGED}


async def test_demo_runs_ended_yesterday_with_all_that_was_recorded(store: None):
    await copy_demo_runs(DEMO)
    now = time.time()

    def check() -> None:
        for run in recorded_runs():
            assert DAY_S <= now - run.created_at < 2 * DAY_S
            assert run.created_at <= run.started_at <= run.finished_at
            for attempt in run.attempts.select_related("session"):
                assert attempt.session is not None
                assert run.started_at <= attempt.started_at <= attempt.finished_at <= run.finished_at
                event = Event.objects.filter(session=attempt.session).earliest("seq")
                assert run.started_at <= event.timestamp == json.loads(event.data)["timestamp"]
        traced = Trace.objects.filter(session__eval_attempts__run__isnull=False)
        assert traced.count() == Event.objects.filter(author="user").count()

    await units_of_work.read(check)


async def test_deleted_demo_runs_leave_no_rows(store: None):
    await copy_demo_runs(DEMO)
    for run in await units_of_work.read(recorded_runs):
        await units_of_work.run_batched(delete_run, run.pk)

    def count_rows() -> list[int]:
        tables = (EvalRun, EvalAttempt, AgentSession, Event, StateChange, ModelCall)
        return [table._default_manager.count() for table in tables]

    assert not any(await units_of_work.read(count_rows))


def test_recorded_evalset_is_the_one_of_the_example(tmp_path: Path):
    packed_store(tmp_path, lambda connection: None)
    with closing(sqlite3.connect(tmp_path / "runs.sqlite3")) as connection:
        [(digest,)] = connection.execute("SELECT digest FROM evals_app_evalset").fetchall()
    evalset = EXAMPLES / "agents/shop/delivery.evalset.json"
    remedy = "Record the runs again: python examples/record_demo_runs.py"
    assert digest == text_digest(evalset.read_text(encoding="utf-8")), remedy


async def test_runs_of_an_earlier_store_are_brought_up_to_date(store: None, tmp_path: Path):
    def undo_newest_migration(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM django_migrations WHERE name = '0011_run_pause_times'")
        connection.execute("DROP INDEX run_by_duration")
        for column in ("paused_s", "paused_times"):
            connection.execute(f"ALTER TABLE sessions_app_run DROP COLUMN {column}")
        duration = "coalesce(finished_at - started_at, 0.0)"
        connection.execute(f"CREATE INDEX run_by_duration ON sessions_app_run ({duration}, id)")

    await copy_demo_runs(packed_store(tmp_path, undo_newest_migration))
    assert len(await units_of_work.read(recorded_runs)) == 2


async def test_a_demo_file_without_runs_beside_it_copies_none(store: None, tmp_path: Path):
    await copy_demo_runs(tmp_path / "demo.json")
    assert not await units_of_work.read(recorded_runs)


async def test_runs_that_a_newer_devui_recorded_are_refused(store: None, tmp_path: Path):
    newer = "INSERT INTO django_migrations (app, name, applied) VALUES ('sessions_app', '9999_later', '2030-01-01')"
    demo = packed_store(tmp_path, lambda connection: connection.execute(newer))
    with pytest.raises(BadInput, match="newer"):
        await copy_demo_runs(demo)
    assert not await units_of_work.read(recorded_runs)


@pytest.mark.parametrize("length", [10, 50_000])
async def test_a_packed_store_that_is_cut_off_is_refused(store: None, tmp_path: Path, length: int):
    packed = tmp_path / f"demo{SUFFIX}"
    packed.write_bytes(DEMO.with_suffix(SUFFIX).read_bytes()[:length])
    with pytest.raises(BadInput, match=r"demo\.sqlite3\.gz"):
        await copy_demo_runs(tmp_path / "demo.json")
    assert not await units_of_work.read(recorded_runs)
