"""Optimise an instruction: the form, the page of an optimisation with its actions, and the best variant as a file."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from evals_app.cases.case_tags import tags_by_index
from evals_app.cases.review import diff_texts
from evals_app.files import library
from evals_app.models import EvalSet, Optimisation
from evals_app.optimisation import optimisation_form, server_engine, steps
from evals_app.optimisation.candidates import Candidate, read_report
from evals_app.optimisation.optimisation_form import RUN_ACTION, OptimisationForm
from evals_app.optimisation.orders import make_shared_order
from evals_app.optimisation.verdict import read_verdict
from evals_app.runs import run_form, run_orders
from evals_app.runs.rerun import HasChanged
from evals_app.views.evalsets import list_replayable_runs, read_file_content, read_order, runnable_apps
from evals_app.views.variants import download_variant
from sessions_app.http import note_object, person_name, redirect_to, render_partial
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError, NotFound

FORM_PAGE = "devui/evals/optimise.html"
FORM = "optimise-form"
"""Element with the form, which its buttons replace."""

PAGE = "devui/evals/optimisation.html"
PROGRESS = "optimisation-progress"
"""Element with the progress, which the page reloads until the optimisation has ended."""


async def edit(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Show the form of an optimisation. A POST starts it, or applies another button.

    Raises:
        NotFound: no evalset has this app and id.
    """
    await units_of_work.write(library.refresh_known, app_name)
    evalset = await units_of_work.read(library.find_evalset, app_name, evalset_id)
    form = await units_of_work.read(_draft_form, evalset)
    if request.method != "POST":
        return await units_of_work.read(_render_form, request, evalset, form)
    form = optimisation_form.read_form(request.POST, form, evalset.digest)
    action = request.POST.get("action", "")
    error: DevUIError | None = None
    try:
        _require_same_cases(request, evalset)
        if action == RUN_ACTION:
            optimisation = await _start(request, evalset, form)
            return redirect_to(request, _page_url(optimisation))
        form = optimisation_form.apply_action(form, action, request.POST.get("tag", ""))
    except DevUIError as refusal:
        error = refusal
    return await units_of_work.read(_render_form, request, evalset, form, error)


async def show(request: HttpRequest, optimisation_id: str) -> HttpResponse:
    """Show the candidates of an optimisation, and its verdict.

    Raises:
        NotFound: there is no such optimisation.
    """
    optimisation = await units_of_work.read(steps.find_optimisation, optimisation_id)
    if await units_of_work.read(steps.is_abandoned, optimisation):
        await units_of_work.write(steps.mark_crashed, optimisation)
    return await units_of_work.read(_render_page, request, optimisation_id)


async def cancel(request: HttpRequest, optimisation_id: str) -> HttpResponse:
    """Request the cancellation of an optimisation."""
    optimisation = await units_of_work.read(steps.find_optimisation, optimisation_id)
    await server_engine.cancel_optimisation(optimisation)
    return redirect("optimisation", optimisation_id=optimisation_id)


async def resume(request: HttpRequest, optimisation_id: str) -> HttpResponse:
    """Go on with an optimisation that ended early."""
    optimisation = await units_of_work.read(steps.find_optimisation, optimisation_id)
    await server_engine.resume_optimisation(optimisation, person=person_name(request))
    return redirect("optimisation", optimisation_id=optimisation_id)


def download(request: HttpRequest, optimisation_id: str) -> HttpResponse:
    """Download the best candidate as a file for `run_evals --variant`; `?candidate=` another one.

    Raises:
        NotFound: no such optimisation or candidate, or it is the original.
    """
    optimisation = steps.find_optimisation(optimisation_id)
    candidate = _find_candidate(optimisation, request.GET.get("candidate", ""))
    variant = steps.make_variant(optimisation, candidate.instruction)
    if variant is None:
        raise NotFound("The original has no variant.", hint="Download another candidate.")
    return download_variant(variant, f"{optimisation.agent}-{candidate.number}")


def _find_candidate(optimisation: Optimisation, number: str) -> Candidate:
    """Return the candidate of a number; the best one without a number.

    Raises:
        NotFound: there is none.
    """
    report = read_report(optimisation)
    by_number = {str(candidate.number): candidate for candidate in report.candidates}
    candidate = by_number.get(number) if number else report.best
    if candidate is None:
        raise NotFound(
            f"Optimisation {optimisation.pk} has no candidate {number[:20]!r}.",
            hint="Its page lists the candidates.",
        )
    return candidate


def _require_same_cases(request: HttpRequest, evalset: EvalSet) -> None:
    """Require a form that was opened with the cases that the evalset has.

    Raises:
        HasChanged: the evalset has changed.
    """
    if optimisation_form.has_changed(request.POST, evalset.digest):
        raise HasChanged(
            "The evalset has changed since the form was opened, so its cases are divided anew.",
            hint="Check which cases are for training and for validation, and submit the form again.",
        )


async def _start(request: HttpRequest, evalset: EvalSet, form: OptimisationForm) -> Optimisation:
    """Start the optimisation of a form.

    Raises:
        DevUIError: the form is invalid, or the agent cannot be optimised.
    """
    settings = optimisation_form.parse_settings(form)
    order = replace(await units_of_work.read(read_order, request, evalset), case_ids=(), num_runs=1)
    new_run = make_shared_order(await units_of_work.read(run_orders.prepare_run, evalset, order))
    optimisation = await server_engine.start_optimisation(new_run, settings, person=person_name(request))
    note_object(request, evalset.evalset_id, optimisation.pk)
    return optimisation


def _draft_form(evalset: EvalSet) -> OptimisationForm:
    case_ids = [case["id"] for case in json.loads(evalset.cases)]
    tags = tags_by_index(library.current_version(evalset)) if case_ids else []
    return optimisation_form.draft_form(case_ids, [tags[index] for index in range(len(case_ids))])


def _render_form(
    request: HttpRequest, evalset: EvalSet, form: OptimisationForm, error: DevUIError | None = None
) -> HttpResponse:
    config = run_form.read_run_config(evalset)
    choices = run_form.build_form(
        config,
        request.POST if request.method == "POST" else None,
        cases=read_file_content(evalset)["eval_cases"],
        runs=list_replayable_runs(evalset),
    )
    context: dict[str, Any] = {
        "evalset": evalset,
        "form": form,
        "config": config,
        "choices": choices,
        "error": error,
        "optimisations": steps.list_optimisations(evalset),
        "runnable": evalset.app_name in runnable_apps() and not evalset.gone,
    }
    return render_partial(
        request, FORM_PAGE, context, partial="form", target=FORM, status=422 if error else 200
    )


def _render_page(request: HttpRequest, optimisation_id: str) -> HttpResponse:
    optimisation = steps.find_optimisation(optimisation_id)
    report = read_report(optimisation)
    context: dict[str, Any] = {
        "optimisation": optimisation,
        "evalset": optimisation.evalset,
        "report": report,
        "rows": [(candidate, _diff_to_parent(candidate)) for candidate in report.candidates],
        "verdict": read_verdict(optimisation),
    }
    return render_partial(request, PAGE, context, partial="progress", target=PROGRESS)


def _diff_to_parent(candidate: Candidate) -> list[Any]:
    return diff_texts(candidate.parent.instruction, candidate.instruction) if candidate.parent else []


def _page_url(optimisation: Optimisation) -> str:
    return reverse("optimisation", kwargs={"optimisation_id": optimisation.pk})
