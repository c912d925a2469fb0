"""What people do to a run while it runs."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from evals_app import dispatch, report
from sessions_app import db


@require_POST
async def cancel(request: HttpRequest, run_id: str) -> HttpResponse:
    """Ask a run to stop. Its process hears of it within a second; one that does not react is ended."""
    await db.read(report.find_run, run_id)
    await dispatch.cancel(run_id)
    return redirect("eval-run", run_id=run_id)
