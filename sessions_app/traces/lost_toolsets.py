"""Toolsets that failed to load: the agent ran without their tools, even if its run succeeded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from django.db.models import QuerySet

from sessions_app.models import AgentSession, Trace

LostToolsets = dict[str, list[str]]
"""Lost toolsets by invocation id, each as a line with agent and error."""


def lost_toolsets(session: AgentSession, invocation_ids: Collection[str]) -> LostToolsets:
    """Return the lost toolsets of some invocations of a session. One query."""
    traces = Trace.objects.filter(session=session, invocation_id__in=invocation_ids)
    return {trace.invocation_id: toolsets_of(trace) for trace in _with_lost_toolsets(traces)}


def lost_toolsets_of_sessions(invocations: Collection[tuple[int, str]]) -> dict[tuple[int, str], list[str]]:
    """Return the lost toolsets by session key and invocation id. One query."""
    by_session: dict[int, set[str]] = defaultdict(set)
    for session_pk, invocation_id in invocations:
        by_session[session_pk].add(invocation_id)
    ids = {invocation_id for _, invocation_id in invocations}
    traces = _with_lost_toolsets(Trace.objects.filter(session__in=by_session, invocation_id__in=ids))
    return {(trace.session_id, trace.invocation_id): toolsets_of(trace) for trace in traces}


def latest_trace(sessions: Collection[AgentSession]) -> Trace | None:
    """Return the trace of the newest invocation among some sessions. One query."""
    return (
        Trace.objects.filter(session__in=sessions)
        .select_related("session")
        .order_by("-started_at", "-pk")
        .first()
    )


def toolsets_of(trace: Trace) -> list[str]:
    """Return the lost toolsets of an invocation."""
    return [of for name, _, of in trace.stages_told if name == Trace.LOST_TOOLSET]


def _with_lost_toolsets(traces: QuerySet[Trace]) -> QuerySet[Trace]:
    return traces.filter(stages__contains=f'"{Trace.LOST_TOOLSET}"').only(
        "session", "invocation_id", "stages"
    )
