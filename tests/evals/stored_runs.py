"""Runs as rows, without an agent: what pages, comparisons and exports read."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from evals_app.models import EvalAttempt, EvalRun, EvalSet, EvalSetVersion
from evals_app.runs.writes import attempts, runs
from evals_app.runs.writes.outcomes import MetricScore, Outcome, RunFacts
from sessions_app.delivery.failure import Failure
from tests.evals import builders

Status = EvalAttempt.Status
CRITERIA: dict[str, Any] = {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.5}
PARIS = [{"name": "get_weather", "args": {"city": "Paris"}}]


def version(cases: Sequence[builders.Json], name: str = "kept") -> EvalSetVersion:
    """Return a version of the evalset with these cases."""
    evalset, _ = EvalSet.objects.get_or_create(
        app_name="counter",
        evalset_id=name,
        defaults={"path": f"counter/{name}.evalset.json", "case_count": len(cases)},
    )
    content = json.dumps(builders.evalset(*cases, eval_set_id=name))
    row, _ = EvalSetVersion.objects.get_or_create(
        evalset=evalset,
        digest=sha256(content.encode()).hexdigest(),
        defaults={"content": content, "created_at": 1.0},
    )
    return row


def cases(*names: str) -> list[builders.Json]:
    """Return cases that expect a call and an answer."""
    return [builders.case(name, builders.turn("Paris", "It is sunny in Paris.", PARIS)) for name in names]


def passing(**more: Any) -> Outcome:
    """Return an attempt that did what was expected."""
    return outcome(Status.PASSED, [1.0, 1.0], PARIS, **more)


def failing(calls: Sequence[Mapping[str, Any]] = (), **more: Any) -> Outcome:
    """Return an attempt that made other calls."""
    return outcome(Status.FAILED, [0.0, 1.0], calls, **more)


def broken(message: str = "on fire") -> Outcome:
    """Return an attempt whose agent raised."""
    return Outcome(Status.ERROR, failure=Failure("RuntimeError", message, "Traceback …"))


def outcome(
    status: str, scores: Sequence[float], calls: Sequence[Mapping[str, Any]] = (), **more: Any
) -> Outcome:
    """Return an attempt with a score of each metric of `CRITERIA`."""
    turn = builders.turn("Paris", "It is sunny in Paris.", list(calls))
    rows = [
        MetricScore(place, name, None, score, limit, "passed" if score >= limit else "failed")
        for place, ((name, limit), score) in enumerate(zip(CRITERIA.items(), scores, strict=True))
    ]
    return Outcome(status, actual=[turn], scores=rows, **more)


def run(
    of: EvalSetVersion,
    outcomes: Mapping[str, Sequence[Outcome]],
    *,
    code: str = "v1",
    config: Mapping[str, Any] | None = None,
    prices: Mapping[str, Any] | None = None,
) -> EvalRun:
    """Return a run that has ended: case → what its repetitions came to. Cases that are not named did not run."""
    names = [case["eval_id"] for case in json.loads(of.content)["eval_cases"]]
    order = runs.NewEvalRun(
        of,
        [(index, name) for index, name in enumerate(names) if name in outcomes],
        config=config or {"criteria": CRITERIA},
        num_runs=max(len(each) for each in outcomes.values()),
        prices=prices or {},
    )
    new_run = runs.create_run(order)
    runs.claim_run(new_run.id, None)
    runs.note_facts(new_run.id, RunFacts(code, adk_version="2", models={"counter": "scripted"}))
    for attempt in new_run.attempts.order_by("case_index", "repetition"):
        attempts.start_attempt(attempt.pk)
        attempts.finish_attempt(attempt.pk, outcomes[attempt.case_id][attempt.repetition - 1])
    runs.finish_run(new_run.id, EvalRun.Status.DONE)
    return EvalRun.objects.select_related("evalset", "version").get(pk=new_run.id)
