"""Toolsets that failed to load: the agent ran without their tools, even if its run succeeded."""

from __future__ import annotations

from collections.abc import Collection

from sessions_app.store.models import Trace


def read_lost_toolsets(invocations: Collection[tuple[int, str]]) -> dict[tuple[int, str], list[str]]:
    """Return the lost toolsets by session key and invocation id, each as a line with agent and error. One query."""
    session_pks = {session_pk for session_pk, _ in invocations}
    ids = {invocation_id for _, invocation_id in invocations}
    traces = Trace.objects.filter(
        session__in=session_pks, invocation_id__in=ids, stages__contains=f'"{Trace.LOST_TOOLSET}"'
    ).only("session", "invocation_id", "stages")
    return {
        (trace.session_id, trace.invocation_id): [
            of for name, _, of in trace.decoded_stages if name == Trace.LOST_TOOLSET
        ]
        for trace in traces
    }
