"""The process that reads or runs an evalset for a test suite: one request, one reply.

The request is a line of JSON on standard input, and the reply goes to the file that it names, because processes that an
agent leaves behind would hold a pipe open. The end of standard input is the end of the suite. The agent finds its own
standard input empty; output goes to the error stream.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import devui

if TYPE_CHECKING:
    from evals_app.models import EvalRun
    from evals_app.runs.folder_orders import EvalsetRequest


def main() -> None:
    """Handle the request. Ctrl-C ends the process without a traceback."""
    with contextlib.suppress(KeyboardInterrupt):
        devui.setup(migrate=False)
        request = _read_request()
        Path(request["reply"]).write_text(json.dumps(_reply_to(request)), encoding="utf-8")


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
    os.kill(os.getpid(), signal.SIGTERM)


def _reply_to(request: Mapping[str, Any]) -> Mapping[str, Any]:
    from evals_app.execution.local_runner import quiet_logging
    from sessions_app.errors import DevUIError

    try:
        with quiet_logging():
            return _list_cases(request) if request["only_list"] else _run(request)
    except DevUIError as error:
        return {"refusal": "\n".join(filter(None, (error.message, error.hint)))}


def _list_cases(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the case ids of an evalset, without the store."""
    from evals_app.files import library, read_file
    from evals_app.runs import folder_orders

    agents, app_name = folder_orders.agent_at(Path(request["agent"]))
    path = Path(request["evalset"])
    if not path.is_file():
        path = library.find_files(agents.folder_of(app_name)).get(request["evalset"], path)
    return {"cases": [case.eval_id for case in read_file(path).cases]}


def _run(request: Mapping[str, Any]) -> Mapping[str, Any]:
    """Run an evalset as `run_evals` does, and return the run with its attempts."""
    from evals_app.cli.terminal import Console
    from evals_app.execution.child_processes import StoppedBySignal, execute_in_children
    from evals_app.execution.local_runner import cancel_runs, own_new_runs
    from evals_app.runs import folder_orders
    from sessions_app.store.schema import ensure_schema

    ensure_schema()
    agents, app_name = folder_orders.agent_at(Path(request["agent"]))
    console = Console(sys.stderr)
    with own_new_runs(app_name):
        run = folder_orders.order_from_folder(agents, app_name, _evalset_request(request))
        try:
            [ended] = execute_in_children([run], agents, app_name, console, console.write_death)
        except StoppedBySignal:
            [ended] = cancel_runs([run])
    return _run_json(ended)


def _run_json(run: EvalRun) -> Mapping[str, Any]:
    from evals_app.analysis.exports import run_json
    from evals_app.runs import attempt_status

    attempts = [
        {
            **run_json.attempt_json(attempt),
            "has_outcome": attempt_status.has_outcome(attempt.status, attempt.error_type),
        }
        for attempt in run_json.attempts_of(run)
    ]
    return {"run": run_json.run_facts(run), "attempts": attempts}


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
