"""Tool calls of nested agents (`AgentTool`) during an attempt, read from the store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from evals_app.metrics.invocations import NestedCalls
from sessions_app.events.content import function_calls
from sessions_app.events.summary import CALLS_IN_SUMMARY
from sessions_app.models import NestedEvent, NestedRun

Json = Mapping[str, Any]


def read_nested_calls(session_pk: int, invocation_ids: Sequence[str]) -> list[NestedCalls]:
    """Return the nested calls of each of these invocations, depth first. Two queries."""
    runs = list(NestedRun.objects.filter(session=session_pk).defer("state").order_by("pk"))
    calls_of_run: dict[str, list[Json]] = defaultdict(list)
    agents = {run.ref: run.agent for run in runs}
    rows = NestedEvent.objects.filter(session=session_pk, summary__contains=CALLS_IN_SUMMARY)
    for ref, data in rows.order_by("number").values_list("ref", "data"):
        for call in function_calls(json.loads(data)):
            calls_of_run[ref].append(
                {
                    "id": call.get("id") or "",
                    "name": call.get("name") or "",
                    "args": call.get("args") or {},
                    "agent": agents.get(ref, ""),
                }
            )
    runs_of_call: dict[tuple[str, str], list[NestedRun]] = defaultdict(list)
    by_turn: dict[str, dict[str, list[Json]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        runs_of_call[run.parent_ref, run.call_id].append(run)
    for run in runs:
        if not run.parent_ref:
            by_turn[run.invocation_id][run.call_id] += _flatten(run, calls_of_run, runs_of_call)
    return [by_turn.get(invocation_id, {}) for invocation_id in invocation_ids]


def _flatten(
    top: NestedRun,
    calls_of_run: Mapping[str, Sequence[Json]],
    runs_of_call: Mapping[tuple[str, str], Sequence[NestedRun]],
) -> list[Json]:
    """Return the calls of a run, each followed by the calls of the runs inside it."""
    calls: list[Json] = []
    waiting: list[tuple[str, Json]] = [(top.ref, call) for call in reversed(calls_of_run.get(top.ref, ()))]
    while waiting:
        ref, call = waiting.pop()
        calls.append(call)
        inner_runs = runs_of_call.get((ref, call["id"]), ())
        inner = [(run.ref, inner_call) for run in inner_runs for inner_call in calls_of_run.get(run.ref, ())]
        waiting += reversed(inner)
    return calls
