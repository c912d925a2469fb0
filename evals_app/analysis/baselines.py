"""Comparison of a run with earlier ones: finds what it is compared with, and judges each case. Read-only."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from django.conf import settings
from django.db.models import Avg, Exists, OuterRef, QuerySet

from evals_app.analysis import agent_changes, comparison
from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.comparability import VersionCase, read_cases
from evals_app.analysis.comparison import MAX_UNAVAILABLE, Comparison, RunDifference
from evals_app.analysis.outcomes import CaseKey, Outcomes, PastRun
from evals_app.analysis.run_differences import read_currency, read_differences
from evals_app.analysis.score_changes import ScoresByMetric, compare_scores
from evals_app.analysis.stored_outcomes import (
    EarlierRuns,
    find_added_metric_failures,
    find_other_basis,
    read_outcomes,
    read_past_runs,
)
from evals_app.analysis.whole_run import DEFAULT_LEVEL
from evals_app.models import (
    CONFIRMATION,
    COUNTS_IN_HISTORY,
    REPEAT_SOURCES,
    RETRY,
    EvalAttempt,
    EvalRun,
    MetricResult,
)
from evals_app.runs.attempt_status import HAS_OUTCOME
from evals_app.runs.variant_orders import count_variants
from sessions_app.store.errors import BadInput, NotFound

MAX_EARLIER_RUNS = 40
"""Number of earlier runs that are looked at. With so many, one repetition can prove that a solid case fell."""
RUNS_OFFERED = 100

MARKED_BASELINE, PREVIOUS_RUNS = "baseline", "previous"
"""Names of what a run is compared with: the marked run, or case by case the newest comparable outcome."""

ALL_CASES = "[]"
"""Chosen cases of a run of all cases, as the column has them."""
COMMAND = "command"
"""Source of runs of the command line and of CI."""


@dataclass(frozen=True)
class Reference:
    """Earlier outcomes that a run is compared with, and the runs they are from.

    Attributes:
        name: as it was asked for: `baseline`, `previous`, or the id of a run.
        runs: the runs that the outcomes are from, those of most cases first; never empty.
        outcomes: by case.
        earlier: the earlier runs of the run's kind, which are its history.
    """

    name: str
    runs: Sequence[EvalRun]
    outcomes: Mapping[CaseKey, Outcomes]
    earlier: EarlierRuns

    @property
    def run(self) -> EvalRun:
        """The run of most cases."""
        return self.runs[0]

    def find_run(self, key: CaseKey) -> EvalRun:
        """Return the run that the outcomes of a case are from."""
        outcomes = self.outcomes.get(key)
        return next((run for run in self.runs if outcomes and run.pk == outcomes.run), self.run)


def find_marked_run(run: EvalRun) -> EvalRun | None:
    """Return the marked baseline of a run's evalset, or None: a run is none of itself, and retries are not compared."""
    if run.source == RETRY:
        return None
    runs = EvalRun.objects.select_related("version", "evalset")
    return runs.filter(evalset=run.evalset, baseline=True).exclude(pk=run.pk).first()


def find_reference(run: EvalRun, name: str = "") -> Reference | None:
    """Return what a run is compared with: the run of a name, else the baseline, else the previous runs; None: nothing.

    Raises:
        NotFound, BadInput: see `require_reference`.
    """
    if name:
        return require_reference(run, name)
    if marked_run := find_marked_run(run):
        return refer_to_run(marked_run, run, MARKED_BASELINE)
    return _find_previous(run)


def require_reference(run: EvalRun, name: str) -> Reference:
    """Return what a run is compared with.

    Args:
        name: a run's id or its beginning, `baseline` (the marked one) or `previous` (of each case the newest comparable
            outcome).

    Raises:
        NotFound: there is none.
        BadInput: the beginning is that of several runs.
    """
    if name == PREVIOUS_RUNS:
        if reference := _find_previous(run):
            return reference
        raise _no_previous_run(run)
    return refer_to_run(_find_run(run, name), run, name)


def check_reference(run: EvalRun, name: str) -> None:
    """Require what a future run is to be compared with.

    Raises:
        NotFound, BadInput: see `require_reference`.
    """
    if name != PREVIOUS_RUNS:
        _find_run(run, name)
    elif not _list_earlier_runs(run):
        raise _no_previous_run(run)


def _no_previous_run(run: EvalRun) -> NotFound:
    kind = "of the command line or CI " if run.source == COMMAND else ""
    return NotFound(
        f"{run.evalset.evalset_id}: there is no earlier run {kind}that came to outcomes.",
        hint="Run the whole evalset once, or name a run by its id.",
    )


def _find_run(run: EvalRun, name: str) -> EvalRun:
    if name == MARKED_BASELINE:
        if marked_run := find_marked_run(run):
            return marked_run
        raise NotFound(
            f"{run.evalset.evalset_id}: no run is marked as baseline.",
            hint="Mark one on its page (Make baseline), or name a run by its id.",
        )
    runs = EvalRun.objects.select_related("version", "evalset").exclude(pk=run.pk)
    could_be_id = bool(name) and name.isascii() and name.isprintable()  # a store refuses NUL and surrogates
    matching_runs = list(runs.filter(pk__startswith=name)[:2]) if could_be_id else []
    if len(matching_runs) > 1:
        raise BadInput(f"Several runs begin with {name!r}.", hint="Give more of the id.")
    if not matching_runs or matching_runs[0].evalset_id != run.evalset_id:
        owner = matching_runs[0].evalset if matching_runs else None
        belongs = f": it belongs to {owner.app_name}/{owner.evalset_id}" if owner else ""
        raise NotFound(
            f"{run.evalset.evalset_id} has no other run {name!r}{belongs}.",
            hint="The evalset's page lists its runs.",
        )
    if matching_runs[0].source == RETRY:
        raise BadInput(
            f"Run {matching_runs[0].pk} retries what failed in another run: its outcomes are no baseline.",
            hint=f"Compare with the first run, {matching_runs[0].repeats_id}.",
        )
    return matching_runs[0]


def refer_to_run(baseline_run: EvalRun, run: EvalRun, name: str = "") -> Reference:
    """Return one run as what another is compared with.

    Raises:
        BadInput: they are runs of two evalsets.
    """
    if baseline_run.evalset_id != run.evalset_id:
        raise BadInput("These are runs of two evalsets.", hint="Compare runs of one evalset.")
    earlier = EarlierRuns(_list_earlier_runs(run), run)
    return Reference(name or baseline_run.pk, [baseline_run], read_outcomes(baseline_run, run), earlier)


def _find_previous(run: EvalRun) -> Reference | None:
    """Return for each case of a run the newest comparable outcome of earlier runs of its kind; None without runs.

    A case without one gets what the newest run says of it, which then names the reason.
    """
    runs = _list_earlier_runs(run)
    if not runs:
        return None
    earlier = EarlierRuns(runs, run)
    usable_runs = [candidate for candidate in runs if not earlier.is_lossy(candidate, MAX_UNAVAILABLE)]
    chosen = {
        case.key: _newest_comparable(earlier, usable_runs, case, run) or runs[0]
        for case in read_cases(run.version)
    }
    frequencies = Counter(candidate.pk for candidate in chosen.values())
    used_runs = [candidate for candidate in runs if candidate.pk in frequencies] or [runs[0]]
    used_runs.sort(key=lambda candidate: -frequencies[candidate.pk])
    by_run = {candidate.pk: read_outcomes(candidate, run) for candidate in used_runs}
    outcomes = dict(by_run.get(runs[0].pk) or read_outcomes(runs[0], run))
    for key, candidate in chosen.items():
        if key in by_run[candidate.pk]:
            outcomes[key] = by_run[candidate.pk][key]
    return Reference(PREVIOUS_RUNS, used_runs, outcomes, earlier)


def _newest_comparable(
    earlier: EarlierRuns, runs: Sequence[EvalRun], case: VersionCase, run: EvalRun
) -> EvalRun | None:
    """Return the newest of the runs whose outcomes of a case can be compared, or None.

    A run that was judged by all metrics of the later run precedes newer ones that were judged by some of them.
    """
    for candidate in runs:
        if earlier.count_outcomes(candidate, case.key, case.digest):
            return candidate
    for candidate in runs:
        basis = find_other_basis(candidate, run)
        if earlier.count_outcomes(candidate, case.key, case.digest, basis):
            return candidate
    return None


def _list_earlier_runs(run: EvalRun) -> list[EvalRun]:
    """Return the runs of a run's kind that came to outcomes before it was made, the newest first.

    Runs of the command line, which CI uses, are compared with runs of the command line, those of all cases with runs of
    all cases: a run of a page or of a test suite, or of a few cases, is compared with only if it is named. Runs of
    variants are compared with runs of the agent as it is.
    """
    has_outcomes = Exists(EvalAttempt.objects.filter(HAS_OUTCOME, run=OuterRef("pk")))
    runs = _other_runs(run).filter(has_outcomes, COUNTS_IN_HISTORY, created_at__lt=run.created_at)
    if run.source == COMMAND:
        runs = runs.filter(source=COMMAND, shard="")
        if run.case_ids == ALL_CASES:
            runs = runs.filter(case_ids=ALL_CASES)
    return list(runs.defer("traceback", "version__content")[:MAX_EARLIER_RUNS])


def list_comparable_runs(run: EvalRun) -> list[EvalRun]:
    """Return the runs that a run can be compared with, the newest first."""
    return list(_other_runs(run).defer("traceback", "config")[:RUNS_OFFERED])


def _other_runs(run: EvalRun) -> QuerySet[EvalRun]:
    ended = EvalRun.objects.select_related("version", "evalset").exclude(status__in=EvalRun.ACTIVE)
    ended = ended.exclude(source__in=REPEAT_SOURCES)
    return ended.filter(evalset=run.evalset).exclude(pk=run.pk).order_by("-created_at")


def compare_runs(baseline_run: EvalRun, run: EvalRun) -> Comparison:
    """Compare a run with another one of its evalset, with the evidence of the stored history.

    Raises:
        BadInput: they are runs of two evalsets.
    """
    return compare_with(refer_to_run(baseline_run, run), run)


def compare_with(reference: Reference, run: EvalRun) -> Comparison:
    """Compare a run with what it is compared with, and with the evidence of the stored history.

    Variants of one run share the chance that any of them is called worse or better although it is not.
    """
    variant_count = count_variants(run)
    before, after = dict(reference.outcomes), _explain_added_metrics(reference, run, read_outcomes(run))
    _remove_cases_that_did_not_run(before, after)
    result = comparison.compare(
        before,
        after,
        read_history(run, after, reference),
        fresh=_read_fresh_outcomes(run, after),
        level=read_level() / variant_count,
        one_currency=has_one_currency(reference, run),
    )
    result = replace(result, variant_count=variant_count)
    if result.whole.refusal:
        return result
    comparable = {case.key for case in result.cases if case.is_comparable}
    before_scores = _read_reference_scores(reference, comparable)
    scores = compare_scores(before_scores, _read_mean_scores(run, comparable), read_level() / variant_count)
    result = replace(result, scores=scores)
    return replace(result, agent_differences=_find_agent_differences(reference, run, result))


def _remove_cases_that_did_not_run(before: dict[CaseKey, Outcomes], after: dict[CaseKey, Outcomes]) -> None:
    """Remove the cases that ran on neither side: a run may choose among the cases."""
    for key in {*before, *after}:
        if not any(key in side and side[key].ran for side in (before, after)):
            before.pop(key, None)
            after.pop(key, None)


def has_one_currency(reference: Reference, run: EvalRun) -> bool:
    """Tell whether the costs of a run and of those that it is compared with are in the same currency."""
    return len({read_currency(priced_run) for priced_run in (*reference.runs, run)}) == 1


def _find_agent_differences(
    reference: Reference, run: EvalRun, result: Comparison
) -> list[RunDifference] | None:
    """Return what differs of the agent, also in its recorded requests; None if nothing is worse."""
    if not result.is_worse:
        return None
    differences = [
        difference for difference in read_differences(reference.run, run) if difference.is_of_agent
    ]
    if changed_agents := agent_changes.read_agent_changes(result).changes:
        names = ", ".join(change.agent for change in changed_agents)
        differences.append(
            RunDifference("requests", names, "other instruction, tools or settings", is_of_agent=True)
        )
    return differences


def _explain_added_metrics(
    reference: Reference, run: EvalRun, outcomes: dict[CaseKey, Outcomes]
) -> dict[CaseKey, Outcomes]:
    """Return outcomes with the reason of those that only a metric fails by which the run before was not judged."""
    for earlier_run in reference.runs:
        basis = find_other_basis(earlier_run, run)
        if basis is None:
            continue
        for key, metric in find_added_metric_failures(run, basis).items():
            if reference.find_run(key).pk == earlier_run.pk:
                reason = f"It fails only {metric}, by which the earlier run was not judged."
                outcomes[key] = replace(outcomes[key], incomparable=reason)
    return outcomes


def cases_to_confirm(reference: Reference, run: EvalRun) -> list[int]:
    """Return the positions of the cases of a run that fell since its baseline and that repetitions can decide."""
    keys = {case.key for case in compare_with(reference, run).to_confirm}
    return [index for index, case in enumerate(read_cases(run.version)) if case.key in keys]


def read_level() -> float:
    """Return the setting `DEVUI_EVAL_LEVEL`: the chance that an unchanged agent is called worse."""
    return getattr(settings, "DEVUI_EVAL_LEVEL", DEFAULT_LEVEL)


def _read_fresh_outcomes(run: EvalRun, judged: Mapping[CaseKey, Outcomes]) -> dict[CaseKey, Outcomes] | None:
    """Return the outcomes of confirmations: repetitions of cases that looked worse in a run. None without any.

    If a case was confirmed several times, the first confirmation counts: to repeat until it passes proves nothing.
    """
    confirmations = run.repeated_by.filter(source=CONFIRMATION).exclude(status__in=EvalRun.ACTIVE)
    outcomes: dict[CaseKey, Outcomes] = {}
    for confirmation in confirmations.select_related("version").order_by("created_at"):
        for key, fresh in read_outcomes(confirmation).items():
            if fresh.outcome_count and key in judged and fresh.same == judged[key].same:
                outcomes.setdefault(key, fresh)
    return outcomes or None


def _read_reference_scores(reference: Reference, keys: Collection[CaseKey]) -> ScoresByMetric:
    """Return the mean scores of cases by metric, each of the run that the case is compared with."""
    scores: dict[str, dict[CaseKey, float]] = defaultdict(dict)
    for earlier_run in reference.runs:
        keys_of_run = {key for key in keys if reference.find_run(key).pk == earlier_run.pk}
        for metric, by_case in _read_mean_scores(earlier_run, keys_of_run).items():
            scores[metric].update(by_case)
    return scores


def _read_mean_scores(run: EvalRun, keys: Collection[CaseKey]) -> ScoresByMetric:
    """Return the mean scores of a run's cases by metric, without metrics that only measure."""
    rows = MetricResult.objects.filter(attempt__run=run, invocation=None, score__isnull=False)
    means = (
        rows.exclude(status=MetricResult.Status.INFORMATIONAL)
        .values_list("metric", "attempt__case_index")
        .annotate(mean=Avg("score"))
        .order_by("metric", "attempt__case_index")
    )
    cases = read_cases(run.version)
    scores: dict[str, dict[CaseKey, float]] = defaultdict(dict)
    for metric, index, mean in means:
        if cases[index].key in keys:
            scores[metric][cases[index].key] = mean
    return scores


def read_history(
    run: EvalRun, cases: Mapping[CaseKey, Outcomes], reference: Reference
) -> dict[CaseKey, list[PastRun]]:
    """Return the outcomes of cases in earlier runs, beside those that they are compared with, the newest first.

    Runs that are newer than the baseline of a case count only if they ran its code, models and ADK: others are
    experiments.

    Args:
        cases: the cases of the run, with what they share with comparable ones.
    """
    bases = {earlier_run.pk: find_other_basis(earlier_run, run) for earlier_run in reference.runs}
    history = {}
    for key, outcomes in cases.items():
        baseline_run = reference.find_run(key)
        past_runs = _select_past_runs(reference.earlier.runs, baseline_run)
        basis = bases[baseline_run.pk]
        history[key] = read_past_runs(reference.earlier, past_runs, key, outcomes.same.data, basis)
    return history


def _select_past_runs(runs: Sequence[EvalRun], baseline_run: EvalRun) -> Iterator[EvalRun]:
    for earlier_run in runs:
        is_older = earlier_run.created_at < baseline_run.created_at
        if earlier_run.pk != baseline_run.pk and (is_older or _is_same_agent(earlier_run, baseline_run)):
            yield earlier_run


def _is_same_agent(run: EvalRun, other: EvalRun) -> bool:
    columns = ("code_version", "variant_hash", "agent_models", "policy", "adk_version")
    return bool(run.code_version) and all(getattr(run, name) == getattr(other, name) for name in columns)


def read_past_outcomes(run: EvalRun, case: VersionCase) -> list[PastRun]:
    """Return the outcomes of a case in the newest runs of the agent, the newest first."""
    runs = EvalRun.objects.select_related("version").filter(evalset=run.evalset)
    ended = runs.filter(COUNTS_IN_HISTORY).order_by("-created_at").defer("traceback", "version__content")
    newest_runs = list(ended[:MAX_EARLIER_RUNS])
    return read_past_runs(EarlierRuns(newest_runs, run), newest_runs, case.key, case.digest, None)


def map_changes_to_positions(run: EvalRun, result: Comparison) -> dict[int, CaseChange]:
    """Return what a comparison says of the cases of its later run, by their position in its evalset."""
    changes = {case.key: case for case in result.cases}
    return {
        index: changes[case.key] for index, case in enumerate(read_cases(run.version)) if case.key in changes
    }
