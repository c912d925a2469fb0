"""Repetition of ended runs: resume a run, retry attempts that did not pass, repeat a run or its suspicious cases."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace

from django.db import transaction
from django.db.models import Q

from evals_app.models import EvalAttempt, EvalRun
from evals_app.runs import attempt_status
from evals_app.runs.limits import QUOTAS, EvalRunLimits
from evals_app.runs.writes import resumption, runs
from sessions_app.agents.folder import AgentsFolder, configured_folder
from sessions_app.errors import BadInput, DevUIError, NotFound

WAS_IN_FLIGHT = "Its run ended while it was in flight."
WAS_RETRIED = "It was tried again."
CONFIRMATION = "confirm"
"""Source of a run that confirms or refutes that cases of the run it `repeats` became worse."""
MAX_CONFIRMING_REPETITIONS = 100


class EvalRunActive(DevUIError):
    """The eval run has not ended."""

    status = 409
    code = "eval_run_active"


class HasChanged(DevUIError):
    """The agent's code, its models or ADK changed since the run began."""

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
    return _restart_attempts(
        run, attempt_status.UNFINISHED, WAS_IN_FLIGHT, person, "The run has no unfinished attempts."
    )


def retry(
    run: EvalRun, attempts: Collection[int] = (), agents: AgentsFolder | None = None, *, person: str = ""
) -> EvalRun:
    """Restart an ended run with attempts that failed, erred or could not be judged; return it as pending.

    Args:
        attempts: keys of the attempts to retry, whatever their status; empty: all that did not pass.
        agents: the folder of its agent; None: this server's.
        person: name of the person who retries them; empty: unknown.

    Raises:
        EvalRunActive: the run has not ended.
        NotFound: an attempt does not belong to the run.
        BadInput: no attempt failed or erred, or another program executed the run.
        HasChanged: the agent's code has changed.
    """
    run = reload_run(run.pk)
    _require_resumable(run, agents)
    attempt_pks = set(run.attempts.filter(pk__in=attempts).values_list("pk", flat=True))
    if missing := sorted(set(attempts) - attempt_pks):
        raise NotFound(
            f"Run {run.id} has no attempt {missing[0]}.", hint="The run's page lists its attempts."
        )
    which = Q(pk__in=attempts) if attempts else attempt_status.NOT_PASSED
    return _restart_attempts(run, which, WAS_RETRIED, person, "No attempt of the run failed or erred.")


def repeat(run: EvalRun, source: str = "page", run_id: str = "", *, person: str = "") -> EvalRun:
    """Create a run with the evalset version, cases, configuration, numbers, limits, policy and prices of another.

    The current code of the agent runs; both runs show their code version. An empty `run_id` is generated.
    """
    return runs.create_run(_order_like(run, source, person), run_id)


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
) -> runs.NewRun:
    """Return the order of a confirmation of a run.

    Raises:
        EvalRunActive: another confirmation of it has not ended.
        BadInput: there is no such case.
    """
    if active := run.repeated_by.filter(source=CONFIRMATION, status__in=EvalRun.ACTIVE).first():
        raise EvalRunActive(
            f"Run {active.id} already repeats cases of run {run.id}.",
            hint="Wait for its end. Only the first repetitions of a case count.",
        )
    order = _order_like(run, CONFIRMATION, person)
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


def _order_like(run: EvalRun, source: str, person: str) -> runs.NewRun:
    """Return an order with the contents of a run."""
    cases = run.attempts.order_by("case_index").values_list("case_index", "case_id").distinct()
    return runs.NewRun(
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


def _restart_attempts(run: EvalRun, which: Q, reason: str, person: str, none_message: str) -> EvalRun:
    if not resumption.restart_attempts(run.id, which, reason, person):
        raise BadInput(none_message, hint="Repeat the run to execute all attempts again.")
    return reload_run(run.pk)


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
