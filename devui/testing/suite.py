"""Evalsets as tests, a test for every case, and as results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devui.testing.background_runs import BackgroundRun, SharedRuns
from devui.testing.evaluation import Evaluation, PathLike
from devui.testing.results import Results

if TYPE_CHECKING:
    import pytest


def devui_evalset(
    path: PathLike,
    *,
    agent: PathLike,
    cases: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    criteria: Mapping[str, float] | None = None,
    config: PathLike | Mapping[str, Any] | None = None,
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
        limits: seconds, tokens and cost of a run, attempt_seconds of one attempt, retry_seconds of a model call
            (`evals_app.runs.limits`).

    Raises:
        Refused: there is no such agent or evalset, or it cannot be used.
    """
    near = _folder_of_caller()
    evaluation = Evaluation.of(near, path, agent, metrics, criteria, config, num_runs, parallelism, limits)
    return _test_of(evaluation, evaluation.select_cases(cases))


def evaluate(
    path: PathLike,
    *,
    agent: PathLike,
    cases: Sequence[str] = (),
    metrics: Sequence[str] | None = None,
    criteria: Mapping[str, float] | None = None,
    config: PathLike | Mapping[str, Any] | None = None,
    num_runs: int = 1,
    parallelism: int = 4,
    limits: Mapping[str, float] | None = None,
) -> Results:
    """Run an evalset and return what it came to; nothing is asserted. The arguments are those of `devui_evalset`.

    Raises:
        Refused: there is no such agent or evalset, or it cannot be used.
    """
    near = _folder_of_caller()
    evaluation = Evaluation.of(near, path, agent, metrics, criteria, config, num_runs, parallelism, limits)
    run = BackgroundRun(evaluation, evaluation.select_cases(cases))
    run.carry_out()
    return run.results()


def _test_of(evaluation: Evaluation, cases: Sequence[str]) -> Callable[..., None]:
    """Return a test with a parameter for every case; several cases may have one id."""
    import pytest  # here, since `evaluate` does without

    runs = SharedRuns(evaluation)

    @pytest.mark.parametrize("devui_case", list(dict.fromkeys(cases)), ids=str)
    def test_case(devui_case: str, request: pytest.FixtureRequest) -> None:
        result = runs.result(devui_case, lambda: _selected(request, test_case))
        if not result.passed:
            pytest.fail(f"{result.said}\n{runs.where(devui_case)}", pytrace=False)

    test_case.__doc__ = f"The cases of {evaluation.evalset}, as DevUI judges them."
    return test_case


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
