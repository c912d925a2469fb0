"""Tool calls of nested agents (`AgentTool`) during an attempt, read from the store."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from evals_app.metrics.invocations import NestedCalls
from sessions_app.store.events.call_pairing import name_occurrences, pair_starts
from sessions_app.store.events.conditions import HAS_CALLS
from sessions_app.store.events.content import function_calls
from sessions_app.store.models import Event, NestedRun

Json = Mapping[str, Any]
T = TypeVar("T")


def read_nested_calls(session_pk: int, invocation_ids: Sequence[str]) -> list[NestedCalls]:
    """Return the nested calls of each of these invocations, depth first. Three queries."""
    runs: dict[tuple[int, int], list[NestedRun]] = defaultdict(list)
    for run in NestedRun.objects.filter(outer=session_pk, caller_seq__isnull=False).order_by("pk"):
        runs[run.caller_id, run.caller_seq or 0].append(run)
    calls: dict[int, list[tuple[int, Sequence[Json]]]] = defaultdict(list)
    nested_events = Event.objects.filter(HAS_CALLS, session__nested_run__outer=session_pk).order_by("seq")
    for pk, seq, data in nested_events.values_list("session_id", "seq", "data"):
        calls[pk].append((seq, function_calls(json.loads(data))))
    tree = _NestedTree(runs, calls)
    calls_by_invocation: dict[str, list[tuple[int, Json]]] = defaultdict(list)
    events = Event.objects.filter(HAS_CALLS, session=session_pk, invocation_id__in=invocation_ids)
    for invocation_id, seq, data in events.order_by("seq").values_list("invocation_id", "seq", "data"):
        calls_by_invocation[invocation_id] += ((seq, call) for call in function_calls(json.loads(data)))
    return [
        tree.calls_inside(session_pk, calls_by_invocation[invocation_id]) for invocation_id in invocation_ids
    ]


@dataclass(frozen=True)
class _NestedTree:
    """Nested runs by session and seq of the event that calls; of each nested session its events' seqs and calls."""

    runs: Mapping[tuple[int, int], Sequence[NestedRun]]
    calls: Mapping[int, Sequence[tuple[int, Sequence[Json]]]]

    def calls_inside(self, session_pk: int, calls: Sequence[tuple[int, Json]]) -> NestedCalls:
        """Return the nested calls of the calls of a turn, each with the seq of its event."""
        names = name_occurrences(call.get("id") or "" for _, call in calls)
        by_seq: dict[int, list[tuple[Json, str]]] = defaultdict(list)
        for name, (seq, call) in zip(names, calls, strict=True):
            by_seq[seq].append((call, name))
        return {
            name: [inner for run in runs for inner in self._list_calls(run)]
            for seq, named_calls in by_seq.items()
            for name, runs in self._runs_by_call(session_pk, seq, named_calls).items()
        }

    def _list_calls(self, run: NestedRun) -> Iterable[Json]:
        """Yield the calls of a run, each followed by the calls of the runs inside it."""
        for seq, calls in self.calls.get(run.child_id, ()):
            runs = self._runs_by_call(
                run.child_id, seq, [(call, number) for number, call in enumerate(calls)]
            )
            for number, call in enumerate(calls):
                fields = {
                    "id": call.get("id") or "",
                    "name": call.get("name") or "",
                    "args": call.get("args") or {},
                }
                yield {**fields, "agent": run.agent}
                for inner in runs.get(number, ()):
                    yield from self._list_calls(inner)

    def _runs_by_call(
        self, session_pk: int, seq: int, calls: Iterable[tuple[Json, T]]
    ) -> dict[T, list[NestedRun]]:
        """Return the runs inside an event by the values of its calls. Usually a call has the name of the agent."""
        runs = self.runs.get((session_pk, seq), ())
        starts = [{"id": run.call_id, "name": run.agent} for run in runs]
        by_call: dict[T, list[NestedRun]] = defaultdict(list)
        for run, value in zip(runs, pair_starts(calls, starts), strict=True):
            if value is not None:
                by_call[value].append(run)
        return by_call
