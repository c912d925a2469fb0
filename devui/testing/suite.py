"""Evalsets as tests, with a test for every case, or as results."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from devui.testing import plugin
from devui.testing.agent_argument import Agent, PathLike, Refused
from devui.testing.evaluation import Evaluation, EvaluationOptions, GateOptions
from devui.testing.results import Results

if TYPE_CHECKING:
    import pytest


def devui_evalset(
    path: PathLike, *, agent: Agent, cases: Sequence[str] = (), **options: Unpack[EvaluationOptions]
) -> Callable[..., None]:
    """Return a test with a parameter for every case of an evalset: `test_weather = devui_evalset(…)`.

    The first of its tests runs all selected cases, in parallel, also for the other processes of pytest-xdist; every
    test fails if a repetition of its case did not pass.

    Args:
        path: the evalset's file, relative to the folder of the calling module or to the working folder; or the id of an
            evalset file beside the agent.
        agent: the agent's folder, likewise, or the dotted name of its package; or an agent object, an `App` or a
            factory without parameters, itself or as `pkg.module:name`.
        cases: ids; empty for all.
        options: how attempts are run and judged (`EvaluationOptions`).

    Raises:
        Refused: the agent or evalset does not exist or is invalid, or an option is.
    """
    __tracebackhide__ = True  # a refusal is shown at the line of the suite
    if unknown := sorted(options.keys() - EvaluationOptions.__annotations__.keys()):
        raise Refused(f"devui_evalset has no option {unknown[0]!r}: `evaluate` compares runs.")
    if plugin.is_evaluating:  # this module is imported for an agent in it
        return _create_test(path, (), lambda cases: Results("", ""))
    evaluation = Evaluation(sys._getframe(1).f_globals, path, agent, **options)
    return _create_test(evaluation.evalset, evaluation.select_cases(cases), evaluation.run)


def evaluate(
    path: PathLike, *, agent: Agent, cases: Sequence[str] = (), **options: Unpack[GateOptions]
) -> Results:
    """Run an evalset and return its results, without assertions. The arguments are those of `devui_evalset`.

    In a session of pytest, calls with the same arguments and environment variables return the results of one run.

    Args:
        options: also those of a comparison (`GateOptions`).

    Raises:
        Refused: the agent, the evalset or the baseline does not exist or is invalid, or an option is.
    """
    __tracebackhide__ = True
    if plugin.is_evaluating:
        raise Refused(
            "`evaluate` was called by the module of the agent that is evaluated: keep the agent in another module."
        )
    evaluation = Evaluation(sys._getframe(1).f_globals, path, agent, **options)
    return evaluation.run(cases, _select_conditions(os.environ))


def _select_conditions(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables without those in which processes and tests of one session differ."""
    return {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}


def _create_test(
    evalset: PathLike, cases: Sequence[str], run: Callable[[Sequence[str]], Results]
) -> Callable[..., None]:
    """Return a test with a parameter for every case id."""
    import pytest  # imported here, because `evaluate` does not need pytest

    results_by_case: dict[str, Results] = {}

    @pytest.mark.parametrize("devui_case", cases, ids=str)
    def test_case(devui_case: str, request: pytest.FixtureRequest) -> None:
        if devui_case not in results_by_case:
            selected = {devui_case, *_selected_cases(request, test_case)} - results_by_case.keys()
            try:
                results = run([case for case in cases if case in selected])
            except Refused as refusal:
                pytest.fail(str(refusal), pytrace=False)
            results_by_case.update(dict.fromkeys(selected, results))
        if message := _failure_message(results_by_case[devui_case], devui_case):
            pytest.fail(message, pytrace=False)

    test_case.__doc__ = f"The cases of {evalset}, as DevUI judges them."
    return test_case


def _failure_message(results: Results, case: str) -> str:
    """Return why a case did not pass, and where its run is; empty if it passed."""
    if results[case].passed:
        return ""
    address = (
        f"DevUI run {results.run_id} in {plugin.store_url()}: /evals/runs/{results.run_id}/ of `devui web`."
    )
    return "\n".join(filter(None, (results[case].summary, results.stopped_because, address)))


def _selected_cases(request: pytest.FixtureRequest, test: Callable[..., None]) -> Collection[str]:
    """Return the cases of a test that pytest selected; a worker of xdist knows all, though it runs only some."""
    items: Sequence[Any] = request.session.items
    return [
        str(item.callspec.params["devui_case"]) for item in items if getattr(item, "function", None) is test
    ]
