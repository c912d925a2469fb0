"""Model calls and traces of invocations."""

from __future__ import annotations

from typing import Any

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.forms.query import QueryForm
from sessions_app.http import render_partial
from sessions_app.lookup import find_event, find_session
from sessions_app.sessions.eval_attempts import find_attempt
from sessions_app.store import scopes
from sessions_app.store.models import AgentSession, ModelCall
from sessions_app.store.traces import log_records
from sessions_app.traces import model_calls, waterfall
from sessions_app.traces.request_contents import describe_content
from sessions_app.views.event import json_response

CALL = "devui/traces/call.html"
TRACE = "devui/traces/trace.html"
CONTENTS_SHOWN = 20
"""Contents per stretch that are shown initially."""

CONTENTS_MOST = 1_000
TARGET = "llm"


class CallQuery(QueryForm):
    """Options of a model call's page; `contents=all` shows all contents of the request."""

    contents = forms.ChoiceField(required=False, choices=[("all", "all")])


def event_call(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """Show the model call that produced an event, or the calls of the event's invocation.

    Raises:
        SessionMissing: no such session.
        EventMissing: no such event.
    """
    session = find_session(pk)
    event = find_event(session, seq=seq)
    recorded_session, invocation_id = model_calls.find_recording_session(session, event)
    model_call = model_calls.find_event_call(event, recorded_session)
    calls = model_calls.read_calls(recorded_session, invocation_id)
    return _render_call(request, session, model_call, calls, event=event)


def call(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    """Show a model call.

    Raises:
        SessionMissing: no such session.
        NotFound: the session has no such call.
    """
    session = find_session(pk)
    model_call = model_calls.find_call(session, call)
    return _render_call(
        request, session, model_call, model_calls.read_calls(session, model_call.invocation_id)
    )


def call_json(request: HttpRequest, pk: int, call: int) -> HttpResponse:
    """Return a model call's request and responses as JSON; with a pointer, a piece of it.

    Raises:
        SessionMissing: no such session.
        NotFound: the session has no such call, or there is nothing at the pointer.
    """
    model_call = model_calls.find_call(find_session(pk), call)
    return json_response(request, scopes.dumps(model_calls.call_json(model_call)))


def page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show an invocation's waterfall of spans, its stages and its model calls.

    Raises:
        NotFound: no such trace.
    """
    trace = waterfall.find_trace(pk)
    session = trace.session
    calls = model_calls.read_calls(session, trace.invocation_id)
    context = {
        "trace": trace,
        "session": session,
        "name": session.name,
        "attempt": find_attempt(session),
        "waterfall": waterfall.waterfall(session, trace.invocation_id),
        "calls": calls,
        "more_calls": model_calls.count_more_calls(calls),
        "log": log_records.count_invocation(session, trace.invocation_id),
    }
    return render(request, TRACE, context)


def event_trace(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """Show the trace of an event's invocation with the event's span marked.

    Raises:
        SessionMissing: no such session.
        EventMissing: no such event.
    """
    session = find_session(pk)
    event = find_event(session, seq=seq)
    recorded_session, invocation_id = model_calls.find_recording_session(session, event)
    context = {
        "session": session,
        "name": session.name,
        "waterfall": waterfall.waterfall(recorded_session, invocation_id),
        "selected": event.seq,
        "log": log_records.count_invocation(recorded_session, invocation_id),
        "beside": True,
    }
    return render_partial(request, TRACE, context, partial="body", target="trace")


def _render_call(
    request: HttpRequest, session: AgentSession, call: ModelCall | None, calls: list[ModelCall], **more: Any
) -> HttpResponse:
    query = CallQuery(request.GET).read()
    context = {
        "session": session,
        "name": session.name,
        "calls": calls,
        "call": call,
        **(_call_context(call, CONTENTS_MOST if query["contents"] else CONTENTS_SHOWN) if call else {}),
        **more,
    }
    return render_partial(request, CALL, context, partial="body", target=TARGET)


def _call_context(call: ModelCall, limit: int) -> dict[str, Any]:
    request, before = model_calls.read_request(call), model_calls.call_before(call)
    previous_request = model_calls.read_request(before) if before else None
    added, removed = model_calls.tools_change(request, previous_request)
    return {
        "before": before,
        "model_request": request,
        "instruction": model_calls.instruction_text(request.instruction),
        "instruction_lines": model_calls.instruction_change(request, previous_request),
        "stretches": [
            _stretch_context(content, call, before)
            for content in model_calls.compare_contents(call, request, previous_request, limit)
        ],
        "tools_added": added,
        "tools_removed": removed,
        "tools": list(zip(model_calls.tool_names(request.tools), request.tools, strict=True)),
        "responses": [
            (
                response,
                describe_content(0, response["content"], f"/responses/{number}/content")
                if "content" in response
                else None,
            )
            for number, response in enumerate(model_calls.responses(call))
        ],
    }


def _stretch_context(
    stretch: model_calls.ContentRange, call: ModelCall, before: ModelCall | None
) -> dict[str, Any]:
    """Return a range of contents of a call, or of the call before; the last ones are shown in full."""
    last = stretch.first + stretch.count - 1
    first_read = last - len(stretch.contents) + 1
    return {
        "change": stretch.change,
        "first": stretch.first,
        "last": last,
        "count": stretch.count,
        "hidden": stretch.hidden,
        "contents": [
            describe_content(number, value, f"/request/contents/{number - 1}")
            for number, value in enumerate(stretch.contents, start=first_read)
        ],
        "call_pk": before.pk if before and stretch.change == "removed" else call.pk,
    }
