"""Readiness and metrics for the programs that watch a server.

`/health`, one of ADK's paths, only shows that the process answers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from django.db.models import Count, Min, QuerySet
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.http import require_safe

from evals_app.models import EvalAttempt, EvalRun
from sessions_app.errors import NotFound
from sessions_app.models import Run, RuntimeProcess
from sessions_app.search import index_backlog
from sessions_app.store.schema import require_current_schema

try:
    import prometheus_client
    from prometheus_client.metrics_core import GaugeMetricFamily, Metric
except ImportError:
    prometheus_client = None  # type: ignore[assignment]  # the extra `scale` installs it


@require_safe
def ready(request: HttpRequest) -> JsonResponse:
    """Report that the store answers and has the tables of this code.

    Raises:
        StoreFault: the store does not answer or lacks migrations.
        SchemaTooNew: a newer DevUI wrote it.
    """
    require_current_schema()
    return JsonResponse({"status": "ready"})


@require_safe
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


def _active_eval_runs() -> QuerySet[EvalRun]:
    return EvalRun.objects.filter(status__in=EvalRun.ACTIVE)


def _by_label(name: str, help_text: str, label: str, counts: dict[str, int]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help_text, labels=[label])
    for value, count in counts.items():
        family.add_metric([value], count)
    return family
