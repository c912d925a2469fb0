"""Problems of a session: the list, and the blocks of an open session page."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app import paths
from sessions_app.forms.query import QueryForm
from sessions_app.http import render_partial, wants_partial
from sessions_app.lookup import find_session
from sessions_app.problems import Severity, problem_queries
from sessions_app.problems.problem_queries import ShownProblem

PAGE = "devui/problems/problems.html"
TITLES = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.NOTE: "Notes"}

MOST_LOOKS = 30
"""Times that an open page asks again, once a second, while events are being checked."""

INVOCATIONS_UPDATED = 50
"""Newest invocations with problems whose blocks the timeline updates at once."""


class ProblemQuery(QueryForm):
    """Selects problems by code or invocation. `looks`: how often the page has asked again, for events being checked."""

    code = forms.CharField(required=False, strip=False)
    invocation = forms.CharField(required=False, strip=False)
    looks = forms.IntegerField(required=False, min_value=0)


def problems(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the problems of a session by severity; for a live page, their number and a block for each invocation.

    Raises:
        SessionMissing: no such session.
    """
    session = find_session(pk)
    if wants_partial(request, "problems"):
        by_invocation = problem_queries.newest_by_invocation(session, INVOCATIONS_UPDATED)
        return render(request, f"{PAGE}#live", {"session": session, "by_invocation": by_invocation})
    query = ProblemQuery(request.GET).read()
    session_problems = problem_queries.read_problems(session, query["code"], query["invocation"])
    context: dict[str, Any] = {
        "session": session,
        "more": session_problems.more,
        "unchecked": session_problems.unchecked,
        "next_url": _next_url(pk, query) if session_problems.unchecked else "",
        "code": query["code"],
        "invocation_id": query["invocation"],
        "all_url": paths.url_by_key("session-problems", pk),
        "groups": [
            (TITLES[severity], list(rows))
            for severity, rows in groupby(session_problems.rows, _problem_severity)
        ],
    }
    return render_partial(request, PAGE, context, partial="list", target="dialog-content")


def _next_url(pk: int, query: Mapping[str, Any]) -> str:
    """Return the address at which the page asks again; empty after many times."""
    looks = (query["looks"] or 0) + 1
    if looks > MOST_LOOKS:
        return ""
    chosen = {name: query[name] for name in ("code", "invocation") if query[name]}
    return f"{paths.url_by_key('session-problems', pk)}?{urlencode({**chosen, 'looks': looks})}"


def _problem_severity(problem: ShownProblem) -> Severity:
    return Severity(problem.row.severity)
