"""Runs of evalsets in the background of a test suite, and the results of their cases."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from devui.testing import plugin
from devui.testing.evaluation import Evaluation
from devui.testing.results import AttemptResult, CaseResult, EvalsFailed, Results
from devui.testing.worker_client import Refused

END_TIMEOUT_S = 30.0
"""Seconds for a run whose attempts have all ended to report its end."""


class BackgroundRun:
    """A run of an evalset in progress, with the results of its cases so far."""

    def __init__(self, evaluation: Evaluation, cases: Sequence[str]) -> None:
        self._evaluation = evaluation
        self._cases = cases
        self._changed = threading.Condition()
        self._attempts: dict[str, list[AttemptResult]] = {}
        self._ended: Mapping[str, Any] | None = None
        self._why = ""
        self._refused: Refused | None = None
        self.run_id = ""

    def start(self) -> None:
        """Run the cases in a thread."""
        plugin.settle_later(self.settle)
        threading.Thread(target=self.carry_out, daemon=True).start()

    def settle(self) -> None:
        """Wait for the end of a run whose cases have ended, so that the summary contains it."""
        with self._changed:
            if all(map(self._is_whole, self._cases)):
                self._changed.wait_for(lambda: self._ended or self._refused, END_TIMEOUT_S)

    def carry_out(self) -> None:
        """Run the cases to their end."""
        try:
            for answer in self._evaluation.process.ask("run", **self._evaluation.request(self._cases)):
                with self._changed:
                    self._take(answer)
                    self._changed.notify_all()
        except Refused as refusal:
            with self._changed:
                self._refused = refusal
                self._changed.notify_all()

    def result(self, case: str) -> CaseResult:
        """Wait for all repetitions of a case, and return its result.

        Raises:
            Refused: the run could not start.
            EvalsFailed: the run ended before the case.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._is_whole(case) or self._ended or self._refused)
        if self._refused is not None:
            raise self._refused
        if not self._is_whole(case):
            status = (self._ended or {}).get("status", "")
            raise EvalsFailed(f"{case} did not run to its end: the run is {status}. {self._why}")
        return CaseResult(case, _sort_attempts(self._attempts[case]))

    def results(self) -> Results:
        """Return the results of the run.

        Raises:
            Refused: the run could not start.
        """
        if self._refused is not None:
            raise self._refused
        facts = self._ended or {}
        cases = [
            CaseResult(case, _sort_attempts(self._attempts.get(case, [])))
            for case in dict.fromkeys(self._cases)
        ]
        return Results(self.run_id, facts.get("status", ""), cases, self._why, facts)

    def _take(self, answer: Mapping[str, Any]) -> None:
        self.run_id = answer.get("run", self.run_id)
        if facts := answer.get("attempt"):
            attempt = AttemptResult.of(facts)
            self._attempts.setdefault(attempt.case, []).append(attempt)
        if ended := answer.get("ended"):
            self._ended, self._why = ended, answer["why"]
            plugin.record_run(self._evaluation.evalset, ended)

    def _is_whole(self, case: str) -> bool:
        """Tell whether every repetition of a case has ended; several cases may have the same id."""
        return len(self._attempts.get(case, ())) >= self._evaluation.options.num_runs * self._cases.count(
            case
        )


class SharedRuns:
    """The runs of an evalset that the tests of its cases share."""

    def __init__(self, evaluation: Evaluation) -> None:
        self._evaluation = evaluation
        self._runs: dict[str, BackgroundRun] = {}

    def result(self, case: str, selected: Callable[[], Iterable[str]]) -> CaseResult:
        """Return the result of a case. Unless it runs already, it is started together with the `selected` cases.

        Raises:
            Refused: the run could not start.
            EvalsFailed: the run ended before the case.
        """
        if case not in self._runs:
            together = {case, *selected()} - self._runs.keys()
            cases = [known_case for known_case in self._evaluation.case_ids() if known_case in together]
            run = BackgroundRun(self._evaluation, cases)
            self._runs.update(dict.fromkeys(cases, run))
            run.start()
        return self._runs[case].result(case)

    def where(self, case: str) -> str:
        """Return a line that locates the run of a case."""
        run_id = self._runs[case].run_id
        return f"DevUI run {run_id} in {plugin.store_url()}: /evals/runs/{run_id}/ of `devui web`."


def _sort_attempts(attempts: Sequence[AttemptResult]) -> list[AttemptResult]:
    return sorted(attempts, key=lambda attempt: (attempt.repetition, attempt.id))
