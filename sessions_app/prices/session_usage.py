"""Tokens of sessions by model and day: sums of the indexed events, and the events behind the index's cursor.

The indexer adds events in the transaction that moves the cursor, so each is counted once. Queries add the events that
are not indexed yet.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import or_

from django.db.models import F, Q, Sum

from sessions_app.models import UNINDEXED, AgentSession, Event, NestedRun, SessionUsage
from sessions_app.prices.costs import (
    KINDS,
    CallUsage,
    Cost,
    Spending,
    call_of_json,
    cost_of,
    uncounted_call,
)
from sessions_app.prices.price_files import current_prices
from sessions_app.prices.price_table import add_tokens

MAX_BEHIND = 50
"""Maximum number of sessions behind the index whose events a sum over all sessions adds."""

MAX_NESTED = 2_000

MAX_UNINDEXED = 2_000
"""Maximum number of unindexed events that a query adds."""


def sum_calls(calls: Iterable[CallUsage | None]) -> list[CallUsage]:
    """Return the sums of calls by model and day."""
    sums: dict[tuple[str, int], dict[str, int]] = defaultdict(dict)
    for call in calls:
        if call is not None:
            add_tokens(sums[call.model, call.day], call.tokens)
    return [CallUsage(model, day, tokens) for (model, day), tokens in sums.items()]


def add_usage(session_pk: int, calls: Iterable[CallUsage | None]) -> None:
    """Add calls to a session's sums."""
    for usage in sum_calls(calls):
        row, is_new = SessionUsage.objects.get_or_create(
            session_id=session_pk, model=usage.model, day=usage.day, defaults=dict(usage.tokens)
        )
        if not is_new:
            grown = {kind: F(kind) + count for kind, count in usage.tokens.items()}
            SessionUsage.objects.filter(pk=row.pk).update(**grown)


def costs_of_sessions(sessions: Sequence[AgentSession]) -> dict[int, Cost | None]:
    """Return the costs of sessions by primary key. At most two queries; none without a price list."""
    prices = current_prices()
    used = [row for row in sessions if row.total_tokens]
    if not prices.prices or not used:
        return {}
    usages: dict[int, list[CallUsage]] = defaultdict(list)
    for row in SessionUsage.objects.filter(session__in=[session.pk for session in used]):
        usages[row.session_id].append(_usage_of_row(row))
    for pk, call in _unindexed_calls(used):
        usages[pk].append(call)
    for session in used:
        usages[session.pk].extend(_uncounted_calls(session.total_tokens, usages[session.pk]))
    return {pk: cost_of(calls, prices) for pk, calls in usages.items()}


def _uncounted_calls(total: int, usages: Iterable[CallUsage]) -> list[CallUsage]:
    """Return a call without a price if the usages have fewer tokens than the session, so that its cost is a minimum."""
    if sum(usage.tokens["total"] for usage in usages) >= total:
        return []
    return [uncounted_call()]


def spending_of(app: str, user: str) -> Spending:
    """Return tokens and cost of the sessions of an app, a user or both, apart from realms and nested runs."""
    columns = {"app_name": app, "user_id": user}
    calls = _usage_of_sessions(realm="", **{name: value for name, value in columns.items() if value})
    return Spending(sum(call.tokens["total"] for call in calls), cost_of(calls, current_prices()))


def usage_by_model() -> dict[str, int]:
    """Return the tokens of the models that sessions and the newest nested runs called; "" for an unknown model."""
    tokens: Counter[str] = Counter()
    for call in _usage_of_sessions():
        tokens[call.model] += call.tokens["total"]
    for text in (
        NestedRun.objects.exclude(usage="{}").order_by("-pk").values_list("usage", flat=True)[:MAX_NESTED]
    ):
        tokens.update({model: kinds["total"] for model, kinds in json.loads(text).items()})
    return tokens


def _usage_of_sessions(**columns: str) -> list[CallUsage]:
    """Return the usage of sessions by model and day. Two queries, and a third if events are not indexed yet."""
    of_sessions = {f"session__{name}": value for name, value in columns.items()}
    rows = SessionUsage.objects.filter(**of_sessions).values_list("model", "day").order_by("model", "day")
    usages = [
        CallUsage(model, day, dict(zip(KINDS, sums, strict=True)))
        for model, day, *sums in rows.annotate(*(Sum(kind) for kind in KINDS))
    ]
    behind = AgentSession.objects.filter(UNINDEXED, total_tokens__gt=0, **columns).order_by("-pk")
    return [*usages, *(call for _, call in _unindexed_calls(behind[:MAX_BEHIND]))]


def _usage_of_row(row: SessionUsage) -> CallUsage:
    return CallUsage(row.model, row.day, {kind: getattr(row, kind) for kind in KINDS})


def _unindexed_calls(sessions: Iterable[AgentSession]) -> list[tuple[int, CallUsage]]:
    """Return calls of the events behind the cursors, by session; not all, if there are very many."""
    behind = [
        Q(session=row.pk, seq__gt=row.indexed_seq) for row in sessions if row.last_seq > row.indexed_seq
    ]
    if not behind:
        return []
    rows = Event.objects.filter(reduce(or_, behind), total_tokens__gt=0)
    calls = []
    for pk, summary, at in rows.values_list("session_id", "summary", "timestamp")[:MAX_UNINDEXED]:
        if call := call_of_json(summary, at):
            calls.append((pk, call))
    return calls
