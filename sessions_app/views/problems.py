"""Problems of a session: the list, the blocks of an open session page, and the hints on its state board."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any
from urllib.parse import urlencode

from django import forms
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app import paths
from sessions_app.forms.query import QueryForm
from sessions_app.http import redirect_to, render_partial, wants_partial
from sessions_app.lookup import find_session
from sessions_app.problems import DetectorScope, Severity, problem_queries
from sessions_app.problems.problem_groups import read_problem_groups
from sessions_app.problems.problem_queries import ShownProblem
from sessions_app.store.models import AgentSession
from sessions_app.store.state import drift
from sessions_app.store.state.drift import Drift
from sessions_app.tables import problem_columns

PAGE = "devui/problems/problems.html"
LIST = "devui/problems/list.html"
TITLES = {Severity.ERROR: "Errors", Severity.WARNING: "Warnings", Severity.NOTE: "Notes"}

MAX_CHECKS = 30
"""Times that an open page asks again, once a second, while events are being checked."""

MAX_KEYS = 300
"""Maximum number of keys of the state board that hints are sent for."""

INVOCATIONS_UPDATED = 50
"""Newest invocations with problems whose blocks the timeline updates at once."""


class ProblemQuery(QueryForm):
    """Selects problems. `looks`: how often the page has asked again, for events being checked."""

    code = forms.CharField(required=False, strip=False)
    invocation = forms.CharField(required=False, strip=False)
    scope = forms.ChoiceField(required=False, choices=[(scope, scope) for scope in DetectorScope])
    looks = forms.IntegerField(required=False, min_value=0)


def index(request: HttpRequest) -> HttpResponse:
    """Show the problems of all apps, or of `?app=`, by kind and app."""
    table = problem_columns.TABLE.arrange(request)
    app = request.GET.get("app", "")
    context = {**table.all_rows_context(read_problem_groups(app)), "app": app, "is_filtered": bool(app)}
    return render_partial(request, LIST, context, partial="problems")


def csv_file(request: HttpRequest) -> HttpResponse:
    """Download the problems as CSV, in the order and with the columns of the list."""
    table = problem_columns.TABLE.arrange(request)
    return table.csv_response(table.sort_rows(read_problem_groups(request.GET.get("app", ""))))


def problems(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the problems of a session by severity, and those of its state by detector.

    A live page gets their number and a block for each invocation; its state board gets hints by key, with drift.

    Raises:
        SessionMissing: no such session.
    """
    session = find_session(pk)
    if wants_partial(request, "problems"):
        by_invocation = problem_queries.newest_by_invocation(session, INVOCATIONS_UPDATED)
        return render(request, f"{PAGE}#live", {"session": session, "by_invocation": by_invocation})
    if wants_partial(request, "hints"):
        return render(request, f"{PAGE}#hints", _board_hints(session))
    query = ProblemQuery(request.GET).read()
    session_problems = problem_queries.read_problems(
        session, query["code"], query["invocation"], query["scope"]
    )
    context: dict[str, Any] = {
        "session": session,
        "more": session_problems.more,
        "unchecked": session_problems.unchecked,
        "next_url": _next_url(pk, query) if session_problems.unchecked else "",
        "checked_seq": max(0, session.problems_seq),
        "code": query["code"],
        "scope": query["scope"],
        "invocation_id": query["invocation"],
        "all_url": paths.url_by_key("session-problems", pk),
        "groups": [
            (TITLES[severity], list(rows))
            for severity, rows in groupby(session_problems.rows, _problem_severity)
        ],
        "state_groups": [
            (detector, list(rows))
            for detector, rows in groupby(session_problems.state_rows, attrgetter("detector"))
        ],
        "state_size": session_problems.state_size,
    }
    return render_partial(request, PAGE, context, partial="list", target="dialog-content")


def hints(request: HttpRequest, pk: int) -> HttpResponse:
    """Redirect the former address of the hints about the state."""
    return redirect_to(request, f"{paths.url_by_key('session-problems', pk)}?scope={DetectorScope.STATE}")


def _board_hints(session: AgentSession) -> dict[str, Any]:
    """Return the problems of the current state by key, and its size. Drift is compared with the stored values now."""
    problems = problem_queries.read_problems(session, scope=DetectorScope.STATE)
    drifted = drift.find_drift(session, most=MAX_KEYS).drifts
    return {
        "session": session,
        "mark": problem_queries.read_mark(session),
        "state_size": problems.state_size,
        "keys": _group_by_key(problems.state_rows, drifted)[:MAX_KEYS],
    }


def _group_by_key(problems: Sequence[ShownProblem], drifted: Sequence[Drift]) -> list[dict[str, Any]]:
    """Return the keys that have problems or drift, by name. Problems without a key are on the page only."""
    by_key: defaultdict[str, list[ShownProblem]] = defaultdict(list)
    for problem in problems:
        by_key[problem.row.key].append(problem)
    by_name = {entry.name: entry for entry in drifted}
    names = sorted({*by_key, *by_name} - {""})
    return [{"name": name, "problems": by_key[name], "drift": by_name.get(name)} for name in names]


def _next_url(pk: int, query: Mapping[str, Any]) -> str:
    """Return the address at which the page asks again; empty after many times."""
    looks = (query["looks"] or 0) + 1
    if looks > MAX_CHECKS:
        return ""
    chosen = {name: query[name] for name in ("code", "invocation", "scope") if query[name]}
    return f"{paths.url_by_key('session-problems', pk)}?{urlencode({**chosen, 'looks': looks})}"


def _problem_severity(problem: ShownProblem) -> Severity:
    return Severity(problem.row.severity)
