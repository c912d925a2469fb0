"""Comparison of runs with their baseline: finds the baseline run and judges each case. Read-only."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import sha256
from typing import Any

from django.conf import settings
from django.db.models import Avg, Count, Exists, OuterRef, Q, QuerySet

from evals_app.analysis import comparison
from evals_app.analysis.case_verdicts import CaseChange
from evals_app.analysis.comparison import Comparison
from evals_app.analysis.outcomes import CaseKey, Outcomes, Past, Sameness
from evals_app.analysis.score_changes import ScoresByMetric, compare_scores
from evals_app.cases import version_contents
from evals_app.files.tags import TAGS
from evals_app.metrics.gate_config import GATE
from evals_app.models import (
    CONFIRMATION,
    REPEAT_SOURCES,
    RETRY,
    EvalAttempt,
    EvalRun,
    EvalSetVersion,
    MetricResult,
)
from evals_app.runs.attempt_status import HAS_OUTCOME, NO_OUTCOME_TYPES, has_outcome
from sessions_app import prices
from sessions_app.errors import BadInput, NotFound

Status = EvalAttempt.Status
RUNS_OF_HISTORY = 20
"""Number of earlier runs whose outcomes count as history."""
RUNS_OFFERED = 100


def baseline_of(run: EvalRun) -> EvalRun | None:
    """Return the baseline of a run's evalset, or None; a run is no baseline of itself, and retries are not compared."""
    if run.source == RETRY:
        return None
    runs = EvalRun.objects.select_related("version", "evalset")
    return runs.filter(evalset=run.evalset, baseline=True).exclude(pk=run.pk).first()


def before(run: EvalRun) -> EvalRun | None:
    """Return the newest run of the evalset that came to outcomes before this one was made, or None."""
    came_to_any = Exists(EvalAttempt.objects.filter(HAS_OUTCOME, run=OuterRef("pk")))
    return _others(run).filter(came_to_any, created_at__lt=run.created_at).first()


def find_baseline(run: EvalRun, name: str) -> EvalRun:
    """Return what a run is to be held to.

    Args:
        name: a run's id or its beginning, `baseline` (the marked one) or `previous` (the run before).

    Raises:
        NotFound: there is none.
        BadInput: the beginning is that of several runs.
    """
    if name in {"baseline", "previous"}:
        baseline = baseline_of(run) if name == "baseline" else before(run)
        if baseline is None:
            message, instead = (
                ("no run is marked as baseline", "Mark one on its page (Make baseline)")
                if name == "baseline"
                else ("there is no run before this one that came to outcomes", "Run the evalset once")
            )
            raise NotFound(
                f"{run.evalset.evalset_id}: {message}.", hint=f"{instead}, or name a run by its id."
            )
        return baseline
    runs = EvalRun.objects.select_related("version", "evalset").filter(evalset=run.evalset).exclude(pk=run.pk)
    could_be_id = bool(name) and name.isascii() and name.isprintable()  # a store refuses NUL and surrogates
    matching_runs = list(runs.filter(pk__startswith=name)[:2]) if could_be_id else []
    if not matching_runs:
        raise NotFound(
            f"{run.evalset.evalset_id} has no other run {name!r}.", hint="The evalset's page lists its runs."
        )
    if len(matching_runs) > 1:
        raise BadInput(f"Several runs begin with {name!r}.", hint="Give more of the id.")
    return matching_runs[0]


def comparable_runs(run: EvalRun) -> list[EvalRun]:
    """Return the runs that a run can be compared with, the newest first."""
    return list(_others(run).defer("traceback", "config")[:RUNS_OFFERED])


def _others(run: EvalRun) -> QuerySet[EvalRun]:
    ended = EvalRun.objects.select_related("version", "evalset").exclude(status__in=EvalRun.ACTIVE)
    ended = ended.exclude(source__in=REPEAT_SOURCES)
    return ended.filter(evalset=run.evalset).exclude(pk=run.pk).order_by("-created_at")


def compare_runs(then: EvalRun, now: EvalRun) -> Comparison:
    """Compare a run with another one of its evalset, with the evidence of the stored history.

    Raises:
        BadInput: they are runs of two evalsets.
    """
    if then.evalset_id != now.evalset_id:
        raise BadInput("These are runs of two evalsets.", hint="Compare runs of one evalset.")
    earlier, later = outcomes_of(then), outcomes_of(now)
    for side, other in ((earlier, later), (later, earlier)):
        for key in [key for key, outcomes in side.items() if not outcomes.ran and not _ran(other.get(key))]:
            del side[key]
    result = comparison.compare(
        earlier,
        later,
        history(now, {key: outcomes.same for key, outcomes in later.items()}, then=then),
        fresh=_fresh_outcomes(now, later),
        level=level(),
        one_currency=currency_of(then) == currency_of(now),
    )
    if result.whole.refusal:
        return result
    comparable = {case.key for case in result.cases if case.is_comparable}
    scores = compare_scores(scores_of(then, comparable), scores_of(now, comparable), level())
    return replace(result, scores=scores)


def cases_to_confirm(then: EvalRun, now: EvalRun) -> list[int]:
    """Return the positions of the cases of a run that fell since a baseline and that repetitions can decide."""
    keys = {case.key for case in compare_runs(then, now).to_confirm}
    return [index for index, case in enumerate(cases_of(now.version)) if case.key in keys]


def level() -> float:
    """Return the setting `DEVUI_EVAL_LEVEL`: the chance that an unchanged agent is called worse."""
    return getattr(settings, "DEVUI_EVAL_LEVEL", comparison.DEFAULT_LEVEL)


def _fresh_outcomes(run: EvalRun, judged: Mapping[CaseKey, Outcomes]) -> dict[CaseKey, Outcomes] | None:
    """Return the outcomes of confirmations: repetitions of cases that looked worse in a run. None without any.

    If a case was confirmed several times, the first confirmation counts: to repeat until it passes proves nothing.
    """
    confirmations = run.repeated_by.filter(source=CONFIRMATION).exclude(status__in=EvalRun.ACTIVE)
    outcomes: dict[CaseKey, Outcomes] = {}
    for confirmation in confirmations.select_related("version").order_by("created_at"):
        for key, fresh in outcomes_of(confirmation).items():
            if fresh.outcome_count and key in judged and fresh.same == judged[key].same:
                outcomes.setdefault(key, fresh)
    return outcomes or None


def scores_of(run: EvalRun, keys: Collection[CaseKey]) -> ScoresByMetric:
    """Return the mean scores of a run's cases by metric, without metrics that only measure."""
    rows = MetricResult.objects.filter(attempt__run=run, invocation=None, score__isnull=False)
    means = (
        rows.exclude(status=MetricResult.Status.INFORMATIONAL)
        .values_list("metric", "attempt__case_index")
        .annotate(mean=Avg("score"))
        .order_by("metric", "attempt__case_index")
    )
    cases = cases_of(run.version)
    scores: dict[str, dict[CaseKey, float]] = defaultdict(dict)
    for metric, index, mean in means:
        if cases[index].key in keys:
            scores[metric][cases[index].key] = mean
    return scores


def _ran(outcomes: Outcomes | None) -> bool:
    return outcomes is not None and outcomes.ran


@dataclass(frozen=True)
class _Case:
    """A case of a version: what names it, and a digest of what it says."""

    key: CaseKey
    digest: str


def cases_of(version: EvalSetVersion) -> Sequence[_Case]:
    """Return the cases of a version in the order of its file."""
    return _cases(version.pk, version.digest)


@lru_cache(maxsize=128)
def _cases(pk: int, digest: str) -> Sequence[_Case]:
    """Return the cases of a version, which never changes; the digest tells stores apart."""
    positions: Counter[str] = Counter()
    cases = []
    for case in version_contents.read_cases(pk, digest):
        positions[case["eval_id"]] += 1
        cases.append(
            _Case(CaseKey(case["eval_id"], positions[case["eval_id"]]), _digest(_comparable_case(case)))
        )
    return cases


def _comparable_case(value: Any) -> Any:
    """Return a case without what judges and agents never see: times of creation, ids of turns, and empty fields."""
    if isinstance(value, Mapping):
        fields = {name: _comparable_case(item) for name, item in value.items() if name not in _UNSEEN}
        return {name: field for name, field in fields.items() if field not in (None, [], {})}
    return [_comparable_case(item) for item in value] if isinstance(value, list) else value


_UNSEEN = {"creation_timestamp", "invocation_id", TAGS}


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True).encode(errors="replace")).hexdigest()[:16]


def sameness_of(run: EvalRun, data: str) -> Sameness:
    """Return what an outcome of a case (by its digest) must share with this run's to be a repetition of it."""
    return Sameness(
        code=run.code_version or f"unknown of {run.pk}",
        models=_ran_on(run.agent_models, run.policy, run.adk_version),
        data=data,
        judged_by=_judged_by(run.config),
    )


@lru_cache(maxsize=256)
def _ran_on(models: str, policy: str, adk_version: str) -> str:
    """Return a digest of what answered: models, what was replayed of them, and ADK around them."""
    return _digest([json.loads(models), json.loads(policy), adk_version])


@lru_cache(maxsize=256)
def _judged_by(config: str) -> str:
    """Return a digest of a configuration; a bare threshold and a criterion of only that are the same."""
    config_data = json.loads(config)
    config_data.pop(GATE, None)
    criteria = {
        name: criterion if isinstance(criterion, Mapping) else {"threshold": criterion}
        for name, criterion in (config_data.get("criteria") or {}).items()
    }
    return _digest({**config_data, "criteria": criteria})


_COLUMNS = (
    *("id", "run_id", "case_index", "status", "error_type", "session_id", "total_tokens"),
    *("cost", "started_at", "finished_at", "waited_seconds"),
)
"""Columns of an attempt that are read; a run may have thousands of attempts."""


def outcomes_of(run: EvalRun) -> dict[CaseKey, Outcomes]:
    """Return the outcomes of each case of a run's version; those that it did not run are there without one."""
    rows: dict[int, list[EvalAttempt]] = defaultdict(list)
    for row in run.attempts.order_by("case_index", "repetition").only(*_COLUMNS):
        rows[row.case_index].append(row)
    return {
        case.key: _outcomes(sameness_of(run, case.digest), rows[index])
        for index, case in enumerate(cases_of(run.version))
    }


def _outcomes(same: Sameness, attempts: Sequence[EvalAttempt]) -> Outcomes:
    passed = [attempt for attempt in attempts if attempt.status == Status.PASSED]
    judged = [attempt for attempt in attempts if has_outcome(attempt.status, attempt.error_type)]
    failed = [attempt for attempt in judged if attempt.status != Status.PASSED]
    attempt_to_open = next(iter(failed or passed or attempts), None)
    return Outcomes(
        same=same,
        passed=len(passed),
        failed=len(failed),
        unjudged=len(attempts) - len(judged),
        unavailable=sum(attempt.error_type in NO_OUTCOME_TYPES for attempt in attempts),
        attempt=attempt_to_open.pk if attempt_to_open else None,
        session=attempt_to_open.session_id if attempt_to_open else None,
        tokens=_mean(attempt.total_tokens or None for attempt in judged),
        seconds=_mean(attempt.active_seconds for attempt in judged),
        cost=_mean(attempt.cost if attempt.total_tokens else None for attempt in judged),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of values; None when one is not known, or there are none."""
    all_values = list(values)
    known_values = [value for value in all_values if value is not None]
    return (
        sum(known_values) / len(known_values)
        if known_values and len(known_values) == len(all_values)
        else None
    )


def history(
    run: EvalRun, same: Mapping[CaseKey, Sameness], *, then: EvalRun | None = None
) -> dict[CaseKey, list[Past]]:
    """Return stored outcomes of cases, on the same data and by the same judges, by code and models, the newest first.

    Looks at the newest `RUNS_OF_HISTORY` runs of the evalset.

    Args:
        same: the cases, with the data and judges that count.
        then: the baseline that the run is compared with. If given, only runs before the run count; of those after the
            baseline only the ones with its code and models, because others are experiments.
    """
    if not same:
        return {}
    runs = _runs_of_history(run, then)
    judged = EvalAttempt.objects.filter(HAS_OUTCOME, run__in=list(runs))
    by_case = judged.values_list("run_id", "case_index").annotate(
        passed=Count("pk", filter=Q(status=Status.PASSED)), all=Count("pk")
    )
    age = {pk: place for place, pk in enumerate(runs)}
    groups: dict[CaseKey, dict[Sameness, Past]] = defaultdict(dict)
    for run_id, index, passed, total in sorted(by_case, key=lambda row: age[row[0]]):
        case = cases_of(runs[run_id].version)[index]
        now, version = same.get(case.key), sameness_of(runs[run_id], case.digest)
        if now is None or (now.data, now.judged_by) != (version.data, version.judged_by):
            continue
        past = groups[case.key].get(version, Past(version, 0, 0, 0))
        failed = past.failed + total - passed
        groups[case.key][version] = Past(version, past.passed + passed, failed, past.runs + 1)
    return {key: list(pasts.values()) for key, pasts in groups.items()}


def _runs_of_history(run: EvalRun, then: EvalRun | None) -> dict[str, EvalRun]:
    """Return the runs whose outcomes count as history, the newest first."""
    runs = EvalRun.objects.select_related("version").filter(evalset=run.evalset).order_by("-created_at")
    runs = runs.exclude(source=RETRY)
    if then is not None:
        like_baseline = Q(
            code_version=then.code_version,
            agent_models=then.agent_models,
            policy=then.policy,
            adk_version=then.adk_version,
        )
        runs = runs.filter(created_at__lt=run.created_at).exclude(pk__in=(run.pk, then.pk))
        runs = runs.filter(Q(created_at__lt=then.created_at) | (like_baseline & ~Q(code_version="")))
    return {earlier.pk: earlier for earlier in runs.defer("traceback", "version__content")[:RUNS_OF_HISTORY]}


def changes_by_index(run: EvalRun, comparison: Comparison) -> dict[int, CaseChange]:
    """Return what a comparison says of the cases of its later run, by their place in its evalset."""
    changes = {case.key: case for case in comparison.cases}
    places = enumerate(cases_of(run.version))
    return {index: changes[case.key] for index, case in places if case.key in changes}


@dataclass(frozen=True)
class Difference:
    """Something in which two runs differ, as people name it."""

    what: str
    before: str
    after: str


def what_changed(then: EvalRun, now: EvalRun) -> list[Difference]:
    """Return in what two runs differ besides their outcomes: code, models, data, judges, ADK, repetitions."""
    facts = zip(_facts(then), _facts(now), strict=True)
    return [Difference(what, before, after) for (what, before), (_, after) in facts if before != after]


def currency_of(run: EvalRun) -> str:
    """Return the currency of a run's costs."""
    return prices.prices_from_json(json.loads(run.prices)).currency


def _priced_by(run: EvalRun) -> str:
    """Return the currency of a run's prices with a digest of them, wherever their file was."""
    price_entries = json.loads(run.prices).get("price")
    return f"{currency_of(run)} {_digest(price_entries)[:6]}" if price_entries else "nothing"


def _facts(run: EvalRun) -> list[tuple[str, str]]:
    models = json.loads(run.agent_models)
    return [
        ("code", run.code_version[:10] or "unknown"),
        ("commit", run.git_revision[:10] or "unknown"),
        ("models", ", ".join(sorted({str(model) for model in models.values()})) or "unknown"),
        ("evalset", run.version.digest[:10]),
        ("judged by", f"{run.config_source} {_judged_by(run.config)[:6]}".strip()),
        ("google-adk", run.adk_version or "unknown"),
        ("repetitions", str(run.num_runs)),
        ("prices", _priced_by(run)),
        (
            "replayed",
            ", ".join(f"{name}: {how}" for name, how in json.loads(run.policy).items()) or "nothing",
        ),
    ]
