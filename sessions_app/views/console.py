"""Run an agent from the session page: send messages, answer questions, cancel and repeat runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render

from sessions_app.console import answers, message_draft, request_snippets
from sessions_app.console.credential_requests import InvalidAnswer
from sessions_app.console.message_draft import MessageDraft
from sessions_app.console.questions import find_question
from sessions_app.http import person_name, render_partial, request_access
from sessions_app.lookup import find_run, find_session
from sessions_app.paths import session_url
from sessions_app.quotas.quota_limits import QuotaUsedUp
from sessions_app.runs import agent_loading, availability, dispatch, lifecycle, pauses, rerun
from sessions_app.store.database import units_of_work
from sessions_app.store.errors import AgentNotLoaded, NotFound, RuntimeUnavailable, SessionMissing
from sessions_app.store.models import AgentSession
from sessions_app.store.realms import refuse_read_only

PAGE = "devui/sessions/console/message.html"
PROBLEMS = "devui/sessions/console/question_errors.html"
CALL = "devui/sessions/console/message_call.html"

QUEUE_ERRORS = (NotFound, AgentNotLoaded, RuntimeUnavailable, QuotaUsedUp)
"""Errors because of which a run cannot be queued."""


async def message(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the message form with all options; the part `console-options` holds only the options.

    Load the agent if it was never loaded: only its process knows the fields of ADK's `RunConfig`.

    Raises:
        SessionMissing: no such session.
        BadInput: the session is an eval attempt.
        NotFound, AgentNotLoaded, RuntimeUnavailable: the app cannot be run.
    """
    session = await units_of_work.read(find_session, pk)
    refuse_read_only(session)
    await availability.refuse_unavailable(session.app_name)
    draft = await units_of_work.read(message_draft.empty_draft, session.app_name)
    problem = None
    if not draft.config:
        problem = await agent_loading.try_to_load(session.app_name)
        draft = await units_of_work.read(message_draft.empty_draft, session.app_name)
    fields = {name: request.GET.get(name, "") for name in ("message", "invocation_id")}
    draft = replace(draft, text=fields["message"], invocation_id=fields["invocation_id"])
    context = {**_form_context(session, draft), "problem": problem}
    return render_partial(request, PAGE, context, partial="options", target="console-options")


async def start(request: HttpRequest, pk: int) -> HttpResponse:
    """Queue a run with the message or answer that was sent, and hand it to the app's runtime.

    Raises:
        SessionMissing: no such session.
        BadInput: the session is an eval attempt, or the answer is invalid.
        NotFound: the answered call does not wait for an answer.
    """
    session = await units_of_work.read(find_session, pk)
    refuse_read_only(session)
    send_id = request.POST.get("send_id", "")
    if request.POST.get("call_id"):
        if await units_of_work.read(lifecycle.find_sent_run, session.pk, send_id):
            return _finish_message(request, session)
        try:
            answer = await _read_answer(session, request)
        except InvalidAnswer as error:
            if not request.headers.get("HX-Request"):
                raise
            return _render_answer_errors(request, error.faults)
        try:
            await dispatch.start_run(session, answer, send_id, person=person_name(request))
        except SessionMissing:
            raise
        except QUEUE_ERRORS as error:
            if not request.headers.get("HX-Request"):
                raise
            return _render_answer_errors(request, {"": f"{error.message} {error.hint}"})
        return _finish_message(request, session)
    draft = await units_of_work.read(_read_draft, session, request)
    if draft.is_valid:
        draft = replace(draft, errors=await dispatch.run_config_problems(session.app_name, draft))
    if not draft.is_valid:
        return _render_errors(request, session, draft)
    try:
        request_body = await units_of_work.read(draft.request)
        await dispatch.start_run(session, request_body, send_id, person=person_name(request))
    except SessionMissing:
        raise
    except QUEUE_ERRORS as error:
        refused = replace(draft, errors={"message": f"{error.message} {error.hint}"})
        return _render_errors(request, session, refused, error.status)
    return _finish_message(request, session)


async def call(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the API call that sends the form's message, for `curl` and in Python.

    Raises:
        SessionMissing: no such session.
    """
    session = await units_of_work.read(find_session, pk)
    draft = await units_of_work.read(_read_draft, session, request)
    names = [file.name or "file" for file in draft.files] + request.POST.getlist("file_name")
    errors = {name: error for name, error in draft.errors.items() if not (name == "message" and names)}
    if errors:
        return _render_errors(request, session, replace(draft, errors=errors))
    with_token = request_access(request).is_authenticated
    call = request_snippets.RequestSnippet.of(
        session, draft, names, request.build_absolute_uri("/"), with_token=with_token
    )
    context = {"curl": call.curl(), "python": call.python(), "session": session}
    return render_partial(request, CALL, context, partial="calls", target="console-call")


async def resend(request: HttpRequest, run_id: str) -> HttpResponse:
    """Queue a new run with the request of an earlier one.

    Raises:
        NotFound: no such run.
        BadInput: the run was an answer, its request is not stored, or its session is an eval attempt.
    """
    run = await units_of_work.read(find_run, run_id)
    refuse_read_only(run.session)
    request_body = await units_of_work.read(rerun.rerun_request, run)
    send_id = request.POST.get("send_id", "")
    await dispatch.start_run(run.session, request_body, send_id, person=person_name(request))
    return _finish_message(request, run.session)


async def cancel(request: HttpRequest, run_id: str) -> HttpResponse:
    """Cancel a run. Cancelling an ended run changes nothing.

    Raises:
        NotFound: no such run.
    """
    run = await units_of_work.read(find_run, run_id)
    await dispatch.cancel_run(run)
    return _finish_message(request, run.session)


def _read_draft(session: AgentSession, request: HttpRequest) -> MessageDraft:
    """Return the message in a form. Requests without the streaming switch (other programs) stream."""
    streaming = bool(request.POST.get("streaming") or not request.POST.get("has_streaming"))
    return message_draft.read_draft(
        session.app_name, request.POST, request.FILES.getlist("files"), streaming=streaming
    )


async def _read_answer(session: AgentSession, request: HttpRequest) -> dict[str, Any]:
    """Return the run request that answers an open call."""
    call_id = request.POST["call_id"]
    question = await units_of_work.read(find_question, session, call_id)
    if question is None:
        raise dispatch.call_not_waiting(call_id)
    response = answers.read_answer(question, request.POST)
    points = await units_of_work.read(pauses.inherit_pause_points, session.pk, question.invocation_id)
    return {"new_message": answers.answer_message(question, response), "streaming": True, **points}


def _form_context(session: AgentSession, draft: MessageDraft) -> dict[str, Any]:
    return {"session": session, "draft": draft, "back": session_url(session)}


def _render_errors(
    request: HttpRequest, session: AgentSession, draft: MessageDraft, status: int = 422
) -> HttpResponse:
    """Show the errors at their fields; the console keeps its contents, including files."""
    if not request.headers.get("HX-Request"):
        return render(request, PAGE, _form_context(session, draft), status=status)
    response = render(request, PAGE + "#problems", {"draft": draft}, status=422)
    response["HX-Retarget"] = "#console-problems"
    response["HX-Reswap"] = "innerHTML"
    return response


def _render_answer_errors(request: HttpRequest, faults: dict[str, str]) -> HttpResponse:
    """Show the errors of an answer in its form, which keeps its contents."""
    response = render(request, PROBLEMS, {"faults": faults}, status=422)
    response["HX-Reswap"] = "innerHTML"
    return response


def _finish_message(request: HttpRequest, session: AgentSession) -> HttpResponse:
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204)
    return HttpResponseRedirect(session_url(session), status=303)
