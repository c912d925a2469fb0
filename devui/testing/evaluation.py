"""An evalset and an agent, resolved from paths and names, and their evaluation in a process of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack

from devui.testing import plugin
from devui.testing.results import Results

PathLike = str | os.PathLike[str]
"""A path of a file or folder."""

STDERR = 2
"""Descriptor of the error stream: a suite may have replaced `sys.stderr`."""


class Refused(Exception):
    """The evalset cannot be evaluated: it, a case or the agent does not exist, or an option is invalid."""


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


class Evaluation:
    """An evalset, its agent, and how attempts are run and judged."""

    def __init__(
        self, near: Path, path: PathLike, agent: PathLike, **options: Unpack[EvaluationOptions]
    ) -> None:
        """Take the arguments of `devui_evalset`, with paths relative to the folder `near`.

        Raises:
            TypeError: an option is unknown.
        """
        if unknown := options.keys() - EvaluationOptions.__annotations__.keys():
            raise TypeError(
                f"unknown option {min(unknown)!r}; {', '.join(EvaluationOptions.__annotations__)}"
            )
        config = options.get("config")
        if isinstance(config, str | os.PathLike):
            config = str(_existing_path(near, config) or config)
        self.evalset = str(_existing_path(near, path) or os.fspath(path))
        self._request: dict[str, Any] = {
            "metrics": None,
            "num_runs": 1,
            "parallelism": 4,
            **options,
            "evalset": self.evalset,
            "agent": str(_agent_folder(near, agent)),
            "criteria": options.get("criteria") or {},
            "config": config,
            "limits": options.get("limits") or {},
        }

    def select_cases(self, cases: Sequence[str]) -> list[str]:
        """Return the ids of the given cases, in file order; all for an empty list."""
        case_ids = list(self._ask(only_list=True)["cases"])
        if missing := sorted(set(cases) - set(case_ids)):
            raise Refused(f"{self.evalset} has no case {missing[0]!r}. Its cases: {', '.join(case_ids)}.")
        return [case for case in dict.fromkeys(case_ids) if not cases or case in set(cases)]

    def run(self, cases: Sequence[str]) -> Results:
        """Run cases, all for an empty list, and return their results."""
        reply = self._ask(cases=list(cases), only_list=False)
        plugin.record_run(reply["run"])
        return Results.from_json(reply["run"], reply["attempts"])

    def _ask(self, **request: Any) -> Any:
        """Return the reply of a process to a request. The process ends with this one."""
        with tempfile.TemporaryDirectory(prefix="devui-suite-") as folder:
            reply_file = Path(folder) / "reply.json"
            code = _run_process({**self._request, **request, "reply": str(reply_file)})
            if not reply_file.exists():
                raise Refused(f"The process that evaluates {self.evalset} ended ({code}): see its output.")
            reply = json.loads(reply_file.read_text(encoding="utf-8"))
        if "refusal" in reply:
            raise Refused(reply["refusal"])
        return reply


def _run_process(request: Mapping[str, Any]) -> int:
    """Send a request to a new process, and return the exit status of the process."""
    process = subprocess.Popen(
        [sys.executable, "-m", "devui.testing.suite_process"],
        stdin=subprocess.PIPE,
        stdout=STDERR,
        stderr=STDERR,
        cwd=plugin.suite_folder(),
        env=_process_environment(str(request["agent"])),
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


def _process_environment(agent: str) -> dict[str, str]:
    """Return the environment: the suite's import path, and DevUI's own settings and store."""
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(entry or os.getcwd() for entry in sys.path)),
        "DJANGO_SETTINGS_MODULE": "devui.settings",
        "DATABASE_URL": plugin.store_url(),
        "DEVUI_AGENTS_DIR": agent,
    }


def _existing_path(near: Path, path: PathLike) -> Path | None:
    """Return an existing path relative to a folder or to the working folder, or None."""
    places = (place / path for place in (near, Path.cwd()))
    return next((place.resolve() for place in places if place.exists()), None)


def _agent_folder(near: Path, agent: PathLike) -> Path:
    """Return the folder of an agent; a package is located without importing it."""
    if (folder := _existing_path(near, agent)) is not None:
        return folder
    name = os.fspath(agent)
    try:
        spec = importlib.util.find_spec(name) if name.replace(".", "_").isidentifier() else None
    except ImportError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise Refused(
            f"There is no agent {name!r}: neither a folder (from {near} or {Path.cwd()}) nor a package."
        )
    return Path(next(iter(spec.submodule_search_locations)))
