"""The process that reads or runs an evalset for a test suite: one request, one reply.

The request is a line of JSON on standard input, and the reply goes to the file that it names, because processes that an
agent leaves behind would hold a pipe open. The end of standard input is the end of the suite: the run is cancelled
without a reply, and the request of another process of the suite resumes it. The agent finds its own standard input
empty; output goes to the error stream.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import devui
from devui.testing import plugin
from devui.testing.shared_replies import SharedReply

if TYPE_CHECKING:
    from evals_app.analysis.ci_gate import Gate
    from evals_app.models import EvalRun
    from evals_app.runs.folder_orders import EvalsetRequest
    from sessions_app.agents.folder import AgentsFolder

POLL_S = 0.2
"""Seconds between two looks at a run whose process is ending."""

suite_ended = threading.Event()


def main() -> None:
    """Handle the request. Ctrl-C ends the process without a traceback."""
    with contextlib.suppress(KeyboardInterrupt):
        devui.setup(migrate=False)
        plugin.is_evaluating = True
        request = _read_request()
        shared = SharedReply(Path(request["reply"]), Path(request["run_file"]))
        reply = _reply_to(request, shared)
        if reply is not None:
            with contextlib.suppress(FileNotFoundError):  # the session has ended, and removed its folder
                shared.write(reply)


def _read_request() -> dict[str, Any]:
    """Read the request, and stop this process by SIGTERM when the suite ends before it."""
    suite = os.fdopen(os.dup(0), encoding="utf-8")
    request: dict[str, Any] = json.loads(suite.readline())
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_stop_with_suite, args=(suite,), daemon=True).start()
    return request


def _stop_with_suite(suite: TextIO) -> None:
    suite.read()
    suite_ended.set()
    os.kill(os.getpid(), signal.SIGTERM)


def _reply_to(request: Mapping[str, Any], shared: SharedReply) -> Mapping[str, Any] | None:
    """Return the reply; None if the suite ended before its run."""
    from evals_app.execution.child_processes import StoppedBySignal
    from evals_app.execution.local_runner import quiet_logging
    from sessions_app.store.errors import DevUIError

    try:
        with quiet_logging():
            return _list_cases(request) if request["only_list"] else _run_evalset(request, shared)
    except StoppedBySignal:
        return None
    except DevUIError as error:
        return {"refusal": " ".join(filter(None, (error.message, error.hint)))}


def _list_cases(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the case ids of an evalset, and check the configuration, without the store.

    Raises:
        NotFound: there is no such evalset or configuration.
        BadFile: one of them is invalid.
        BadInput: the agent cannot be found, or an option is invalid.
    """
    from evals_app.files import library
    from evals_app.files.atomic_writes import text_digest
    from evals_app.files.parsing import parse, read_text
    from evals_app.metrics import config
    from evals_app.runs import folder_orders

    file = Path(request["evalset"])
    folder = _find_agent(request).path
    if not file.is_file():
        file = library.find_files(folder).get(request["evalset"], file)
    text = read_text(file)
    cases = [case.eval_id for case in parse(text, file.name, str(file)).cases]
    config.check_config(folder_orders.find_config(_evalset_request({**request, "cases": ()}), file))
    return {"cases": cases, "file": str(file.resolve()), "digest": text_digest(text)}


def _find_agent(request: Mapping[str, Any]) -> AgentsFolder:
    """Return the folder or module of the agent.

    Raises:
        BadInput: there is none.
    """
    from evals_app.runs import folder_orders
    from sessions_app.agents.agent_module import find_module

    agent = request["agent"]
    if folder := agent.get("folder"):
        return folder_orders.agent_at(Path(folder))[0]
    return find_module(agent["reference"], agent.get("file", ""))


def _run_evalset(request: Mapping[str, Any], shared: SharedReply) -> Mapping[str, Any] | None:
    """Run an evalset as `run_evals` does, and return the run with its attempts; None if the suite ended before."""
    from evals_app.cli.terminal import Console
    from evals_app.execution.app_names import find_app_name
    from evals_app.execution.child_processes import RunChildren, StoppedBySignal
    from evals_app.execution.local_runner import cancel_runs, own_new_runs
    from sessions_app.agents.agent_module import AgentModule
    from sessions_app.store.database.schema import ensure_schema

    agents = _find_agent(request)
    if isinstance(agents, AgentModule):
        agents = agents.for_app(request["agent"].get("name") or find_app_name(agents))
    [app_name] = agents.names()
    console, gate = Console(sys.stderr), _read_gate(request)
    with RunChildren(agents, app_name, console, console.write_death) as children:
        ensure_schema()
        with own_new_runs(app_name):
            run = _begin_run(request, agents, app_name, gate, shared)
            try:
                if run.active:
                    [run] = children.execute([run])
            except StoppedBySignal:
                [run] = cancel_runs([run])
                if suite_ended.is_set():
                    return None
        return _run_json(run, agents, gate)


def _begin_run(
    request: Mapping[str, Any], agents: AgentsFolder, app_name: str, gate: Gate, shared: SharedReply
) -> EvalRun:
    """Return the pending run of a request: a new one, or the one that another process of the suite began."""
    from evals_app.runs import folder_orders

    if shared.run_file.exists():
        return _resume_run(shared.run_file.read_text(encoding="utf-8"), agents)
    evalset_request = _evalset_request(request)
    gate.check(
        folder_orders.find_evalset(agents, app_name, evalset_request.evalset), source=evalset_request.source
    )
    run = folder_orders.order_from_folder(agents, app_name, evalset_request)
    shared.run_file.write_text(run.pk, encoding="utf-8")
    return run


def _resume_run(run_id: str, agents: AgentsFolder) -> EvalRun:
    """Return a run that another process left, pending again if it did not finish it.

    Raises:
        HasChanged: the agent's code has changed.
    """
    from evals_app.models import EvalRun
    from evals_app.runs import rerun
    from evals_app.runs.writes import crashes

    while (run := rerun.reload_run(run_id)).active:  # that process has learned of the end of its suite
        time.sleep(POLL_S)
        crashes.crash_abandoned(run_id)
    has_unfinished_attempts = run.status in {EvalRun.Status.CANCELLED, EvalRun.Status.CRASHED}
    return rerun.resume(run, agents) if has_unfinished_attempts else run


def _read_gate(request: Mapping[str, Any]) -> Gate:
    from evals_app.analysis.ci_gate import Gate

    return Gate(request["baseline"], request["fail_on"], request["allow_no_baseline"])


def _run_json(run: EvalRun, agents: AgentsFolder, gate: Gate) -> Mapping[str, Any]:
    """Return a run with its attempts and what the gate says of it."""
    from evals_app.analysis import case_matrix, run_summary
    from evals_app.analysis.exports import run_json
    from evals_app.files import library
    from evals_app.runs import attempt_status

    attempts = [
        {
            **run_json.attempt_json(attempt),
            "has_outcome": attempt_status.has_outcome(attempt.status, attempt.error_type),
        }
        for attempt in run_json.iter_attempts(run)
    ]
    usage = run_summary.model_usage(run)
    return {
        "run": run_json.run_facts(run),
        "attempts": attempts,
        "rate": run_json.rate_json(case_matrix.tally(run)),
        "cost": usage.cost if usage.tokens else None,
        "currency": usage.currency,
        "gate": _gate_json(run, gate),
        "file": str(library.evalset_path(agents, run.evalset).resolve()),
        "digest": run.version.digest,
    }


def _gate_json(run: EvalRun, gate: Gate) -> Mapping[str, Any]:
    from evals_app.analysis.exports.comparison_json import comparison_facts

    result = gate.judge(run)
    return {
        "status": str(result.status),
        "title": result.title,
        "fails": result.reasons,
        "comparison": comparison_facts(result) if result.comparison else None,
    }


def _evalset_request(request: Mapping[str, Any]) -> EvalsetRequest:
    from evals_app.runs.folder_orders import EvalsetRequest
    from evals_app.runs.limits import EvalRunLimits

    config = request["config"]
    return EvalsetRequest(
        request["evalset"],
        request["cases"],
        metrics=request["metrics"],
        criteria=request["criteria"],
        config=Path(config) if isinstance(config, str) else None,
        settings=config if isinstance(config, dict) else None,
        num_runs=request["num_runs"],
        parallelism=request["parallelism"],
        limits=EvalRunLimits.of(request["limits"]),
        source="pytest",
    )


if __name__ == "__main__":
    main()
