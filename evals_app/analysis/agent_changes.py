"""Changes of an agent between two runs: instruction, tools, model and settings of its recorded requests. Read-only.

The first request of each agent in a case is compared with that in the other run, because later ones depend on what the
agent did. Requests name their parts by hash, so only a part that differs is read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from django.db.models import Min

from evals_app.analysis.comparison import Comparison
from evals_app.runs.replay.comparison import RequestDifference, describe_difference
from evals_app.runs.replay.request_diff import RUN_SETTINGS, compare_requests
from sessions_app.store import scopes
from sessions_app.store.models import ModelCall
from sessions_app.store.redaction import Redact, no_redaction
from sessions_app.traces import model_calls

MAX_CASES = 10
"""Cases whose requests are compared, those with the worst verdicts first."""

MAX_AGENTS = 10
"""Changed agents that are shown."""


@dataclass(frozen=True)
class AgentChange:
    """An agent in both runs.

    Attributes:
        cases: number of cases with a request of the agent in both runs.
        differing: number of these cases in which the requests differ.
        request: the difference in the first such case, `case`.
        only_in: "before" or "after" if only this run has requests of the agent, else "".
    """

    agent: str
    cases: int = 0
    differing: int = 0
    case: str = ""
    request: RequestDifference | None = None
    only_in: str = ""

    @property
    def equal(self) -> int:
        """Number of cases in which the requests are equal."""
        return self.cases - self.differing


@dataclass(frozen=True)
class AgentChanges:
    """The first agents that changed. `cases` counts the cases with recorded requests in both runs."""

    cases: int
    changes: list[AgentChange]
    has_more: bool = False


FirstCalls = Mapping[str, ModelCall]
"""First call of each agent in a session, by the agent's name."""


@dataclass(frozen=True)
class _CasePair:
    """First calls of a case in both runs."""

    case: str
    before: FirstCalls
    after: FirstCalls

    def has_both(self, agent: str) -> bool:
        """Tell whether an agent has a request in both runs."""
        return agent in self.before and agent in self.after

    def differs(self, agent: str) -> bool:
        """Tell whether the requests of an agent in both runs differ."""
        return self.has_both(agent) and _agent_signature(self.before[agent]) != _agent_signature(
            self.after[agent]
        )


def read_agent_changes(comparison: Comparison, redact: Redact = no_redaction) -> AgentChanges:
    """Return what changed in the requests of two compared runs. `redact` is applied before they are compared.

    Queries: two, and a few for each of at most `MAX_AGENTS` changed agents.
    """
    sessions = [
        (case.key.id, case.before.session, case.after.session)
        for case in comparison.cases
        if case.is_comparable and case.before and case.after and case.before.session and case.after.session
    ][:MAX_CASES]
    calls = _first_calls([pk for _, *pks in sessions for pk in pks])
    pairs = [_CasePair(case, calls[before], calls[after]) for case, before, after in sessions]
    pairs = [pair for pair in pairs if pair.before and pair.after]
    agents = dict.fromkeys(agent for pair in pairs for agent in (*pair.before, *pair.after))
    changes = (_read_change(agent, pairs, redact) for agent in agents)
    first_changes = list(islice((change for change in changes if change), MAX_AGENTS + 1))
    return AgentChanges(len(pairs), first_changes[:MAX_AGENTS], len(first_changes) > MAX_AGENTS)


def _first_calls(sessions: Sequence[int]) -> Mapping[int, FirstCalls]:
    by_agent = ModelCall.objects.filter(session__in=sessions).order_by().values("session", "agent")
    rows = ModelCall.objects.filter(
        pk__in=list(by_agent.annotate(first=Min("pk")).values_list("first", flat=True))
    )
    calls: dict[int, dict[str, ModelCall]] = defaultdict(dict)
    for call in rows.defer("response").order_by("pk"):
        calls[call.session_id][call.agent] = call
    return calls


def _agent_signature(call: ModelCall) -> tuple[Any, ...]:
    """Return the parts of a request that come from the agent: model, and names of its instruction and tools."""
    request = json.loads(call.request)
    config = request.get("config") or {}
    settings = {name: value for name, value in config.items() if name not in RUN_SETTINGS}
    return (
        request.get("model"),
        request.get("system_instruction"),
        request.get("tools"),
        scopes.dumps(settings),
    )


def _read_change(agent: str, pairs: Sequence[_CasePair], redact: Redact) -> AgentChange | None:
    """Return how an agent's requests differ, in the first case in which they do; None: nowhere."""
    both = [pair for pair in pairs if pair.has_both(agent)]
    if not both:
        return AgentChange(
            agent, only_in="before" if any(agent in pair.before for pair in pairs) else "after"
        )
    differing = [pair for pair in both if pair.differs(agent)]
    if not differing:
        return None
    example = differing[0]
    differences = compare_requests(
        redact(_agent_request(example.before[agent])), redact(_agent_request(example.after[agent]))
    )
    if not differences:  # such as tools in another order
        return None
    request = describe_difference({"turn": 0, "agent": agent, "call": 1, **differences})
    return AgentChange(agent, len(both), len(differing), example.case, request)


def _agent_request(call: ModelCall) -> dict[str, Any]:
    """Return a request without its history."""
    request = model_calls.read_request(call)
    return {"system_instruction": request.instruction, "tools": request.tools, **request.rest}
