"""`/ready` and `/metrics`, for the programs that watch a server."""

from __future__ import annotations

import sqlite3
import time

import pytest
from django.db import OperationalError, connection
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from devui import monitoring
from sessions_app.runs import lifecycle
from sessions_app.store.models import Run, RuntimeProcess
from sessions_app.store.session_key import SessionKey
from sessions_app.store.sessions import writes

QUERIES = 6

pytestmark = pytest.mark.django_db


def samples(client: Client) -> dict[tuple[str, str], float]:
    """Return the metrics by name and value of their only label."""
    text = client.get("/metrics").content.decode()
    return {
        (sample.name, "".join(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def queue_run(session_id: str = "s1") -> Run:
    session = writes.create_session(SessionKey("", "weather", "ann", session_id))
    return lifecycle.create_run(session.pk, {"new_message": {"role": "user", "parts": [{"text": "hi"}]}})


def test_server_with_current_store_is_ready(client):
    answer = client.get("/ready")
    assert (answer.status_code, answer.json()) == (200, {"status": "ready"})


def test_server_whose_store_lacks_a_migration_is_not_ready(client):
    MigrationRecorder.Migration.objects.filter(app="evals_app").delete()
    answer = client.get("/ready")
    assert (answer.status_code, answer.json()["code"]) == (503, "store_unavailable")
    assert "lacks migrations" in answer.json()["detail"]


def test_server_whose_store_is_newer_is_not_ready(client):
    MigrationRecorder(connection).record_applied("evals_app", "9999_of_tomorrow")
    answer = client.get("/ready")
    assert (answer.status_code, answer.json()["code"]) == (503, "schema_too_new")


def test_server_whose_store_does_not_answer_is_not_ready(client, monkeypatch, tmp_path):
    def fail(_recorder: MigrationRecorder) -> None:
        try:
            sqlite3.connect(tmp_path / "gone" / "store.sqlite3")
        except sqlite3.OperationalError as cause:
            raise OperationalError(*cause.args) from cause

    monkeypatch.setattr(MigrationRecorder, "applied_migrations", fail)
    answer = client.get("/ready")
    assert answer.status_code == 503
    assert set(answer.json()) == {"detail", "code", "hint"}


def test_metrics_count_the_work_in_progress(client, django_assert_num_queries):
    run = queue_run()
    Run.objects.filter(pk=run.pk).update(created_at=time.time() - 60)
    queue_run("s2")
    ended = queue_run("s3")
    lifecycle.end_queued(ended.pk, Run.Status.FAILED)
    RuntimeProcess.objects.create(
        id="p1", app_name="weather", host="here", pid=1, started_at=1.0, heartbeat_at=1.0
    )
    with django_assert_num_queries(QUERIES):
        metrics = samples(client)
    assert metrics["devui_runs", "queued"] == 2
    assert ("devui_runs", "failed") not in metrics
    assert 60 <= metrics["devui_oldest_queued_run_seconds", ""] < 120
    assert metrics["devui_agent_processes", "weather"] == 1
    assert metrics["devui_unindexed_sessions", ""] == 3
    assert metrics["process_resident_memory_bytes", ""] > 0


def test_metrics_without_the_library_name_the_extra(client, monkeypatch):
    monkeypatch.setattr(monitoring, "prometheus_client", None)
    answer = client.get("/metrics")
    assert answer.status_code == 404
    assert "pip install 'devui[scale]'" in answer.json()["hint"]
