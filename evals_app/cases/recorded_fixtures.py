"""Fixtures made of the tool calls of a session, and what persons changed of them at pauses of its runs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from evals_app.files.fixtures import TIMES
from sessions_app.store import events as wire
from sessions_app.store.errors import BadInput
from sessions_app.store.events.conditions import HAS_CALLS, HAS_RESULTS
from sessions_app.store.events.content import control_signals, is_interim_result
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.scopes import dumps

Json = dict[str, Any]

MAX_CALLS = 500
"""Tool calls of which fixtures are made at once."""

NO_EFFECT = frozenset({"transfer_to_agent", "exit_loop"})
"""Tools of ADK whose effect is not their result."""


@dataclass(slots=True)
class RecordedCall:
    """A recorded tool call. `result` is its last result; None: it has none. `is_signal`: its event steers the agent."""

    tool: str
    args: Json
    result: Json | None = None
    is_signal: bool = False
    writes: tuple[str, ...] = ()

    @property
    def can_be_fixture(self) -> bool:
        """Tell whether a fixture can stand for the call: ADK takes an empty result for none."""
        is_own = self.tool in NO_EFFECT or self.tool.startswith("adk_")
        return bool(self.result) and not is_own and not self.is_signal


@dataclass(frozen=True, slots=True)
class RecordedFixtures:
    """Fixtures of recorded tool calls.

    Attributes:
        fixtures: objects for the field `FIXTURES` of a case.
        left_out: tools with calls for which no fixture can stand.
        writers: tools of the fixtures that wrote state, which a fixture does not.
    """

    fixtures: list[Json] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    writers: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        """Number of results."""
        return sum(len(tool_fixtures["injection_configs"]) for tool_fixtures in self.fixtures)

    @property
    def text(self) -> str:
        """The fixtures as indented JSON."""
        return json.dumps(self.fixtures, indent=2, ensure_ascii=False)


def read_recorded_fixtures(session: AgentSession, invocation_ids: Sequence[str]) -> RecordedFixtures:
    """Return fixtures that answer the tool calls of invocations with their recorded results, without credentials.

    Raises:
        BadInput: the invocations have more than `MAX_CALLS` tool calls.
    """
    calls = _read_calls(session, invocation_ids)
    usable_calls: dict[str, list[RecordedCall]] = defaultdict(list)
    for call in calls:
        if call.can_be_fixture:
            usable_calls[call.tool].append(call)
    return RecordedFixtures(
        [
            {"tool_name": tool, "injection_configs": _build_injections(tool_calls)}
            for tool, tool_calls in usable_calls.items()
        ],
        sorted({call.tool for call in calls if not call.can_be_fixture}),
        sorted(tool for tool, tool_calls in usable_calls.items() if any(call.writes for call in tool_calls)),
    )


def _read_calls(session: AgentSession, invocation_ids: Sequence[str]) -> list[RecordedCall]:
    """Return the tool calls of invocations in their order, with their last results.

    Raises:
        BadInput: there are more than `MAX_CALLS`; later events are not read then.
    """
    rows = Event.objects.filter(HAS_CALLS | HAS_RESULTS, session=session, invocation_id__in=invocation_ids)
    calls: dict[str, RecordedCall] = {}
    for data in rows.order_by("seq").values_list("data", flat=True).iterator():
        body = json.loads(data)
        for call in wire.function_calls(body):
            calls[str(call.get("id"))] = RecordedCall(str(call.get("name") or ""), call.get("args") or {})
        if len(calls) > MAX_CALLS:
            raise BadInput(
                f"The turns have more than {MAX_CALLS:,} tool calls, the most that become fixtures at once.",
                hint="Choose fewer turns.",
            )
        actions = body.get("actions") or {}
        for response in wire.function_responses(body):
            recorded = calls.get(str(response.get("id")))
            if recorded is not None and not is_interim_result(response):
                recorded.result = response.get("response")
                recorded.is_signal = any(control_signals(actions))
                recorded.writes = tuple(actions.get("stateDelta") or ())
    return list(calls.values())


def _build_injections(calls: Iterable[RecordedCall]) -> list[Json]:
    """Return the injections of a tool. Calls with the same arguments and other results get them in their order.

    `match_args` allows further arguments, so those with more come first.
    """
    calls_by_args: dict[str, list[RecordedCall]] = defaultdict(list)
    for call in calls:
        calls_by_args[dumps(call.args)].append(call)
    groups = sorted(calls_by_args.values(), key=lambda group: -len(group[0].args))
    return [injection for group in groups for injection in _build_sequence(group)]


def _build_sequence(calls: Sequence[RecordedCall]) -> list[Json]:
    """Return the injections for calls with the same arguments: the last one answers all further calls."""
    runs = [list(run) for _, run in groupby(calls, key=lambda call: dumps(call.result))]
    matching: Json = {"match_args": calls[0].args} if calls[0].args else {}
    injections = [{**matching, "injected_response": run[0].result, TIMES: len(run)} for run in runs]
    del injections[-1][TIMES]
    return injections


def find_changes(session: AgentSession, invocation_ids: Sequence[str]) -> dict[str, list[Json]]:
    """Return what persons changed at pauses, `[{what, by, tool}]`, by the invocations in which they did."""
    rows = Event.objects.filter(
        session=session, invocation_id__in=invocation_ids, summary__contains='"changed":['
    )
    changes: dict[str, list[Json]] = defaultdict(list)
    for invocation_id, summary in rows.order_by("seq").values_list("invocation_id", "summary"):
        changes[invocation_id] += json.loads(summary).get("changed") or []
    return {invocation_id: made for invocation_id, made in changes.items() if made}
