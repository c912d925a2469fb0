"""Tokens and cost of runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from operator import or_

from django.db.models import Q

from sessions_app.prices import current_prices
from sessions_app.prices.costs import Spending, cost_of
from sessions_app.prices.session_usage import calls_of_nested_run
from sessions_app.store.events.call_usage import CallUsage, parse_call_usage
from sessions_app.store.models import Event, NestedRun, Run


def spending_of_run(run: Run) -> Spending:
    """Return tokens and cost of a run that has ended, with those of nested runs. Two queries."""
    return spending_of_runs([run]).get(run.pk, Spending(0, None))


def spending_of_runs(runs: Sequence[Run]) -> dict[str, Spending]:
    """Return tokens and costs of ended runs with events by id, with those of nested runs. At most two queries."""
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
    for pk, seq, tokens, summary, at in events.values_list(
        "session_id", "seq", "total_tokens", "summary", "timestamp"
    ).iterator():
        calls[pk].append((seq, tokens, [parse_call_usage(summary, at)]))
    for nested in NestedRun.objects.filter(is_of_runs, total_tokens__gt=0).defer("state"):
        calls[nested.session_id].append((nested.seq or 0, nested.total_tokens, calls_of_nested_run(nested)))
    prices = current_prices()
    spending = {}
    for run_id, (pk, first, last) in ranges.items():
        own = [(tokens, made) for seq, tokens, made in calls[pk] if first < seq <= last]
        cost = cost_of((call for _, made in own for call in made), prices)
        spending[run_id] = Spending(sum(tokens for tokens, _ in own), cost)
    return spending
