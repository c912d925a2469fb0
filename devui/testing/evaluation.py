"""An evalset and an agent to evaluate in a test suite, resolved from paths and names."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Self

from devui.testing import plugin
from devui.testing.worker_client import AgentProcess, Refused

PathLike = str | os.PathLike[str]
"""A path of a file or folder."""


@dataclass(frozen=True)
class EvaluationOptions:
    """Options of an evaluation: the arguments of `devui_evalset` with the same names."""

    metrics: Sequence[str] | None
    criteria: Mapping[str, float | str] | None
    config: PathLike | Mapping[str, Any] | None
    num_runs: int
    parallelism: int
    limits: Mapping[str, float] | None


@dataclass(frozen=True)
class Evaluation:
    """An evalset, its agent, and how attempts are run and judged."""

    evalset: str
    agent: Path
    options: EvaluationOptions

    @classmethod
    def of(cls, near: Path, path: PathLike, agent: PathLike, options: EvaluationOptions) -> Self:
        """Return the evaluation for the arguments of `devui_evalset`, with paths relative to the folder `near`.

        Raises:
            Refused: the agent does not exist.
        """
        config = options.config
        if config is not None and not isinstance(config, Mapping):
            options = replace(options, config=str(_existing_path(near, config) or config))
        evalset = str(_existing_path(near, path) or os.fspath(path))
        return cls(evalset, _agent_folder(near, agent), options)

    def case_ids(self) -> list[str]:
        """Return the ids of the evalset's cases, in file order.

        Raises:
            Refused: the evalset does not exist or is invalid.
        """
        answer = next(iter(self.process.ask("cases", evalset=self.evalset)))
        return list(answer["cases"])

    def select_cases(self, cases: Sequence[str]) -> list[str]:
        """Return the ids of the cases to run, in file order; all for an empty list.

        Raises:
            Refused: a case or the evalset does not exist, or the evalset is invalid.
        """
        case_ids = self.case_ids()
        if missing := sorted(set(cases) - set(case_ids)):
            raise Refused(f"{self.evalset} has no case {missing[0]!r}. Its cases: {', '.join(case_ids)}.")
        return [case for case in case_ids if not cases or case in set(cases)]

    @property
    def process(self) -> AgentProcess:
        """The process that runs the agent."""
        return _process_of(self.agent)

    def request(self, cases: Iterable[str]) -> dict[str, Any]:
        """Return the request for the agent's process."""
        options = self.options
        return {
            "evalset": self.evalset,
            "cases": list(cases),
            "metrics": None if options.metrics is None else list(options.metrics),
            "criteria": dict(options.criteria or {}),
            "config": dict(options.config) if isinstance(options.config, Mapping) else options.config,
            "num_runs": options.num_runs,
            "parallelism": options.parallelism,
            "limits": dict(options.limits or {}),
        }


def _existing_path(near: Path, path: PathLike) -> Path | None:
    """Return an existing path relative to a folder or to the working folder, or None."""
    places = (place / path for place in (near, Path.cwd()))
    return next((place.resolve() for place in places if place.exists()), None)


def _agent_folder(near: Path, agent: PathLike) -> Path:
    """Return the folder of an agent; a package is located without importing it.

    Raises:
        Refused: the agent does not exist.
    """
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


@cache
def _process_of(agent: Path) -> AgentProcess:
    """Return the process of an agent, shared by all its evalsets; it ends with the suite."""
    process = AgentProcess(agent, plugin.store_url(), plugin.suite_folder())
    plugin.close_later(process.close)
    return process
