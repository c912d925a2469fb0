"""The worker process that runs an agent for a test suite. Requests and replies are lines of JSON.

A request has an `id` and an operation `do`: `cases` (of an evalset), `run`, or `go_on` with a run whose process died.
Every reply carries the request's id, and the final one `last`. The agent's output goes to stderr, which the suite
shows.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import devui

if TYPE_CHECKING:
    from evals_app.models import EvalAttempt, EvalRun
    from evals_app.runs.folder_orders import EvalsetRequest
    from evals_app.runs.writes import Outcome
    from sessions_app.agents.folder import AgentsFolder

Reply = Callable[[Mapping[str, Any]], None]


def main() -> None:
    """Handle requests until their stream ends, or Ctrl-C, which reaches the suite too."""
    with contextlib.suppress(KeyboardInterrupt):
        _handle_all(_take_request_stream(), _take_reply_stream())


def _handle_all(requests: TextIO, answers: TextIO) -> None:
    devui.setup(migrate=False)
    from evals_app.engine.local_runner import quiet_logging

    with quiet_logging():
        for line in requests:
            request = json.loads(line)
            _handle(request, partial(_send_reply, answers, request["id"]))


def _take_request_stream() -> TextIO:
    """Reserve stdin for requests: an agent that reads stdin gets the end of file instead of blocking."""
    requests = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return requests


def _take_reply_stream() -> TextIO:
    """Reserve stdout for replies, and redirect other output to stderr.

    Processes that an agent forks do not hold it open: its end tells the suite that this process has ended.
    """
    stream = os.dup(1)
    os.dup2(2, 1)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=partial(os.close, stream))
    return os.fdopen(stream, "w", encoding="utf-8")


def _send_reply(answers: TextIO, request_id: int, body: Mapping[str, Any]) -> None:
    answers.write(json.dumps({"id": request_id, **body}) + "\n")
    answers.flush()


def _handle(request: Mapping[str, Any], reply: Reply) -> None:
    from sessions_app.errors import DevUIError

    try:
        reply({**HANDLERS[request["do"]](request, reply), "last": True})
    except DevUIError as error:
        reply({"refused": error.message, "hint": error.hint, "last": True})


def _cases(request: Mapping[str, Any], reply: Reply) -> Mapping[str, Any]:
    """Return the case ids of an evalset, without the store."""
    from evals_app.files import library, read_file
    from evals_app.runs import folder_orders

    agents, app_name = folder_orders.agent_at(Path(request["agent"]))
    path = Path(request["evalset"])
    beside = library.find_files(agents.folder_of(app_name))
    evalset_file = path if path.is_file() else beside.get(request["evalset"], path)
    return {"cases": [case.eval_id for case in read_file(evalset_file).cases]}


def _run(request: Mapping[str, Any], reply: Reply) -> Mapping[str, Any]:
    """Run an evalset, with a reply for every attempt that ends."""
    from evals_app.engine.local_runner import own_new_runs
    from evals_app.runs import folder_orders
    from sessions_app.store.schema import ensure_schema

    ensure_schema()
    agents, app_name = folder_orders.agent_at(Path(request["agent"]))
    with own_new_runs(app_name):
        run = folder_orders.order_from_folder(agents, app_name, _wish(request))
        reply({"run": run.id})
        return _carry_out([run], agents, app_name, reply)


def _resume(request: Mapping[str, Any], reply: Reply) -> Mapping[str, Any]:
    """Resume a run whose process died."""
    from evals_app.engine.local_runner import continue_after_death, own_new_runs, reload_run
    from evals_app.runs import folder_orders
    from evals_app.runs.writes import ProcessDeath
    from sessions_app.runs import processes

    agents, app_name = folder_orders.agent_at(Path(request["agent"]))
    run = reload_run(request["run"])
    if not run.active:
        return _end_reply(run)
    with own_new_runs(app_name):
        runs = continue_after_death(
            [run], ProcessDeath(processes.describe_exit(request["exit"])), _SuiteReporter(reply)
        )
        return _carry_out(runs, agents, app_name, reply) if runs else _end_reply(reload_run(run.id))


def _carry_out(
    runs: Sequence[EvalRun], agents: AgentsFolder, app_name: str, reply: Reply
) -> Mapping[str, Any]:
    from evals_app.engine.local_runner import execute_runs, run_in_loop
    from sessions_app.store import units_of_work

    try:
        return _end_reply(run_in_loop(execute_runs(runs, agents, app_name, _SuiteReporter(reply)))[0])
    finally:
        units_of_work.close_pools()


def _end_reply(ended: EvalRun) -> Mapping[str, Any]:
    from evals_app.analysis import exports

    return {"ended": exports.run_facts(ended), "why": ended.stopped_because or ended.error}


def _wish(request: Mapping[str, Any]) -> EvalsetRequest:
    from evals_app.runs.folder_orders import EvalsetRequest
    from evals_app.runs.limits import Limits

    return EvalsetRequest(
        request["evalset"],
        request["cases"],
        metrics=request["metrics"],
        criteria=request["criteria"],
        config=Path(request["config"]) if isinstance(request["config"], str) else None,
        settings=request["config"] if isinstance(request["config"], dict) else None,
        num_runs=request["num_runs"],
        parallelism=request["parallelism"],
        limits=Limits.of(request["limits"]),
        source="pytest",
    )


class _SuiteReporter:
    """Reports ended attempts to the suite."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply

    def begin(self, run: EvalRun, alone: int) -> None:
        """Do nothing: the suite started the run."""

    def end(self, run: EvalRun) -> None:
        """Do nothing: the last reply reports the end."""

    def attempt(self, attempt: EvalAttempt, outcome: Outcome | None) -> None:
        """Report the outcome of an attempt."""
        if outcome is not None:
            self._reply({"attempt": _attempt_reply(attempt, outcome)})


def _attempt_reply(attempt: EvalAttempt, outcome: Outcome) -> Mapping[str, Any]:
    from evals_app.runs import attempt_status

    failure = outcome.failure
    overall = [score for score in outcome.scores if score.invocation is None]
    names = ("metric", "score", "threshold", "status", "reason")
    return {
        "id": attempt.pk,
        "case": attempt.case_id,
        "repetition": attempt.repetition,
        "status": str(outcome.status),
        "unavailable": failure is not None and failure.type in attempt_status.NO_OUTCOME_TYPES,
        "error": f"{failure.type}: {failure.message}" if failure else "",
        "traceback": failure.traceback if failure else "",
        "tokens": outcome.total_tokens,
        "scores": [{name: getattr(score, name) for name in names} for score in overall],
        "actual": list(outcome.actual),
    }


HANDLERS = {"cases": _cases, "run": _run, "go_on": _resume}

if __name__ == "__main__":
    main()
