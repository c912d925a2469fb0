"""Try changed agents on the messages of a session: the form of variants, and runs of the original and each variant."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from evals_app.cases import session_cases
from evals_app.models import EvalRun
from evals_app.runs import dispatch
from evals_app.runs.replay.policy import MODEL_CHOICES, RECORDED, TOOL_CHOICES, ReplayPolicy
from evals_app.runs.variant_orders import order_replay_with_variants, require_applicable
from evals_app.variants.variant_form import VariantForm, add_draft, parse_form, read_form
from evals_app.views.evalsets import runnable_apps
from evals_app.views.variants import (
    FORM,
    RUN_ACTION,
    apply_action,
    form_context,
    read_agents,
    require_same_agents,
)
from sessions_app.http import note_object, person_name, redirect_to, render_partial
from sessions_app.lookup import find_session, parse_number
from sessions_app.paths import session_url
from sessions_app.runs import agent_loading
from sessions_app.store import realms
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError
from sessions_app.store.models import AgentSession

PAGE = "devui/evals/session_variants.html"


async def edit(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the agents of a session's app in a form. A POST runs its variants, or applies another button.

    Raises:
        SessionMissing: no such session.
        BadInput: it belongs to a nested run.
    """
    session = await units_of_work.read(_find_session, pk)
    is_order = request.method == "POST" and request.POST.get("action") == RUN_ACTION
    agents = await units_of_work.read(read_agents, session.app_name)
    error = await agent_loading.try_to_load(session.app_name) if is_order or not agents else None
    agents = await units_of_work.read(read_agents, session.app_name)
    form = read_form(request.POST, agents) if request.method == "POST" else add_draft(VariantForm(agents, []))
    try:
        if is_order and error is None:
            run = await _order_form(request, session, form)
            return redirect_to(request, f"{reverse('eval-run', kwargs={'run_id': run.pk})}#variants")
        form = apply_action(form, request.POST)
    except DevUIError as refusal:
        error = refusal
    return await units_of_work.read(_render_page, request, session, form, error)


def _find_session(pk: int) -> AgentSession:
    session = find_session(pk)
    realms.refuse_nested(session)
    return session


async def _order_form(request: HttpRequest, session: AgentSession, form: VariantForm) -> EvalRun:
    """Create and deliver the runs of a form; return that of the original.

    Raises:
        DevUIError: the form is invalid, or the agent has changed since it was opened.
    """
    require_same_agents(request, form)
    variants = await units_of_work.read(parse_form, form)
    await require_applicable(session.app_name, variants)
    order = partial(
        order_replay_with_variants,
        session,
        await session_cases.fetch_conversation(session),
        _read_policy(request),
        variants,
        num_runs=parse_number(request.POST.get("num_runs", "")) or 0,
        person=person_name(request),
    )
    run, *_ = await dispatch.create_all_and_deliver(order)
    note_object(request, session.session_id, run.pk)
    return run


def _read_policy(request: HttpRequest) -> ReplayPolicy:
    """Return what is replayed; at first, tools return what the session recorded."""
    posted = request.POST
    return ReplayPolicy(posted.get("replay_models", ""), posted.get("replay_tools", RECORDED))


def _render_page(
    request: HttpRequest, session: AgentSession, form: VariantForm, error: DevUIError | None
) -> HttpResponse:
    context: dict[str, Any] = {
        **form_context(request, session.app_name, form, error),
        "form_url": reverse("session-variants", kwargs={"pk": session.pk}),
        "session": session,
        "back": session_url(session),
        "order_fields": "devui/evals/session_variant_order.html",
        "num_runs": request.POST.get("num_runs", "1"),
        "policy": _read_policy(request),
        "model_choices": MODEL_CHOICES,
        "tool_choices": TOOL_CHOICES,
        "runnable": session.app_name in runnable_apps(),
    }
    status = 422 if error and request.method == "POST" else 200
    return render_partial(request, PAGE, context, partial="form", target=FORM, status=status)
