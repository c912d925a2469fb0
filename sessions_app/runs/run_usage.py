"""Tokens and cost of one run."""

from __future__ import annotations

from sessions_app.models import Event, NestedRun, Run
from sessions_app.prices import current_prices
from sessions_app.prices.costs import Spending, call_of_json, cost_of
from sessions_app.prices.session_usage import calls_of_nested_run


def spending_of_run(run: Run) -> Spending:
    """Return tokens and cost of a run that has ended, with those of nested runs. Two queries."""
    if run.first_seq is None or run.last_seq is None:
        return Spending(0, None)
    own = {"session": run.session_id, "seq__gt": run.first_seq, "seq__lte": run.last_seq}
    tokens, calls = 0, []
    events = Event.objects.filter(**own, total_tokens__gt=0)
    for count, summary, at in events.values_list("total_tokens", "summary", "timestamp").iterator():
        tokens += count
        calls.append(call_of_json(summary, at))
    for nested in NestedRun.objects.filter(**own, total_tokens__gt=0).defer("state"):
        tokens += nested.total_tokens
        calls.extend(calls_of_nested_run(nested))
    return Spending(tokens, cost_of(calls, current_prices()))
