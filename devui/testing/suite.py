"""Evalsets as tests, a test for every case, and as results."""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devui.testing import plugin
from devui.testing.process import AgentProcess, Refused
from devui.testing.results import AttemptResult, CaseResult, Results

if TYPE_CHECKING:
    import pytest


class EvalsFailed(AssertionError):
    """A case did not pass; the message says what every repetition came to."""


@dataclass(frozen=True)
class Asked:
    """What is to be run, and how it is judged. See `devui_evalset`."""

    evalset: str
    agent: Path
    metrics: Sequence[str] | None = None
    criteria: Mapping[str, float] = field(default_factory=dict)
    config: str | Mapping[str, Any] | None = None
    num_runs: int = 1
    parallelism: int = 4
    limits: Mapping[str, float] = field(default_factory=dict)

    def request(self, cases: Iterable[str]) -> dict[str, Any]:
        """Return what the agent's process is asked to run."""
        config = dict(self.config) if isinstance(self.config, Mapping) else self.config
        return {
            "evalset": self.evalset,
            "cases": list(cases),
            "metrics": None if self.metrics is None else list(self.metrics),
            "criteria": dict(self.criteria),
            "config": config,
            "num_runs": self.num_runs,
            "parallelism": self.parallelism,
            "limits": dict(self.limits),
        }


def devui_evalset(
    path: str | os.PathLike[str],
    *,
    agent: str | os.PathLike[str],
    cases: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    criteria: Mapping[str, float] | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    num_runs: int = 1,
    parallelism: int = 4,
    limits: Mapping[str, float] | None = None,
) -> Callable[..., None]:
    """Return a test with a parameter for every case of an evalset: `test_weather = devui_evalset(…)`.

    The cases that pytest selected run side by side when the first of their tests runs, in one run of DevUI's; every
    test waits for its own case and fails when a repetition of it did not pass. With pytest-xdist, where no process
    knows what the others do, every test runs its own case.

    Args:
        path: the evalset's file, from the folder of the calling module or from the working folder; or its id, which
            names a file beside the agent.
        agent: the agent's folder, likewise, or the dotted name of its package.
        cases: ids; empty: all.
        metrics: names; None: those of the configuration.
        criteria: metric → threshold.
        config: a `test_config.json`, or what would stand in it; None: the one beside the evalset, else ADK's defaults.
        num_runs: repetitions of every case.
        parallelism: attempts at once.
        limits: seconds, tokens and cost of a run, attempt_seconds of one attempt (`evals_app.limits`).

    Raises:
        Refused: there is no such agent or evalset, or it cannot be used.
    """
    import pytest  # here, since `evaluate` does without

    near = _folder_of_caller()
    asked = _asked(near, path, agent, metrics, criteria, config, num_runs, parallelism, limits)
    chosen = _chosen(asked, cases)
    group = Group(asked)

    @pytest.mark.parametrize("devui_case", list(dict.fromkeys(chosen)), ids=str)
    def test_case(devui_case: str, request: pytest.FixtureRequest) -> None:
        result = group.result(devui_case, lambda: _selected(request, test_case))
        if not result.passed:
            pytest.fail(f"{result.said}\n{group.where(devui_case)}", pytrace=False)

    test_case.__doc__ = f"The cases of {asked.evalset}, as DevUI judges them."
    return test_case


def evaluate(
    path: str | os.PathLike[str],
    *,
    agent: str | os.PathLike[str],
    cases: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    criteria: Mapping[str, float] | None = None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    num_runs: int = 1,
    parallelism: int = 4,
    limits: Mapping[str, float] | None = None,
) -> Results:
    """Run an evalset and return what it came to; nothing is asserted. The arguments are those of `devui_evalset`.

    Raises:
        Refused: there is no such agent or evalset, or it cannot be used.
    """
    near = _folder_of_caller()
    asked = _asked(near, path, agent, metrics, criteria, config, num_runs, parallelism, limits)
    going = Going(asked, _chosen(asked, cases))
    going.carry_out()
    return going.results()


class Going:
    """A run of an evalset that goes on, and what its cases came to so far."""

    def __init__(self, asked: Asked, cases: Sequence[str]) -> None:
        self._asked = asked
        self._cases = cases
        self._changed = threading.Condition()
        self._attempts: dict[str, list[AttemptResult]] = {}
        self._ended: Mapping[str, Any] | None = None
        self._why = ""
        self._refused: Refused | None = None
        self.run_id = ""

    def start(self) -> None:
        """Run the cases beside whatever else goes on."""
        threading.Thread(target=self.carry_out, daemon=True).start()

    def carry_out(self) -> None:
        """Run the cases to their end."""
        try:
            for answer in process_of(self._asked.agent).ask("run", **self._asked.request(self._cases)):
                with self._changed:
                    self._take(answer)
                    self._changed.notify_all()
        except Refused as refusal:
            with self._changed:
                self._refused = refusal
                self._changed.notify_all()

    def result(self, case: str) -> CaseResult:
        """Return what a case came to, when all its repetitions have ended.

        Raises:
            Refused: the run could not run.
            EvalsFailed: the case did not run to its end.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_whole(case) or self._ended or self._refused)
        if self._refused is not None:
            raise self._refused
        if not self._is_whole(case):
            status = (self._ended or {}).get("status", "")
            raise EvalsFailed(f"{case} did not run to its end: the run is {status}. {self._why}")
        return CaseResult(case, _in_order(self._attempts[case]))

    def results(self) -> Results:
        """Return what the run came to.

        Raises:
            Refused: it could not run.
        """
        if self._refused is not None:
            raise self._refused
        facts = self._ended or {}
        cases = [
            CaseResult(case, _in_order(self._attempts.get(case, []))) for case in dict.fromkeys(self._cases)
        ]
        return Results(self.run_id, facts.get("status", ""), cases, self._why, facts)

    def _take(self, answer: Mapping[str, Any]) -> None:
        self.run_id = answer.get("run", self.run_id)
        if told := answer.get("attempt"):
            attempt = AttemptResult.of(told)
            self._attempts.setdefault(attempt.case, []).append(attempt)
        if ended := answer.get("ended"):
            self._ended, self._why = ended, answer["why"]
            plugin.note(self._asked.evalset, ended)

    def _is_whole(self, case: str) -> bool:
        """Tell whether every repetition of a case has ended; several cases may have one id."""
        return len(self._attempts.get(case, ())) >= self._asked.num_runs * self._cases.count(case)


class Group:
    """An evalset of a suite, asked for by the tests of its cases."""

    def __init__(self, asked: Asked) -> None:
        self._asked = asked
        self._going: dict[str, Going] = {}

    def result(self, case: str, selected: Callable[[], Iterable[str]]) -> CaseResult:
        """Return what a case came to; it runs now, with the cases `selected` with it, unless it runs already.

        Raises:
            Refused: the run could not run.
            EvalsFailed: the case did not run to its end.
        """
        if case not in self._going:
            together = {case, *selected()} - self._going.keys()
            cases = [one for one in _case_ids(self._asked) if one in together]
            going = Going(self._asked, cases)
            self._going.update(dict.fromkeys(cases, going))
            going.start()
        return self._going[case].result(case)

    def where(self, case: str) -> str:
        """Tell where to look at the run of a case."""
        run_id = self._going[case].run_id
        return f"DevUI run {run_id} in {plugin.store_url()}: /evals/runs/{run_id}/ of `devui web`."


def _asked(
    near: Path,
    path: str | os.PathLike[str],
    agent: str | os.PathLike[str],
    metrics: Sequence[str] | None,
    criteria: Mapping[str, float] | None,
    config: str | os.PathLike[str] | Mapping[str, Any] | None,
    num_runs: int,
    parallelism: int,
    limits: Mapping[str, float] | None,
) -> Asked:
    evalset = _found(near, path)
    given = config if config is None or isinstance(config, Mapping) else str(_found(near, config) or config)
    return Asked(
        evalset=str(evalset or os.fspath(path)),
        agent=_agent_folder(near, agent),
        metrics=metrics,
        criteria=criteria or {},
        config=given,
        num_runs=num_runs,
        parallelism=parallelism,
        limits=limits or {},
    )


def _found(near: Path, path: str | os.PathLike[str]) -> Path | None:
    """Return the file or folder that a path names, from a folder or from the working folder; None: there is none."""
    places = (place / path for place in (near, Path.cwd()))
    return next((place.resolve() for place in places if place.exists()), None)


def _agent_folder(near: Path, agent: str | os.PathLike[str]) -> Path:
    """Return the folder of an agent; a package is found without being imported.

    Raises:
        Refused: there is none.
    """
    if (folder := _found(near, agent)) is not None:
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


def _chosen(asked: Asked, cases: Sequence[str]) -> list[str]:
    """Return the ids of the cases to run, in the order of the file.

    Raises:
        Refused: one is not in the evalset.
    """
    known = _case_ids(asked)
    if missing := sorted(set(cases) - set(known)):
        raise Refused(f"{asked.evalset} has no case {missing[0]!r}. Its cases: {', '.join(known)}.")
    return [case for case in known if not cases or case in set(cases)]


def _case_ids(asked: Asked) -> list[str]:
    answer = next(iter(process_of(asked.agent).ask("cases", evalset=asked.evalset)))
    return list(answer["cases"])


def _in_order(attempts: Sequence[AttemptResult]) -> list[AttemptResult]:
    return sorted(attempts, key=lambda attempt: (attempt.repetition, attempt.id))


def _selected(request: pytest.FixtureRequest, test: Callable[..., None]) -> list[str]:
    """Return the cases of a test that pytest selected; none where other processes take some of them."""
    if hasattr(request.config, "workerinput"):
        return []
    items: Iterable[Any] = request.session.items
    return [
        str(item.callspec.params["devui_case"]) for item in items if getattr(item, "function", None) is test
    ]


def _folder_of_caller() -> Path:
    """Return the folder of the module that called the function that calls this."""
    file = sys._getframe(2).f_globals.get("__file__")
    return Path(file).resolve().parent if file else Path.cwd()


@cache
def process_of(agent: Path) -> AgentProcess:
    """Return the process of an agent."""
    process = AgentProcess(agent, plugin.store_url(), plugin.folder())
    plugin.close_later(process.close)
    return process
