"""Views of the page *Workers*, and of draining and removing a worker."""

from __future__ import annotations

from hashlib import sha256

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from devui.workers import worker_control
from devui.workers.overview import WorkerOverview, WorkerStatus, find_listed_worker, read_overview
from sessions_app.http import render_partial, wants_partial

PAGE = "devui/workers/list.html"
REMOVE = "devui/workers/remove.html"

MARK_LENGTH = 16


def workers(request: HttpRequest) -> HttpResponse:
    """Show all workers and the runs that wait; for htmx the list, or 204 if it is the one with the `mark`."""
    overview = read_overview()
    mark = _page_mark(overview)
    if wants_partial(request, "workers") and request.GET.get("mark") == mark:
        return HttpResponse(status=204)
    context = {"overview": overview, "mark": mark, "alive": overview.count(WorkerStatus.ALIVE)}
    return render_partial(request, PAGE, context, partial="workers")


def drain(request: HttpRequest, worker_id: str) -> HttpResponse:
    """Let a worker finish its runs and take no more.

    Raises:
        NotFound: there is no such worker.
    """
    worker_control.drain_worker(worker_id)
    return redirect("workers")


def remove(request: HttpRequest, worker_id: str) -> HttpResponse:
    """Ask for confirmation; on POST stop listing a worker that is gone, or end a living one at once.

    Raises:
        NotFound: there is no such worker.
    """
    if request.method == "POST":
        worker_control.remove_worker(worker_id)
        return redirect("workers")
    worker = find_listed_worker(worker_id)
    return render_partial(request, REMOVE, {"worker": worker}, partial="question", target="dialog-content")


def _page_mark(overview: WorkerOverview) -> str:
    """Return a text that changes with what the page shows, except for heartbeats that are in time."""
    shown = [
        (worker.facts, worker.status, worker.slots_taken, worker.work, worker.is_silent)
        for worker in overview.workers
    ]
    models = [(held.model, held.reason) for held in overview.held_models]
    return sha256(repr((shown, overview.waiting, models)).encode()).hexdigest()[:MARK_LENGTH]
