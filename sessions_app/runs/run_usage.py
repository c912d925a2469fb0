"""Tokens and cost of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from sessions_app.prices import current_prices
from sessions_app.prices.costs import Spending, usages_cost
from sessions_app.prices.session_usage import read_calls_by_session
from sessions_app.store.events.call_usage import (
    CALL_COLUMNS,
    CallUsage,
    parse_call_usage,
    recorded_call_usage,
)
from sessions_app.store.models import Event, ModelCall, NestedRun, Run


def read_run_spending(run: Run) -> Spending:
    """Return tokens and cost of a run that has ended, with those of nested runs. Four queries at most."""
    return read_runs_spending([run]).get(run.pk, Spending(0, None))


def read_runs_spending(runs: Sequence[Run]) -> dict[str, Spending]:
    """Return tokens and costs of ended runs with events by id, with those of nested runs. At most four queries."""
    ranges = {
        run.pk: (run.session_id, run.first_seq, run.last_seq)
        for run in runs
        if run.first_seq is not None and run.last_seq is not None and run.first_seq < run.last_seq
    }
    if not ranges:
        return {}
    is_of_runs = reduce(
        or_, (Q(session=pk, seq__gt=first, seq__lte=last) for pk, first, last in ranges.values())
    )
    calls: dict[int, list[tuple[int, int, Sequence[CallUsage | None]]]] = defaultdict(list)
    events = Event.objects.filter(is_of_runs, total_tokens__gt=0)
    for pk, seq, tokens, summary, used_at in events.values_list(
        "session_id", "seq", "total_tokens", "summary", "timestamp"
    ).iterator():
        calls[pk].append((seq, tokens, [parse_call_usage(summary, used_at)]))
    nested_runs = list(_nested_runs(ranges.values()))
    usages = read_calls_by_session([nested.child for nested in nested_runs])
    for nested in nested_runs:
        usage = usages.get(nested.child_id, ())
        calls[nested.outer_id].append((nested.outer_seq or 0, nested.child.total_tokens, usage))
    prices = current_prices()
    spending = {}
    for run_id, (pk, first, last) in ranges.items():
        run_calls = [(tokens, made) for seq, tokens, made in calls[pk] if first < seq <= last]
        cost = usages_cost((call for _, made in run_calls for call in made), prices)
        spending[run_id] = Spending(sum(tokens for tokens, _ in run_calls), cost)
    return spending


def read_invocations_spending(
    invocations: Sequence[tuple[int, str]],
) -> dict[tuple[int, str], Spending]:
    """Return tokens and costs of the recorded model calls of invocations by session key and id. One query at most."""
    if not invocations:
        return {}
    is_of_invocations = reduce(or_, (Q(session=pk, invocation_id=name) for pk, name in invocations))
    calls = defaultdict(list)
    recorded = ModelCall.objects.filter(is_of_invocations)
    for call in recorded.only("session_id", "invocation_id", "model", "started_at", *CALL_COLUMNS):
        calls[call.session_id, call.invocation_id].append(call)
    prices = current_prices()
    return {
        invocation: Spending(
            sum(call.total_tokens for call in made), usages_cost(map(recorded_call_usage, made), prices)
        )
        for invocation, made in calls.items()
    }


def _nested_runs(ranges: Iterable[tuple[int, int, int]]) -> QuerySet[NestedRun]:
    """Return the nested runs with tokens inside ranges of events: session, seq before the first and seq of the last."""
    is_inside = reduce(
        or_, (Q(outer=pk, outer_seq__gt=first, outer_seq__lte=last) for pk, first, last in ranges)
    )
    return NestedRun.objects.filter(is_inside, child__total_tokens__gt=0).select_related("child")
