"""Edit a message and run it in a new session; resume an interrupted invocation."""

from __future__ import annotations

import json
from typing import Any

from asgiref.sync import sync_to_async
from django.http import HttpRequest, HttpResponse

from sessions_app.branches import edit_message, fork
from sessions_app.forms.branches import EditMessageForm
from sessions_app.http import person_name, redirect_to, render_partial
from sessions_app.lookup import find_run
from sessions_app.paths import session_url
from sessions_app.runs import availability, dispatch, lifecycle
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import BadInput
from sessions_app.store.models import Event, Run
from sessions_app.store.realms import refuse_read_only

EDIT = "devui/sessions/console/message_edit.html"
RESUME = "devui/runs/resume.html"
DIALOG = "dialog-content"


async def edit(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """Show the form of a user message; on POST send it in a new session that holds the events before it.

    Raises:
        SessionMissing: there is no such session.
        EventMissing: the session has no such event.
        BadInput: the event is not a user message.
    """
    sent_message = await units_of_work.read(edit_message.find_message, pk, seq)
    refuse_read_only(sent_message.session)
    form_data = request.POST if request.method == "POST" else None
    form = EditMessageForm(form_data, initial=_initial_values(sent_message))
    if form.is_valid():
        values = form.cleaned_data
        if values["message"].strip() or sent_message.others:
            await availability.refuse_unavailable(sent_message.session.app_name)
            try:
                new_session = await sync_to_async(edit_message.fork_before)(sent_message, values["title"])
            except BadInput as error:
                form.add_error(None, f"{error.message} {error.hint}")
            else:
                await dispatch.start_run(
                    new_session,
                    sent_message.request(values["message"], values["state_delta"]),
                    person=person_name(request),
                )
                return redirect_to(request, session_url(new_session))
        else:
            form.add_error("message", "The message is empty.")
    context = {
        "user_message": sent_message,
        "session": sent_message.session,
        "form": form,
        "back": session_url(sent_message.session),
    }
    status = 422 if form.is_bound else 200
    return await sync_to_async(render_partial)(
        request, EDIT, context, partial="form", target=DIALOG, status=status
    )


async def resume(request: HttpRequest, run_id: str) -> HttpResponse:
    """Show how far an invocation came; on POST resume it, unless a later run already did.

    Raises:
        NotFound: there is no such run.
        BadInput: the run has no invocation, or its session is an eval attempt.
    """
    run, context = await units_of_work.read(_read_resumable, run_id)
    refuse_read_only(run.session)
    if request.method == "POST" and not context["later"]:
        run_request = {"invocation_id": run.invocation_id, "streaming": True}
        send_id = request.POST.get("send_id", "")
        await dispatch.start_run(run.session, run_request, send_id, person=person_name(request))
        return redirect_to(request, session_url(run.session))
    status = 422 if request.method == "POST" else 200
    return await sync_to_async(render_partial)(
        request, RESUME, context, partial="form", target=DIALOG, status=status
    )


def _initial_values(sent_message: edit_message.UserMessage) -> dict[str, Any]:
    return {
        "message": sent_message.text,
        "state_delta": json.dumps(sent_message.delta, ensure_ascii=False) if sent_message.delta else "",
        "title": f"{fork.short_name(sent_message.session)} · edited at {sent_message.event.seq}",
    }


def _read_resumable(run_id: str) -> tuple[Run, dict[str, Any]]:
    run = find_run(run_id)
    if not run.invocation_id:
        raise BadInput("This run ended before it had an invocation.", hint="Send its message again.")
    events = Event.objects.filter(session=run.session, invocation_id=run.invocation_id)
    last = events.order_by("-seq").defer("data", "private").first()
    later = lifecycle.find_unresumable_run(run.session_id, run.invocation_id)
    context = {
        "run": run,
        "session": run.session,
        "last": last,
        "count": events.count(),
        "back": session_url(run.session),
        "later": later,
    }
    return run, context
