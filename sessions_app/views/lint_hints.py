"""Lint hints and drift of a session's state, as a list and for the keys of the state board."""

from __future__ import annotations

from collections import defaultdict
from itertools import groupby
from operator import attrgetter
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from sessions_app.http import render_partial, wants_partial
from sessions_app.lookup import find_session
from sessions_app.state import lint
from sessions_app.state.lint import Hint
from sessions_app.store.state import drift
from sessions_app.store.state.drift import Drift

PAGE = "devui/sessions/state/hints.html"
MOST_KEYS = 300
"""Maximum number of keys of the state board that hints are sent for."""


def hints(request: HttpRequest, pk: int) -> HttpResponse:
    """Show the lint hints for a session's current state by rule; for the state board by key, with drift.

    Raises:
        SessionMissing: no such session.
    """
    session = find_session(pk)
    report = lint.lint(session)
    context = {"session": session, "report": report}
    if wants_partial(request, "hints"):
        beside = _hints_by_key(report.hints, drift.find_drift(session, most=MOST_KEYS).drifts)
        return render(request, f"{PAGE}#beside", {**context, "beside": beside[:MOST_KEYS]})
    context["rules"] = [(rule, list(hints)) for rule, hints in groupby(report.hints, attrgetter("rule"))]
    return render_partial(request, PAGE, context, partial="list", target="dialog-content")


def _hints_by_key(hints: list[Hint], drifted: list[Drift]) -> list[dict[str, Any]]:
    by_key: defaultdict[str, list[Hint]] = defaultdict(list)
    for hint in hints:
        by_key[hint.name].append(hint)
    by_name = {entry.name: entry for entry in drifted}
    names = sorted({*by_key, *by_name})
    return [{"name": name, "hints": by_key[name], "drift": by_name.get(name)} for name in names]
