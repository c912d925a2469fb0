"""Evalsets as tests, with a test for every case, or as results."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from devui.testing import plugin
from devui.testing.evaluation import Evaluation, EvaluationOptions, PathLike
from devui.testing.results import Results

if TYPE_CHECKING:
    import pytest


def devui_evalset(
    path: PathLike, *, agent: PathLike, cases: Sequence[str] = (), **options: Unpack[EvaluationOptions]
) -> Callable[..., None]:
    """Return a test with a parameter for every case of an evalset: `test_weather = devui_evalset(…)`.

    The first of its tests runs all selected cases, in parallel; every test fails if a repetition of its case did not
    pass. With pytest-xdist, whose processes do not know the selection of the others, every test runs its own case.

    Args:
        path: the evalset's file, relative to the folder of the calling module or to the working folder; or the id of an
            evalset file beside the agent.
        agent: the agent's folder, likewise, or the dotted name of its package.
        cases: ids; empty for all.
        options: how attempts are run and judged (`EvaluationOptions`).

    Raises:
        Refused: the agent or evalset does not exist or is invalid.
    """
    evaluation = Evaluation(_folder_of_caller(), path, agent, **options)
    return _test_of(evaluation, evaluation.select_cases(cases))


def evaluate(
    path: PathLike, *, agent: PathLike, cases: Sequence[str] = (), **options: Unpack[EvaluationOptions]
) -> Results:
    """Run an evalset and return its results, without assertions. The arguments are those of `devui_evalset`.

    Raises:
        Refused: the agent or evalset does not exist or is invalid.
    """
    evaluation = Evaluation(_folder_of_caller(), path, agent, **options)
    return evaluation.run(cases)


def _test_of(evaluation: Evaluation, cases: Sequence[str]) -> Callable[..., None]:
    """Return a test with a parameter for every case id."""
    import pytest  # imported here, because `evaluate` does not need pytest

    results_by_case: dict[str, Results] = {}

    @pytest.mark.parametrize("devui_case", cases, ids=str)
    def test_case(devui_case: str, request: pytest.FixtureRequest) -> None:
        if devui_case not in results_by_case:
            selected = {devui_case, *_selected_cases(request, test_case)} - results_by_case.keys()
            results = evaluation.run([case for case in cases if case in selected])
            results_by_case.update(dict.fromkeys(selected, results))
        if message := _failure_message(results_by_case[devui_case], devui_case):
            pytest.fail(message, pytrace=False)

    test_case.__doc__ = f"The cases of {evaluation.evalset}, as DevUI judges them."
    return test_case


def _failure_message(results: Results, case: str) -> str:
    """Return why a case did not pass, and where its run is; empty if it passed."""
    if results[case].passed:
        return ""
    place = (
        f"DevUI run {results.run_id} in {plugin.store_url()}: /evals/runs/{results.run_id}/ of `devui web`."
    )
    return "\n".join(filter(None, (results[case].summary, results.stopped_because, place)))


def _selected_cases(request: pytest.FixtureRequest, test: Callable[..., None]) -> Collection[str]:
    """Return the cases of a test that pytest selected; none if other processes run some of them."""
    if hasattr(request.config, "workerinput"):
        return []
    items: Sequence[Any] = request.session.items
    return [
        str(item.callspec.params["devui_case"]) for item in items if getattr(item, "function", None) is test
    ]


def _folder_of_caller() -> Path:
    """Return the folder of the module that called the caller of this function."""
    file = sys._getframe(2).f_globals.get("__file__")
    return Path(file).resolve().parent if file else Path.cwd()
