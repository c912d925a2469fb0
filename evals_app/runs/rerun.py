"""Repetition of ended runs: resume a run, retry attempts that did not pass, repeat a run or its suspicious cases.

First outcomes count: attempts that have an outcome are repeated only in runs of their own, which `repeats` the first.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace

from django.db import transaction
from django.db.models import Q, QuerySet

from evals_app.models import CONFIRMATION, RETRY, EvalAttempt, EvalRun
from evals_app.runs import attempt_status
from evals_app.runs.limits import QUOTAS, EvalRunLimits
from evals_app.runs.writes import resumption, runs
from evals_app.variants.variant import read_run_variant
from sessions_app.agents.folder import AgentsFolder, configured_folder
from sessions_app.store.errors import BadInput, DevUIError, NotFound

WAS_IN_FLIGHT = "Its run ended while it was in flight."
WAS_RETRIED = "It was tried again."
MAX_CONFIRMING_REPETITIONS = 100


class EvalRunActive(DevUIError):
    """The eval run has not ended."""

    status = 409
    code = "eval_run_active"


class HasChanged(DevUIError):
    """The agent, its models or ADK changed since the run began, or the agent since its form was opened."""

    status = 409
    code = "eval_run_changed"


def resume(run: EvalRun, agents: AgentsFolder | None = None, *, person: str = "") -> EvalRun:
    """Restart an ended run with its unfinished attempts; return it as pending.

    No attempt that ended is repeated. Attempts that were in flight run again, and show that. Attempts that a person
    cancelled stay cancelled.

    `agents` is the folder of its agent; None: this server's. `person` is the name of the person who resumes it; empty:
    unknown.

    Raises:
        EvalRunActive: the run has not ended.
        BadInput: the run has no unfinished attempts, or another program executed it.
        HasChanged: the agent's code has changed.
    """
    run = reload_run(run.pk)
    _require_resumable(run, agents)
    if not resumption.restart_attempts(run.id, attempt_status.UNFINISHED, WAS_IN_FLIGHT, person):
        raise BadInput(
            "The run has no unfinished attempts.", hint="Repeat the run to execute all attempts again."
        )
    return reload_run(run.pk)


def retry(
    run: EvalRun,
    attempts: Collection[int] = (),
    agents: AgentsFolder | None = None,
    run_id: str = "",
    *,
    person: str = "",
) -> list[EvalRun]:
    """Try attempts of an ended run again; return the pending runs that do so.

    Attempts without an outcome restart in the run itself. The others keep their outcome: a new run tries them again.
    It repeats the first run, also if the run is itself such a retry.

    Args:
        attempts: keys of the attempts to retry, whatever their status; empty: all that did not pass in any try.
        agents: the folder of its agent; None: this server's.
        run_id: id of the new run; empty: it is generated.
        person: name of the person who retries them; empty: unknown.

    Raises:
        EvalRunActive: the run, or a retry of its attempts, has not ended.
        NotFound: an attempt does not belong to the run.
        BadInput: no attempt failed or erred, or another program executed the run.
        HasChanged: the agent's code has changed.
    """
    with transaction.atomic():
        first_run = EvalRun.objects.select_for_update().get(pk=find_first_run_id(run))
        run = reload_run(run.pk)
        _require_resumable(run, agents)
        chosen = _choose_attempts(run, attempts)
        tried = list(chosen.filter(attempt_status.HAS_OUTCOME).order_by("case_index", "repetition"))
        order = _retry_order(reload_run(first_run.pk), tried, person) if tried else None
        retries = []
        if resumption.restart_attempts(run.id, Q(pk__in=chosen.values("pk")), WAS_RETRIED, person):
            retries.append(reload_run(run.pk))
        if order:
            retries.append(runs.create_run(order, run_id))
    if not retries:
        raise BadInput(
            "No attempt of the run failed or erred in all its tries.",
            hint="Repeat the run to execute all attempts again.",
        )
    return retries


def _choose_attempts(run: EvalRun, attempts: Collection[int]) -> QuerySet[EvalAttempt]:
    """Return the requested attempts of a run; of an empty request, all that did not pass in any try.

    Raises:
        NotFound: an attempt does not belong to the run.
    """
    if not attempts:
        return attempt_status.annotate_later_passes(run.attempts.all()).filter(attempt_status.NEVER_PASSED)
    chosen = run.attempts.filter(pk__in=attempts)
    if missing := sorted(set(attempts) - set(chosen.values_list("pk", flat=True))):
        raise NotFound(
            f"Run {run.id} has no attempt {missing[0]}.", hint="The run's page lists its attempts."
        )
    return chosen


def _retry_order(first_run: EvalRun, attempts: Sequence[EvalAttempt], person: str) -> runs.NewEvalRun:
    """Return the order of a run that tries attempts of a run, or of retries of it, again.

    Raises:
        EvalRunActive: another retry of the run has not ended.
    """
    _require_no_active_repeat(first_run, RETRY, "Wait for its end. First outcomes count.")
    cases = {attempt.case_index: attempt.case_id for attempt in attempts}
    repetitions: dict[int, list[int]] = {index: [] for index in cases}
    for attempt in attempts:
        repetitions[attempt.case_index].append(attempt.repetition)
    return replace(
        order_like(first_run, RETRY, person),
        cases=list(cases.items()),
        case_ids=list(dict.fromkeys(cases.values())),
        repetitions=repetitions,
        shard="",
    )


def _require_no_active_repeat(run: EvalRun, source: str, hint: str) -> None:
    """Require that no run of a source that repeats a part of a run is active.

    Raises:
        EvalRunActive: one is.
    """
    if active := run.repeated_by.filter(source=source, status__in=EvalRun.ACTIVE).first():
        raise EvalRunActive(f"Run {active.id} already repeats a part of run {run.id}.", hint=hint)


def find_first_run_id(run: EvalRun) -> str:
    """Return the id of the run whose attempts a run retries; of any other run, its own."""
    return run.repeats_id if run.source == RETRY and run.repeats_id else run.pk


def repeat(run: EvalRun, source: str = "page", run_id: str = "", *, person: str = "") -> EvalRun:
    """Create a run with the evalset version, cases, configuration, numbers, limits, policy and prices of another.

    The current code of the agent runs; both runs show their code version. An empty `run_id` is generated.
    """
    return runs.create_run(order_like(run, source, person), run_id)


def confirm(
    run: EvalRun,
    case_indexes: Collection[int],
    repetitions: int,
    agents: AgentsFolder | None = None,
    run_id: str = "",
    *,
    person: str = "",
) -> EvalRun:
    """Create a run that repeats those cases of an ended run that look worse, to confirm or refute it.

    Args:
        case_indexes: positions of the cases in the evalset.
        repetitions: repetitions of each case, 1 to `MAX_CONFIRMING_REPETITIONS`.
        agents: the folder of its agent; None: this server's.
        run_id: id of the new run; empty: it is generated.
        person: name of the person who orders it; empty: unknown.

    Raises:
        EvalRunActive: the run, or a confirmation of it, has not ended.
        BadInput: there is no such case, the number is out of range, or another program executed the run.
        HasChanged: the agent's code has changed since the run.
    """
    check_confirming_repetitions(repetitions)
    with transaction.atomic():
        EvalRun.objects.select_for_update().get(pk=run.pk)  # of simultaneous confirmations, one is created
        run = reload_run(run.pk)
        _require_resumable(run, agents)
        return runs.create_run(_confirmation_order(run, case_indexes, repetitions, person), run_id)


def _confirmation_order(
    run: EvalRun, case_indexes: Collection[int], repetitions: int, person: str
) -> runs.NewEvalRun:
    """Return the order of a confirmation of a run.

    Raises:
        EvalRunActive: another confirmation of it has not ended.
        BadInput: there is no such case.
    """
    _require_no_active_repeat(
        run, CONFIRMATION, "Wait for its end. Only the first repetitions of a case count."
    )
    order = order_like(run, CONFIRMATION, person)
    cases = [case for case in order.cases if case[0] in set(case_indexes)]
    if not cases:
        raise BadInput(
            f"Run {run.id} has no case that repetitions can decide.",
            hint="They can if a case fell since the baseline, and other earlier runs tell how often it passes.",
        )
    case_ids = [case_id for _, case_id in cases]
    return replace(order, cases=cases, case_ids=case_ids, num_runs=repetitions)


def check_confirming_repetitions(number: int) -> None:
    """Require a valid number of repetitions of a confirmation.

    Raises:
        BadInput: the number is out of range.
    """
    if not 1 <= number <= MAX_CONFIRMING_REPETITIONS:
        raise BadInput(
            f"Repetitions of a confirmation must be 1 to {MAX_CONFIRMING_REPETITIONS}, not {number}.",
            hint="5 are usually enough.",
        )


def order_like(run: EvalRun, source: str, person: str) -> runs.NewEvalRun:
    """Return an order with the contents of a run."""
    cases = run.attempts.order_by("case_index").values_list("case_index", "case_id").distinct()
    return runs.NewEvalRun(
        run.version,
        list(cases),
        config=json.loads(run.config),
        config_source=run.config_source,
        case_ids=json.loads(run.case_ids),
        shard=run.shard,
        num_runs=run.num_runs,
        parallelism=run.parallelism,
        limits=replace(EvalRunLimits.read(run.limits), **dict.fromkeys(QUOTAS)).as_json(),
        policy=json.loads(run.policy),
        prices=json.loads(run.prices),
        warnings=json.loads(run.warnings),
        source=source,
        person=person,
        repeats=run,
        variant=read_run_variant(run),
        variant_of=run.variant_of,
    )


def find_attempt(run: EvalRun, attempt_pk: int) -> EvalAttempt:
    """Return an attempt of a run.

    Raises:
        NotFound: the run has no attempt of this key.
    """
    attempt = run.attempts.filter(pk=attempt_pk).first()
    if attempt is None:
        raise NotFound(
            f"Run {run.id} has no attempt {attempt_pk}.", hint="The run's page lists its attempts."
        )
    return attempt


def reload_run(run_id: str) -> EvalRun:
    """Return the current row of a run."""
    return EvalRun.objects.select_related("evalset", "version").get(pk=run_id)


def _require_resumable(run: EvalRun, agents: AgentsFolder | None) -> None:
    """Require a run that can be resumed, before anything is changed.

    Raises:
        EvalRunActive: the run has not ended.
        BadInput: another program executed it.
        HasChanged: its agent's code has changed; the execution compares ADK and the models, too.
    """
    if run.active:
        raise EvalRunActive(f"Eval run {run.id!r} is {run.status}.", hint="Wait for its end, or cancel it.")
    if run.source == "import":
        raise BadInput("Another program executed the run.", hint="Run its evalset here.")
    folder = agents or configured_folder()
    if folder is None or run.app_name not in folder.names() or not run.code_version:
        return
    now = folder.code_version(run.app_name)
    if now != run.code_version:
        raise HasChanged(
            f"The code of {run.app_name!r} changed from {run.code_version} to {now} since the run started.",
            hint="Start a new run: the attempts of one run must be comparable.",
        )
