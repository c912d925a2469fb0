"""Notes on runs and attempts, and the baseline of an evalset."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from evals_app.analysis import run_summary
from evals_app.runs import rerun, writes
from sessions_app.store import units_of_work


@require_POST
async def mark_baseline(request: HttpRequest, run_id: str) -> HttpResponse:
    """Make a run the baseline of its evalset (`baseline=1`), or take that back."""
    await units_of_work.write(writes.mark_baseline, run_id, request.POST.get("baseline", "1") == "1")
    return redirect("eval-run", run_id=run_id)


@require_POST
async def note_run(request: HttpRequest, run_id: str) -> HttpResponse:
    """Keep a note about a run."""
    await units_of_work.write(writes.note_run, run_id, request.POST.get("note", ""))
    return redirect("eval-run", run_id=run_id)


@require_POST
async def note_attempt(request: HttpRequest, run_id: str, attempt: int) -> HttpResponse:
    """Keep a note about an attempt."""
    run = await units_of_work.read(run_summary.find_run, run_id)
    await units_of_work.read(rerun.find_attempt, run, attempt)
    await units_of_work.write(writes.note_attempt, attempt, request.POST.get("note", ""))
    return redirect(f"{reverse('eval-run', kwargs={'run_id': run_id})}?attempt={attempt}")
