"""Readiness and metrics for the programs that watch a server.

`/health`, one of ADK's paths, only shows that the process answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

from django.conf import settings
from django.db.models import Count, Min, QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse

from evals_app.models import EvalAttempt, EvalRun
from sessions_app.http import request_access
from sessions_app.store.database.schema import require_current_schema
from sessions_app.store.errors import DevUIError, NotFound
from sessions_app.store.index import index_backlog
from sessions_app.store.models import Run, RuntimeProcess

try:
    import prometheus_client
    from prometheus_client.metrics_core import GaugeMetricFamily, Metric
except ImportError:
    prometheus_client = None  # type: ignore[assignment]  # the extra `scale` installs it


def ready(request: HttpRequest) -> JsonResponse:
    """Report that the store answers and has the tables of this code, and with an engine the number of its workers.

    A web process without workers is ready: runs that were accepted wait. A stranger, such as the probe of a load
    balancer, learns only whether the server is ready.

    Raises:
        StoreFault: the store does not answer or lacks migrations.
        SchemaTooNew: a newer DevUI wrote it.
    """
    is_stranger = request_access(request).is_stranger
    try:
        require_current_schema()
        engine = {"engine": _engine_state()} if _has_engine() and not is_stranger else {}
    except DevUIError:
        if is_stranger:
            return JsonResponse({"status": "not ready"}, status=503)
        raise
    return JsonResponse({"status": "ready", **engine})


def metrics(request: HttpRequest) -> HttpResponse:
    """Send the metrics in Prometheus' text format.

    Raises:
        NotFound: the library is not installed.
    """
    if prometheus_client is None:
        raise NotFound(
            "This server has no metrics: the library prometheus-client is not installed.",
            hint="Install DevUI with the extra: pip install 'devui[scale]'.",
        )
    registry = prometheus_client.CollectorRegistry()
    prometheus_client.ProcessCollector(registry=registry)
    registry.register(_StoreMetrics())
    if _has_engine():
        registry.register(_WorkerMetrics())
    return HttpResponse(
        prometheus_client.generate_latest(registry), content_type=prometheus_client.CONTENT_TYPE_LATEST
    )


class _StoreMetrics:
    """Metrics of work in progress, read from the store: every web process reports the same."""

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics. Six queries, all by index."""
        runs = Run.objects.filter(status__in=(*Run.ACTIVE, Run.Status.WAITING))
        yield _by_label(
            "devui_runs",
            "Runs of conversations that have not ended, by status.",
            "status",
            dict(runs.values_list("status").annotate(Count("pk")).order_by()),
        )
        yield _by_label(
            "devui_eval_runs",
            "Eval runs that have not ended, by status.",
            "status",
            dict(_active_eval_runs().values_list("status").annotate(Count("pk")).order_by()),
        )
        attempts = EvalAttempt.objects.filter(
            run__in=_active_eval_runs(), status__in=(EvalAttempt.Status.PENDING, EvalAttempt.Status.RUNNING)
        )
        yield _by_label(
            "devui_eval_attempts",
            "Attempts of active eval runs that have not ended, by status.",
            "status",
            dict(attempts.values_list("status").annotate(Count("pk")).order_by()),
        )
        queued = Run.objects.filter(status=Run.Status.QUEUED).aggregate(oldest=Min("created_at"))["oldest"]
        yield GaugeMetricFamily(
            "devui_oldest_queued_run_seconds",
            "Age of the run that has been queued for the longest time; 0 if none is queued.",
            max(time.time() - queued, 0.0) if queued is not None else 0.0,
        )
        processes = RuntimeProcess.objects.filter(stopped_at=None).exclude(app_name="")
        yield _by_label(
            "devui_agent_processes",
            "Processes that run agents, by app.",
            "app",
            dict(processes.values_list("app_name").annotate(Count("pk")).order_by()),
        )
        yield GaugeMetricFamily(
            "devui_unindexed_sessions", "Sessions that wait for the index.", index_backlog.sessions().count()
        )


class _WorkerMetrics:
    """Metrics of workers and of what waits for them, read from the store: every web process reports the same."""

    def collect(self) -> Iterator[Metric]:
        """Yield the current metrics. Ten queries."""
        from devui.workers.overview import WorkerStatus, read_overview

        overview = read_overview()
        yield _by_label(
            "devui_workers",
            "Workers by status. Gone ones are counted for a day, or until they are removed.",
            "status",
            {status.value: overview.count(status) for status in WorkerStatus},
        )
        living = [worker for worker in overview.workers if worker.status != WorkerStatus.GONE]
        taken = sum(worker.slots_taken for worker in living)
        slots = sum(worker.facts.concurrency for worker in living)
        yield _by_label(
            "devui_worker_slots",
            "Slots of living workers by state.",
            "state",
            {"taken": taken, "free": max(0, slots - taken)},
        )
        waiting = GaugeMetricFamily(
            "devui_waiting_runs",
            "Runs, eval runs and attempts that wait for a worker.",
            labels=["kind", "app", "reason"],
        )
        for (kind, app_name, reason), count in overview.waiting_counts().items():
            waiting.add_metric([kind, app_name, reason], count)
        yield waiting


def _has_engine() -> bool:
    return bool(getattr(settings, "DEVUI_ENGINE", ""))


def _engine_state() -> dict[str, Any]:
    from devui.workers.worker_facts import living_workers

    workers = living_workers()
    draining = sum(worker.is_draining for worker in workers)
    return {"name": settings.DEVUI_ENGINE, "alive": len(workers) - draining, "draining": draining}


def _active_eval_runs() -> QuerySet[EvalRun]:
    return EvalRun.objects.filter(status__in=EvalRun.ACTIVE)


def _by_label(name: str, help_text: str, label: str, counts: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
