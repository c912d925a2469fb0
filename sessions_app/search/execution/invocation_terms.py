"""Terms about the recorded invocations and runs of a session: `during:`, `model:` and `code:`."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q

from sessions_app.search.execution.session_sets import SessionSet, sessions_of_rows
from sessions_app.search.query.terms import Field
from sessions_app.search.query.times import parse_period
from sessions_app.store.models import ModelCall, Run, Trace

INVOCATION_NAMES = frozenset({"during", "model", "code"})
"""Names of the terms about invocations and runs."""

LONGEST_S = 86_400
"""Invocations that began longer before a period are not searched, so that an index bounds them."""


def find_by_invocation(term: Field) -> SessionSet:
    """Return the sessions with a matching invocation or run."""
    of_session = Q(session=OuterRef("pk"))
    if term.name == "model":
        return Q(Exists(ModelCall.objects.filter(of_session, model=term.value)))
    if term.name == "code":
        is_version = Q(code_version__startswith=term.value) | Q(git_revision__startswith=term.value)
        return Q(Exists(Run.objects.filter(of_session, is_version)))
    start, end = parse_period(term.value)
    began = Trace.objects.filter(started_at__gte=start - LONGEST_S, started_at__lt=end)
    return sessions_of_rows(began.filter(Q(finished_at__gte=start) | Q(finished_at=None)))
