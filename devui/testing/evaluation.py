"""An evalset and an agent, resolved from paths and names, and their evaluation in a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, TypedDict, Unpack

from devui.testing import plugin
from devui.testing.agent_argument import Agent, PathLike, Refused, describe_agent, existing_path
from devui.testing.results import Results
from devui.testing.shared_replies import SharedReply

__tracebackhide__ = True
"""Tells pytest that it need not show this module: a refusal is shown at the line of the suite."""

STDERR = 2
"""Descriptor of the error stream: a suite may have replaced `sys.stderr`."""


class EvaluationOptions(TypedDict, total=False):
    """Options of an evaluation: how attempts are run and judged.

    Attributes:
        metrics: names; None, the default, for those of the configuration.
        criteria: metric → threshold, `metric.option` → value.
        config: a `test_config.json` or its content; None, the default, for the one beside the evalset, else ADK's
            defaults.
        num_runs: repetitions of every case; 1 by default.
        parallelism: attempts at once; 4 by default.
        limits: seconds, tokens and cost of a run, attempt_seconds of one attempt, retry_seconds of a model call
            (`evals_app.runs.limits`).
    """

    metrics: Sequence[str] | None
    criteria: Mapping[str, float | str] | None
    config: PathLike | Mapping[str, Any] | None
    num_runs: int
    parallelism: int
    limits: Mapping[str, float] | None


class GateOptions(EvaluationOptions, total=False):
    """Options of an evaluation and of its comparison with earlier runs, as those of `run_evals`.

    Attributes:
        baseline: the run to compare with: its id, `baseline` (the marked one) or `previous`.
        fail_on: `regression`, `scores` or `any`; "", the default: an attempt that did not pass.
        allow_no_baseline: do not compare an evalset that has no baseline yet, instead of refusing to run it.
    """

    baseline: str
    fail_on: str
    allow_no_baseline: bool


DEFAULTS: Mapping[str, Any] = {
    "metrics": None,
    "criteria": {},
    "config": None,
    "num_runs": 1,
    "parallelism": 4,
    "limits": {},
    "baseline": "",
    "fail_on": "",
    "allow_no_baseline": False,
}

FAIL_ON = ("", "regression", "scores", "any")

_Type = type | tuple[type, ...]

OPTION_TYPES: Mapping[str, tuple[_Type, str]] = {
    "metrics": (Sequence, "a list of names"),
    "criteria": (Mapping, "a mapping of metrics to thresholds"),
    "config": ((str, os.PathLike, Mapping), "a file or a mapping"),
    "num_runs": (int, "a whole number"),
    "parallelism": (int, "a whole number"),
    "limits": (Mapping, "a mapping of names to numbers"),
    "baseline": (str, "a run's id, `baseline` or `previous`"),
    "fail_on": (str, "`regression`, `scores` or `any`"),
    "allow_no_baseline": (bool, "True or False"),
}
"""Types of the options, and what they are in words."""


class Evaluation:
    """An evalset, its agent, and how attempts are run and judged."""

    def __init__(
        self, caller: Mapping[str, Any], path: PathLike, agent: Agent, **options: Unpack[GateOptions]
    ) -> None:
        """Take the arguments of `devui_evalset` or `evaluate`, with paths relative to the folder of the caller.

        Args:
            caller: the globals of the calling module.

        Raises:
            Refused: an option is unknown or invalid, or the agent does not exist.
        """
        file = caller.get("__file__")
        caller_folder = Path(file).resolve().parent if file else Path.cwd()
        given = {name: value for name, value in options.items() if value is not None}
        _check_options(given)
        config = given.get("config")
        if isinstance(config, str | os.PathLike):
            given["config"] = str(existing_path(caller_folder, config) or config)
        self.evalset = str(existing_path(caller_folder, path) or os.fspath(path))
        self._request = {
            **DEFAULTS,
            **given,
            "evalset": self.evalset,
            "agent": describe_agent(caller_folder, agent, caller),
        }
        _require_json(self._request)
        self._listing: Mapping[str, Any] = {}

    def select_cases(self, cases: Sequence[str]) -> list[str]:
        """Return the ids of the given cases, in file order; all for an empty list."""
        _check_cases(cases)
        self._listing = self._ask_process({"only_list": True})
        case_ids = list(self._listing["cases"])
        if missing := sorted(set(cases) - set(case_ids)):
            raise Refused(f"{self.evalset} has no case {missing[0]!r}. Its cases: {', '.join(case_ids)}.")
        return [case for case in dict.fromkeys(case_ids) if not cases or case in set(cases)]

    def run(self, cases: Sequence[str], environment: Mapping[str, str] | None = None) -> Results:
        """Run cases, all for an empty list, and return their results.

        In a session of pytest, an evaluation with the same arguments is run once, whichever process asks first: its
        first outcomes count, also when a test is repeated.

        Args:
            environment: the variables with which the results may differ.
        """
        _check_cases(cases)
        if self._listing:
            _require_unchanged(self._listing)
        reply = self._ask_process({"only_list": False, "cases": list(cases)}, environment or {})
        if self._listing and reply["digest"] != self._listing["digest"]:
            raise _changed_refusal(self.evalset)
        plugin.record_run(reply["run"])
        return Results.from_json(reply)

    def _ask_process(
        self, request: Mapping[str, Any], environment: Mapping[str, str] | None = None
    ) -> Mapping[str, Any]:
        """Return the reply to a request: that of a new process, or the one that an equal request got before.

        Raises:
            Refused: the request cannot be met.
        """
        request = {**self._request, **request}
        conditions = [sys.executable, sys.path, dict(environment or {})]
        with plugin.open_shared_folder() as folder:
            shared = SharedReply.for_request({**request, "conditions": conditions}, folder)
            try:
                with shared.lock():
                    is_new = not shared.exists
                    if is_new:
                        _request_reply(request, shared)
                reply = shared.read()
            except FileNotFoundError:
                raise Refused("The session of pytest has ended.") from None
        if "refusal" in reply:
            raise Refused(reply["refusal"])
        if not is_new:
            _require_unchanged(reply)
        return reply


def _check_options(options: Mapping[str, Any]) -> None:
    """Check the names and types of options.

    Raises:
        Refused: one is unknown or invalid.
    """
    if unknown := sorted(options.keys() - DEFAULTS.keys()):
        raise Refused(f"There is no option {unknown[0]!r}. Options: {', '.join(DEFAULTS)}.")
    for name, value in options.items():
        kind, words = OPTION_TYPES[name]
        is_text = isinstance(value, str) and kind is Sequence
        if not isinstance(value, kind) or is_text or (kind is int and isinstance(value, bool)):
            raise Refused(f"The option {name} must be {words}, not {value!r}.")
    if options.get("fail_on", "") not in FAIL_ON:
        raise Refused(
            f"The option fail_on must be `regression`, `scores` or `any`, not {options['fail_on']!r}."
        )


def _check_cases(cases: Sequence[str]) -> None:
    if isinstance(cases, str) or not all(isinstance(case, str) for case in cases):
        raise Refused(f"The option cases must be a list of ids, not {cases!r}.")


def _require_json(request: Mapping[str, Any]) -> None:
    try:
        json.dumps(request, sort_keys=True)
    except (TypeError, ValueError) as error:
        raise Refused(f"The options must be values of JSON: {error}.") from None


def _require_unchanged(reply: Mapping[str, Any]) -> None:
    """Require that an evalset file is the one of an earlier reply.

    Raises:
        Refused: the file has changed or is gone.
    """
    file = Path(reply["file"])
    if not file.is_file() or sha256(file.read_bytes()).hexdigest() != reply["digest"]:
        raise _changed_refusal(str(file))


def _changed_refusal(evalset: str) -> Refused:
    return Refused(f"{evalset} has changed since this session of pytest read it: start the suite again.")


def _request_reply(request: Mapping[str, Any], shared: SharedReply) -> None:
    """Let a new process write the reply to a request."""
    code = _run_process({**request, "reply": str(shared.file), "run_file": str(shared.run_file)})
    if not shared.exists:
        evalset = request["evalset"]
        shared.write({"refusal": f"The process that evaluates {evalset} ended ({code}): see its output."})


def _run_process(request: Mapping[str, Any]) -> int:
    """Send a request to a new process, and return the exit status of the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "devui.testing.suite_process"],
        stdin=subprocess.PIPE,
        stdout=STDERR,
        stderr=STDERR,
        cwd=plugin.suite_folder(),
        env=_process_environment(request["agent"].get("folder", "")),
        process_group=0,  # Ctrl-C reaches the suite only, which ends the process in order
    )
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    try:
        with contextlib.suppress(BrokenPipeError):  # its exit status tells
            process.stdin.write(json.dumps(request).encode() + b"\n")
            process.stdin.flush()
        return process.wait()
    finally:
        process.stdin.close()
        process.wait()


def _process_environment(agents_dir: str) -> dict[str, str]:
    """Return the environment: the suite's import path, and DevUI's own settings and store."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(entry or os.getcwd() for entry in sys.path)),
        "DJANGO_SETTINGS_MODULE": "devui.agent_settings",
        "DATABASE_URL": plugin.store_url(),
        "DEVUI_AGENTS_DIR": agents_dir,
    }
