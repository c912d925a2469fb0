"""Save a variant to the files of its agent: a preview of the changes, then the files as shown."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from evals_app.analysis import run_summary
from evals_app.cases.review import diff_texts
from evals_app.files.atomic_writes import FileChanged
from evals_app.models import EvalRun
from evals_app.variants import agent_files
from evals_app.variants.agent_files import SavePlan
from evals_app.variants.variant import Variant, require_run_variant
from sessions_app.http import note_object
from sessions_app.store.errors import DevUIError

PAGE = "devui/evals/variant_save.html"


def save(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show what saving the variant of a run changes of its agent's files; a POST with its digest writes it.

    Raises:
        NotFound: no such run, or it is of the original.
    """
    run = run_summary.find_run(run_id)
    variant = require_run_variant(run)
    has_changed = False
    try:
        plan = agent_files.plan_changes(run.evalset.app_name, variant)
        if request.method == "POST":
            has_changed = plan.digest != request.POST.get("seen", "")
            if not has_changed:
                return _write_and_redirect(request, run, plan)
    except FileChanged:
        plan, has_changed = agent_files.plan_changes(run.evalset.app_name, variant), True
    except DevUIError as error:
        return _render(request, run, variant, error=error, status=422)
    return _render(
        request, run, variant, plan=plan, has_changed=has_changed, status=409 if has_changed else 200
    )


def _write_and_redirect(request: HttpRequest, run: EvalRun, plan: SavePlan) -> HttpResponse:
    note_object(request, run.evalset.app_name, *(change.shown_as for change in plan.changes))
    agent_files.write_changes(plan)
    return redirect(f"{reverse('eval-run-variant-save', kwargs={'run_id': run.pk})}?saved=1")


def _render(
    request: HttpRequest,
    run: EvalRun,
    variant: Variant,
    *,
    plan: SavePlan | None = None,
    has_changed: bool = False,
    error: DevUIError | None = None,
    status: int = 200,
) -> HttpResponse:
    changes = plan.changes if plan else ()
    context: dict[str, Any] = {
        "run": run,
        "evalset": run.evalset,
        "variant": variant,
        "plan": plan,
        "changes": [(change, diff_texts(change.before, change.after)) for change in changes],
        "has_changed": has_changed,
        "saved": "saved" in request.GET,
        "error": error,
    }
    return render(request, PAGE, context, status=status)
