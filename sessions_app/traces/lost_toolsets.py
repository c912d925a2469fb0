"""Toolsets that failed to load: the agent ran without their tools, even if its run succeeded."""

from __future__ import annotations

from collections.abc import Collection

from sessions_app.models import AgentSession, Trace

LostToolsets = dict[str, list[str]]
"""Lost toolsets by invocation id, each as a line with agent and error."""


def lost_toolsets(session: AgentSession, invocation_ids: Collection[str]) -> LostToolsets:
    """Return the lost toolsets of some invocations of a session. One query."""
    toolsets = lost_toolsets_of_sessions({(session.pk, invocation_id) for invocation_id in invocation_ids})
    return {invocation_id: names for (_, invocation_id), names in toolsets.items()}


def lost_toolsets_of_sessions(invocations: Collection[tuple[int, str]]) -> dict[tuple[int, str], list[str]]:
    """Return the lost toolsets by session key and invocation id. One query."""
    session_pks = {session_pk for session_pk, _ in invocations}
    ids = {invocation_id for _, invocation_id in invocations}
    traces = Trace.objects.filter(
        session__in=session_pks, invocation_id__in=ids, stages__contains=f'"{Trace.LOST_TOOLSET}"'
    ).only("session", "invocation_id", "stages")
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
    return [of for name, _, of in trace.decoded_stages if name == Trace.LOST_TOOLSET]
