"""Page to replay a session."""

from __future__ import annotations

from functools import partial

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse

from evals_app.cases import session_cases
from evals_app.runs import dispatch
from evals_app.runs.replay.policy import MODEL_CHOICES, RECORDED, TOOL_CHOICES, ReplayPolicy
from evals_app.runs.replayed_sessions import order_replay
from sessions_app.http import person_name, render_partial
from sessions_app.lookup import find_session
from sessions_app.paths import session_url
from sessions_app.store import realms
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import DevUIError

REPLAY = "devui/evals/replay.html"
DIALOG = "dialog-content"


async def replay(request: HttpRequest, pk: int) -> HttpResponse:
    """Show what of a session can be given again; a POST replays it in a realm of its own.

    Raises:
        SessionMissing: no such session.
    """
    if request.method != "POST":
        return await units_of_work.read(_render_form, request, pk, ReplayPolicy(tools=RECORDED))
    models, tools = request.POST.get("replay_models", ""), request.POST.get("replay_tools", "")
    session = await units_of_work.read(find_session, pk)
    try:
        conversation = await session_cases.fetch_conversation(session)
        order = partial(order_replay, session, conversation, models, tools, person=person_name(request))
        run = await dispatch.create_and_deliver(order)
    except DevUIError as error:
        return await units_of_work.read(_render_form, request, pk, ReplayPolicy(models, tools), error)
    attempt = await run.attempts.aget()
    return redirect(f"{reverse('eval-run', kwargs={'run_id': run.id})}?attempt={attempt.pk}")


def _render_form(
    request: HttpRequest, pk: int, policy: ReplayPolicy, error: DevUIError | None = None
) -> HttpResponse:
    session = find_session(pk)
    realms.refuse_nested(session)
    context = {
        "session": session,
        "back": session_url(session),
        "policy": policy,
        "models": MODEL_CHOICES,
        "tools": TOOL_CHOICES,
        "error": error,
    }
    status = error.status if error else 200
    return render_partial(request, REPLAY, context, partial="form", target=DIALOG, status=status)
