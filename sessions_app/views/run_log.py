"""Log of an invocation: its page, and the records below an event of the session page."""

from __future__ import annotations

import time

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.agent_processes.process_output import read_output
from sessions_app.forms.query import QueryForm
from sessions_app.lookup import find_event, find_session
from sessions_app.store.models import LOG_LEVELS, Run, Trace
from sessions_app.store.traces import log_records
from sessions_app.traces import waterfall

PAGE = "devui/traces/log.html"
PART = "devui/traces/log_part.html"

AFTER_RUN_S = 60.0
"""Seconds after a run whose output its page shows, too: threads that a tool started print after its end."""


class LogQuery(QueryForm):
    """Selects records of at least a level, after a primary key or around one."""

    level = forms.ChoiceField(required=False, choices=[(name, name) for name in ("", *LOG_LEVELS)])
    after = forms.IntegerField(required=False, min_value=0)
    near = forms.IntegerField(required=False, min_value=0)
    output = forms.BooleanField(required=False)


def page(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the log of an invocation.

    Raises:
        NotFound: no such trace.
    """
    trace = waterfall.find_trace(pk)
    query = LogQuery(request.GET).read()
    level = LOG_LEVELS.get(query["level"], 0)
    if query["near"]:
        query["after"] = log_records.cursor_before(trace.session, trace.invocation_id, query["near"])
    context = {
        "trace": trace,
        "session": trace.session,
        "query": query,
        "levels": list(LOG_LEVELS),
        "log": log_records.read_page(trace.session, trace.invocation_id, level, query["after"] or 0),
        "near": query["near"],
        "output": _process_output(trace) if query["output"] else None,
        "count": log_records.count_invocation(trace.session, trace.invocation_id),
    }
    return render(request, PAGE, context)


def _process_output(trace: Trace) -> str | None:
    """Return the output of the process during an invocation and shortly after; None if another program ran it."""
    runs = Run.objects.filter(session=trace.session, invocation_id=trace.invocation_id)
    if not runs.exists():
        return None
    end = time.time() if trace.finished_at is None else trace.finished_at + AFTER_RUN_S
    return read_output(trace.session.app_name, trace.started_at, end)


def show_event_log(request: HttpRequest, pk: int, seq: int) -> HttpResponse:
    """Show the first records that follow an event, up to the next event of its invocation.

    Raises:
        SessionMissing: no such session.
        EventMissing: no such event.
    """
    session = find_session(pk)
    event = find_event(session, seq=seq)
    context = {
        "log": log_records.read_page_after_event(session, event),
        "trace": waterfall.find_invocation_trace(session, event.invocation_id),
    }
    return render(request, PART, context)
