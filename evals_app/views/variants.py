"""Try changed agents: a form of variants beside the original agent, and the file of a variant."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse
from django.utils.text import slugify

from evals_app.analysis import run_summary
from evals_app.analysis.instruction_history import read_instruction_history
from evals_app.files import library
from evals_app.metrics.config import RunConfig
from evals_app.models import EvalRun, EvalSet
from evals_app.runs import dispatch, run_form
from evals_app.runs.replay.policy import RECORDED, ReplayPolicy
from evals_app.runs.rerun import HasChanged
from evals_app.runs.run_form import RunForm
from evals_app.runs.variant_orders import list_variant_runs, order_with_variants, require_applicable
from evals_app.variants.model_variants import ALL, ROOT
from evals_app.variants.original_agents import OriginalAgent, hash_agents, read_original_agents
from evals_app.variants.variant import MAX_VARIANTS, Variant, read_run_variant, require_run_variant
from evals_app.variants.variant_form import (
    VariantForm,
    add_draft,
    add_models,
    draft_variant,
    parse_form,
    read_form,
    remove_draft,
)
from evals_app.views.case_editor import find_attempt
from evals_app.views.evalsets import list_replayable_runs, read_file_content, read_order, runnable_apps
from sessions_app.agents import cards
from sessions_app.http import download_text, note_object, person_name, redirect_to, render_partial
from sessions_app.lookup import parse_number
from sessions_app.paths import seg_reverse
from sessions_app.runs import agent_loading
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput, DevUIError, NotFound

PAGE = "devui/evals/variants.html"
FORM = "variant-form"
"""Element with the form, which its buttons replace."""

RUN_ACTION, MODELS_ACTION = "run", "models"


async def edit(request: HttpRequest, app_name: str, evalset_id: str) -> HttpResponse:
    """Show the agents of an app in a form. A POST runs its variants beside the original, or applies another button.

    `?run=` and `?attempt=` fill the form from a run with its variants, or from a case of it; `?instruction=` from an
    instruction that an agent of the app has had.

    Raises:
        NotFound: no evalset has this app and id, it has no such run, or the app no such instruction.
    """
    await units_of_work.write(library.refresh_known, app_name)
    evalset = await units_of_work.read(library.find_evalset, app_name, evalset_id)
    is_order = request.method == "POST" and request.POST.get("action") == RUN_ACTION
    agents = await units_of_work.read(read_agents, app_name)
    error = await agent_loading.try_to_load(app_name) if is_order or not agents else None
    agents = await units_of_work.read(read_agents, app_name)
    if request.method != "POST":
        return await units_of_work.read(_render_new_form, request, evalset, agents, error)
    form = read_form(request.POST, agents)
    if is_order and error is None:
        try:
            run = await _order_form(request, evalset, form)
            return redirect_to(request, f"{reverse('eval-run', kwargs={'run_id': run.pk})}#variants")
        except DevUIError as refusal:
            error = refusal
    try:
        form = apply_action(form, request.POST)
    except DevUIError as refusal:
        error = refusal
    choices = await units_of_work.read(_read_choices, evalset, request.POST)
    return await units_of_work.read(_render_page, request, evalset, form, choices, error)


def download(request: HttpRequest, run_id: str) -> HttpResponse:
    """Download the variant of a run as a file for `run_evals --variant`.

    Raises:
        NotFound: no such run, or it is of the original.
    """
    variant = require_run_variant(run_summary.find_run(run_id))
    return download_variant(variant, slugify(variant.name) or "variant")


def download_variant(variant: Variant, name: str) -> HttpResponse:
    """Return a response that downloads a variant as a YAML file with this name, which has no ending."""
    return download_text(variant.file_text, f"{name}.yaml", "application/yaml; charset=utf-8")


async def _order_form(request: HttpRequest, evalset: EvalSet, form: VariantForm) -> EvalRun:
    """Create and deliver the runs of a form; return that of the original.

    Raises:
        DevUIError: the form is invalid, or the agent has changed since it was opened.
    """
    require_same_agents(request, form)
    order = await units_of_work.read(read_order, request, evalset)
    variants = await units_of_work.read(parse_form, form)  # of large texts it takes seconds
    await require_applicable(evalset.app_name, variants)
    order = replace(order, person=person_name(request))
    run, *_ = await dispatch.create_all_and_deliver(partial(order_with_variants, evalset, order, variants))
    note_object(request, evalset.evalset_id, run.pk)
    return run


def require_same_agents(request: HttpRequest, form: VariantForm) -> None:
    """Require a form that was opened with the agents as they are.

    Raises:
        HasChanged: they have changed.
    """
    if request.POST.get("seen") != hash_agents(form.agents):
        raise HasChanged(
            "The agent has changed since the form was opened.",
            hint="Open the form again, and copy your entries: this one compares them with an original that is gone.",
        )


def apply_action(form: VariantForm, posted: QueryDict) -> VariantForm:
    """Return the form after a button was pressed: `add`, `models` or `remove:POSITION`. Others change nothing.

    Raises:
        BadInput, BadFile: the names of models make no variants.
    """
    name, _, text = posted.get("action", "").partition(":")
    if name == MODELS_ACTION:
        models = [line.strip() for line in posted.get("models", "").splitlines() if line.strip()]
        return add_models(form, models, ALL if "all_agents" in posted else ROOT)
    position = parse_number(text)
    if name == "remove" and position is not None:
        return remove_draft(form, position)
    return add_draft(form) if name == "add" else form


def read_agents(app_name: str) -> list[OriginalAgent]:
    """Return the agents of an app as they were last loaded; none if they are not known."""
    description = cards.read_description(app_name)
    return read_original_agents(description) if description else []


def _render_new_form(
    request: HttpRequest, evalset: EvalSet, agents: list[OriginalAgent], error: DevUIError | None
) -> HttpResponse:
    """Show the form filled from a run or an attempt, or with a variant that changes nothing yet."""
    attempt = find_attempt(evalset, request.GET.get("attempt", ""))
    run = attempt.run if attempt else _find_run(evalset, request.GET.get("run", ""))
    form = add_draft(VariantForm(agents, []))
    try:
        variants = _read_variants(run) or _read_earlier_instruction(
            evalset, request.GET.get("instruction", "")
        )
        if drafts := [draft_variant(variant, agents) for variant in variants]:
            form = replace(form, drafts=drafts)
    except BadInput as refusal:
        error = error or refusal
    cases = [attempt.case_id] if attempt else request.GET.getlist("case")
    if run and not cases:
        cases = json.loads(run.case_ids)
    choices = _read_run_choices(evalset, run) if run else _read_choices(evalset, request.GET)
    choices = replace(choices, cases=frozenset(cases))
    return _render_page(request, evalset, form, choices, error)


def _find_run(evalset: EvalSet, run_id: str) -> EvalRun | None:
    """Return a run of an evalset; None for an empty id.

    Raises:
        NotFound: the evalset has no such run.
    """
    run = run_summary.find_run(run_id) if run_id else None
    if run and run.evalset_id != evalset.pk:
        raise NotFound(f"{evalset.path} has no run {run_id}.", hint="The evalset's page lists its runs.")
    return run


def _read_variants(run: EvalRun | None) -> list[Variant]:
    """Return the variant of a run, or those that were run beside it."""
    runs = [run, *list_variant_runs(run)] if run else []
    variants = [variant for row in runs if (variant := read_run_variant(row))]
    return variants[:MAX_VARIANTS]


def _read_earlier_instruction(evalset: EvalSet, key: str) -> list[Variant]:
    """Return a variant with an instruction that an agent of the app has had; none for an empty key.

    Raises:
        NotFound: the app has no such instruction.
    """
    if not key:
        return []
    version = read_instruction_history(evalset.app_name).find_version(key)
    return [Variant("earlier instruction", "", version.patch)]


def _read_choices(evalset: EvalSet, posted: QueryDict) -> RunForm:
    """Return the fields of the run form as they were submitted, else as they are first shown."""
    return run_form.build_form(
        run_form.read_run_config(evalset),
        posted if "metric" in posted else None,
        cases=read_file_content(evalset)["eval_cases"],
        runs=list_replayable_runs(evalset),
    )


def _read_run_choices(evalset: EvalSet, run: EvalRun) -> RunForm:
    """Return the fields of the run form like a run.

    What a run with variants replays is replayed again. Of another run, the recorded tools are suggested: then the
    original and its variants have the same data.
    """
    recordings = list_replayable_runs(evalset)
    choices = run_form.build_form(
        RunConfig(json.loads(run.config), run.config_source),
        cases=read_file_content(evalset)["eval_cases"],
        runs=recordings,
        last_run=run,
    )
    if _read_variants(run):
        return replace(choices, policy=ReplayPolicy.of(run.policy), parallelism=run.parallelism)
    is_recorded = any(recording.pk == run.pk for recording in recordings)
    return replace(choices, policy=ReplayPolicy(tools=RECORDED, run=run.pk)) if is_recorded else choices


def form_context(
    request: HttpRequest, app_name: str, form: VariantForm, error: DevUIError | None
) -> dict[str, Any]:
    """Return what the template of the form shows, except its address and the order."""
    return {
        "app_name": app_name,
        "form": form,
        "seen": request.POST.get("seen", hash_agents(form.agents)),
        "models": request.POST.get("models", "") if error else "",
        "all_agents": "all_agents" in request.POST,
        "error": error,
    }


def _render_page(
    request: HttpRequest, evalset: EvalSet, form: VariantForm, choices: RunForm, error: DevUIError | None
) -> HttpResponse:
    context: Mapping[str, Any] = {
        **form_context(request, evalset.app_name, form, error),
        "form_url": seg_reverse("evalset-variants", app_name=evalset.app_name, evalset_id=evalset.evalset_id),
        "evalset": evalset,
        "config": run_form.read_run_config(evalset),
        "choices": choices,
        "cases": sorted(choices.cases),
        "case_count": len(choices.cases) or len(json.loads(evalset.cases)),
        "cases_with": request.POST.get("cases_with", ""),
        "order_fields": "devui/evals/variant_order.html",
        "runnable": evalset.app_name in runnable_apps() and not evalset.gone,
    }
    status = 422 if error and request.method == "POST" else 200
    return render_partial(request, PAGE, context, partial="form", target=FORM, status=status)
