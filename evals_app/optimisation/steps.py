"""Writes of an optimisation from its start to its end: its steps, the runs that score candidates, the comparison."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from django.db import transaction

from evals_app.models import OPTIMISATION, EvalRun, EvalSet, EvalSetVersion, Optimisation, OptimisationStep
from evals_app.optimisation.evaluations import read_evaluation_data, read_scores
from evals_app.optimisation.settings import OptimiserSettings
from evals_app.optimisation.spending import list_run_ids
from evals_app.runs import rerun
from evals_app.runs.attempt_status import HAS_OUTCOME
from evals_app.runs.limits import QUOTAS, EvalRunLimits
from evals_app.runs.variant_orders import order_variants
from evals_app.runs.writes import runs
from evals_app.variants.variant import Variant
from sessions_app.agent_processes import processes
from sessions_app.agents.folder import AgentsFolder
from sessions_app.prices import current_prices
from sessions_app.prices.costs import usages_cost
from sessions_app.quotas.quota_enforcement import add_usage
from sessions_app.store import scopes
from sessions_app.store.database import change_notification
from sessions_app.store.errors import DevUIError, NotFound
from sessions_app.store.events.call_usage import recorded_call_usage
from sessions_app.store.models import ModelCall

Kind = OptimisationStep.Kind
Status = Optimisation.Status

RUN_COLUMNS = ("config", "config_source", "parallelism", "limits", "policy", "prices", "warnings")
"""Fields of `NewEvalRun` that all runs of an optimisation share."""

LISTED = 20
"""Newest optimisations of an evalset that are listed."""

MAX_TEXT = 100_000
"""Most characters of a prompt, and of an instruction that the optimiser's model writes."""


class OptimisationActive(DevUIError):
    """The optimisation has not ended."""

    status = 409
    code = "optimisation_active"


class OptimisationEnded(DevUIError):
    """The optimisation is done and cannot be resumed."""

    status = 409
    code = "optimisation_ended"


class AgentChanged(DevUIError):
    """The agent changed since the optimisation began."""

    status = 409
    code = "optimisation_changed"


@dataclass(frozen=True)
class OptimisedAgent:
    """The agent that is optimised: the name and the instruction of its root, and the hash of its files."""

    name: str
    instruction: str
    code_version: str


@dataclass(frozen=True)
class NextStep:
    """The next request of an optimiser that has no stored result, or the end of its search.

    Attributes:
        position: number of steps before it.
        kind: one of the constants of this class.
        instruction: of the candidate to evaluate, or of the best one.
        example_set: train or validation, as in ADK.
        case_ids: the cases of the batch.
        with_data: the optimiser's model reads what happened in the attempts.
    """

    EVALUATION: ClassVar = "evaluation"
    ANSWERED: ClassVar = "answered"  # its model has answered, and the answer is stored
    OVER_LIMIT: ClassVar = "over_limit"  # its model may not be called again
    BEST: ClassVar = "best"  # the search has ended

    position: int
    kind: str
    instruction: str = ""
    example_set: str = ""
    case_ids: Sequence[str] = ()
    with_data: bool = False


def create_optimisation(
    run: runs.NewEvalRun, settings: OptimiserSettings, agent: OptimisedAgent, *, source: str, person: str = ""
) -> Optimisation:
    """Create a running optimisation of this process. Its runs are like `run`, but for their cases."""
    with transaction.atomic():
        optimisation = Optimisation.objects.create(
            id=uuid.uuid4().hex,
            evalset=run.version.evalset,
            version=run.version,
            agent=agent.name,
            instruction=scopes.clean_text(agent.instruction),
            code_version=agent.code_version,
            settings=settings.as_json(),
            run_order=scopes.dumps({name: getattr(run, name) for name in RUN_COLUMNS}),
            source=source,
            person=person,
            runtime_id=processes.own_id(),
            created_at=time.time(),
        )
        change_notification.notify_after_commit()
    return optimisation


def find_optimisation(optimisation_id: str) -> Optimisation:
    """Return an optimisation with its evalset, version and process.

    Raises:
        NotFound: there is none.
    """
    rows = Optimisation.objects.select_related("evalset", "version", "runtime", "comparison")
    optimisation = rows.filter(pk=optimisation_id).first()
    if optimisation is None:
        raise NotFound(
            f"There is no optimisation {optimisation_id!r}.",
            hint="The evalset's page lists its optimisations.",
        )
    return optimisation


def list_optimisations(evalset: EvalSet) -> list[Optimisation]:
    """Return the newest optimisations of an evalset, at most `LISTED`."""
    return list(evalset.optimisations.order_by("-created_at")[:LISTED])


def list_steps(optimisation: Optimisation) -> list[OptimisationStep]:
    """Return the steps in their order."""
    return list(optimisation.steps.select_related("run").order_by("position"))


def add_answer(
    optimisation_id: str,
    position: int,
    prompt: str,
    answer: str,
    tokens: Mapping[str, int],
    started_at: float,
) -> None:
    """Store an answer of the optimiser's model, once. `tokens` has the token columns of a step."""
    with transaction.atomic():
        if _has_step(optimisation_id, position):
            return
        _add_step(
            optimisation_id,
            position,
            kind=Kind.ANSWER,
            prompt=scopes.clean_text(prompt[:MAX_TEXT]),
            answer=scopes.clean_text(answer),
            started_at=started_at,
            finished_at=time.time(),
            **tokens,
        )
        _count_for_quotas(optimisation_id, tokens, started_at)


def _count_for_quotas(optimisation_id: str, tokens: Mapping[str, int], started_at: float) -> None:
    """Add the tokens and the cost of an answer to the usage of the person."""
    optimisation = find_optimisation(optimisation_id)
    if not optimisation.person:
        return
    model = OptimiserSettings.from_json(optimisation.settings).model
    call = ModelCall(model=model, started_at=started_at, **tokens)
    cost = usages_cost([recorded_call_usage(call)], current_prices())
    add_usage(
        optimisation.person,
        optimisation.evalset.app_name,
        tokens=call.total_tokens,
        cost=cost.amount if cost else 0.0,
    )


def order_evaluation(optimisation: Optimisation, step: NextStep, limits: EvalRunLimits) -> None:
    """Create the pending run of a candidate on a batch of cases, and its step, once; neither after a cancellation.

    Raises:
        QuotaUsedUp: a quota of the person is used up.
    """
    with transaction.atomic():
        if not _may_order(optimisation.pk) or _has_step(optimisation.pk, step.position):
            return
        run = runs.create_run(
            _new_run(
                optimisation,
                step.case_ids,
                source=OPTIMISATION,
                variant=make_variant(optimisation, step.instruction),
                limits=limits.as_json(),
            )
        )
        _add_step(
            optimisation.pk,
            step.position,
            kind=Kind.EVALUATION,
            instruction=step.instruction,
            example_set=step.example_set,
            case_ids=scopes.dumps(list(step.case_ids)),
            evaluation_data="{}" if step.with_data else "",
            started_at=time.time(),
            run=run,
        )


def finish_evaluation(step: OptimisationStep) -> None:
    """Store the scores of an evaluation whose run has ended.

    Raises:
        NotFound: its run was deleted.
    """
    if step.run is None:
        raise NotFound(
            "The run of a candidate was deleted before its scores were read.",
            hint="Start a new optimisation.",
        )
    with transaction.atomic():
        step.scores = scopes.dumps(read_scores(step.run))
        if step.evaluation_data:
            step.evaluation_data = scopes.dumps(read_evaluation_data(step.run))
        step.finished_at = time.time()
        step.save(update_fields=["scores", "evaluation_data", "finished_at"])
        change_notification.notify_after_commit()


def order_comparison(optimisation: Optimisation, best: str, limits: EvalRunLimits) -> None:
    """Store what the optimiser found; create the runs of the original and of it on the validation cases, once.

    If the optimiser found nothing better than the original, there is nothing to compare. After a cancellation nothing
    is stored.

    Raises:
        QuotaUsedUp: a quota of the person is used up.
    """
    with transaction.atomic():
        if not _may_order(optimisation.pk) or _has_best(optimisation.pk):
            return
        optimisation.best_instruction = best
        if variant := make_variant(optimisation, best):
            settings = OptimiserSettings.from_json(optimisation.settings)
            new_run = _new_run(
                optimisation,
                settings.validation,
                source=optimisation.source,
                num_runs=settings.repetitions,
                limits=limits.as_json(),
            )
            optimisation.comparison = runs.create_run(new_run)
            order_variants(optimisation.comparison, [variant])
        optimisation.save(update_fields=["best_instruction", "comparison"])
        change_notification.notify_after_commit()


def make_variant(optimisation: Optimisation, instruction: str) -> Variant | None:
    """Return the variant with the instruction of a candidate; None for the original."""
    if instruction == optimisation.instruction:
        return None
    note = f"Found by optimisation {optimisation.pk} of {optimisation.evalset.path}."
    return Variant("optimised", note, {optimisation.agent: {"instruction": instruction}})


def set_run_limits(run: EvalRun, limits: EvalRunLimits) -> None:
    """Set the limits of a run that waits, or that ended early and is resumed. What is left of quotas stays."""
    quotas = {name: getattr(EvalRunLimits.read(run.limits), name) for name in QUOTAS}
    EvalRun.objects.filter(pk=run.pk).exclude(status=EvalRun.Status.RUNNING).update(
        limits=scopes.dumps(replace(limits, **quotas).as_json())
    )


def restart_attempts(run: EvalRun, agents: AgentsFolder | None = None) -> list[EvalRun]:
    """Restart the attempts without an outcome of a run that has ended; return it as pending.

    `agents` is the folder of its agent; None: this server's.

    Raises:
        EvalRunActive: the run has not ended.
        HasChanged: the agent's code has changed.
    """
    attempts = run.attempts.exclude(HAS_OUTCOME).values_list("pk", flat=True)
    return rerun.retry(run, list(attempts), agents, person=run.person)


def list_active_runs(optimisation_id: str) -> list[EvalRun]:
    """Return the runs of an optimisation that have not ended."""
    rows = EvalRun.objects.select_related("evalset", "version").filter(status__in=EvalRun.ACTIVE)
    return list(rows.filter(pk__in=list_run_ids(find_optimisation(optimisation_id))))


def end_optimisation(optimisation_id: str, status: str, error: str = "", hint: str = "") -> bool:
    """End a running optimisation, and cancel its runs; False if it has ended. `error`: why it ended early."""
    with transaction.atomic():
        rows = Optimisation.objects.filter(pk=optimisation_id, status=Status.RUNNING)
        is_ended = rows.update(
            status=status,
            error=scopes.clean_error(error),
            hint=scopes.clean_text(hint),
            finished_at=time.time(),
        )
        if is_ended:
            for run in list_active_runs(optimisation_id):
                runs.begin_cancel(run.pk)
        change_notification.notify_after_commit()
    return bool(is_ended)


def end_own_optimisation(optimisation_id: str, status: str, error: str = "", hint: str = "") -> bool:
    """End a running optimisation of this process, like `end_optimisation`; False if another process carries it out."""
    return is_own(find_optimisation(optimisation_id)) and end_optimisation(
        optimisation_id, status, error, hint
    )


def may_continue(optimisation_id: str) -> bool:
    """Tell whether this process carries an optimisation out, and nobody has cancelled it."""
    optimisation = find_optimisation(optimisation_id)
    return is_own(optimisation) and optimisation.cancel_requested_at is None


def is_own(optimisation: Optimisation) -> bool:
    """Tell whether this process carries an optimisation out: another one may have resumed it."""
    return optimisation.active and optimisation.runtime_id == processes.own_id()


def request_cancel(optimisation_id: str) -> bool:
    """Request the cancellation of a running optimisation; False if it has ended."""
    with transaction.atomic():
        rows = Optimisation.objects.filter(pk=optimisation_id, status=Status.RUNNING)
        is_active = rows.update(cancel_requested_at=time.time())
        change_notification.notify_after_commit()
    return bool(is_active)


def mark_crashed(optimisation: Optimisation) -> None:
    """End a running optimisation whose process is gone."""
    if is_abandoned(optimisation):
        end_optimisation(
            optimisation.pk,
            Status.CRASHED,
            "The process that carried it out has ended.",
            "Resume it: nothing that it found is lost.",
        )
        optimisation.refresh_from_db()


def resume(
    optimisation_id: str, code_version: str, *, limits: EvalRunLimits | None = None, person: str = ""
) -> Optimisation:
    """Let this process go on with an optimisation that ended early. `limits`: new ones; None: those that it has.

    Raises:
        NotFound: there is none.
        OptimisationActive: it has not ended.
        OptimisationEnded: it has ended for good.
        AgentChanged: the agent's code has changed.
    """
    with transaction.atomic():
        Optimisation.objects.select_for_update().filter(pk=optimisation_id).first()
        optimisation = find_optimisation(optimisation_id)
        mark_crashed(optimisation)
        require_resumable(optimisation, code_version)
        optimisation.status, optimisation.error, optimisation.hint = Status.RUNNING, "", ""
        optimisation.cancel_requested_at = optimisation.finished_at = None
        optimisation.runtime_id = processes.own_id()
        optimisation.person = person
        optimisation.resumed += 1
        if limits is not None:
            order = {**json.loads(optimisation.run_order), "limits": limits.as_json()}
            optimisation.run_order = scopes.dumps(order)
        optimisation.save()
        change_notification.notify_after_commit()
    return optimisation


def require_resumable(optimisation: Optimisation, code_version: str) -> None:
    """Require an optimisation that ended early, of an agent that has not changed.

    Raises:
        OptimisationActive: it has not ended.
        OptimisationEnded: it has ended for good.
        AgentChanged: the agent's code has changed.
    """
    if optimisation.active:
        raise OptimisationActive(
            f"Optimisation {optimisation.pk} is running.", hint="Wait for its end, or cancel it."
        )
    if optimisation.status == Status.DONE:
        raise OptimisationEnded(
            f"Optimisation {optimisation.pk} is done, so there is nothing to resume.", hint="Start a new one."
        )
    require_same_code(optimisation, code_version)


def require_same_code(optimisation: Optimisation, code_version: str) -> None:
    """Require the code of the agent that the optimisation began with.

    Raises:
        AgentChanged: it has changed.
    """
    if optimisation.code_version != code_version:
        raise AgentChanged(
            f"The agent's code changed from {optimisation.code_version} to {code_version} since the optimisation"
            " started.",
            hint="Start a new one: the scores of its candidates must be comparable.",
        )


def is_abandoned(optimisation: Optimisation) -> bool:
    """Tell whether an optimisation is running, but its process is gone."""
    if not optimisation.active:
        return False
    process = optimisation.runtime
    return process is None or process.stopped_at is not None or not processes.is_alive(process)


def _may_order(optimisation_id: str) -> bool:
    """Tell whether an optimisation may order runs, under its row's lock."""
    Optimisation.objects.select_for_update().get(pk=optimisation_id)
    return may_continue(optimisation_id)


def _has_best(optimisation_id: str) -> bool:
    return Optimisation.objects.filter(pk=optimisation_id).exclude(best_instruction=None).exists()


def _has_step(optimisation_id: str, position: int) -> bool:
    """Tell whether an optimisation has a step, under its row's lock: the write that stores one may be repeated."""
    return (
        Optimisation.objects.select_for_update()
        .get(pk=optimisation_id)
        .steps.filter(position=position)
        .exists()
    )


def _add_step(optimisation_id: str, position: int, **fields: Any) -> None:
    OptimisationStep.objects.create(optimisation_id=optimisation_id, position=position, **fields)
    change_notification.notify_after_commit()


def _new_run(optimisation: Optimisation, case_ids: Sequence[str], **fields: Any) -> runs.NewEvalRun:
    """Return the order of a run of some cases like the other runs of an optimisation."""
    chosen_ids = set(case_ids)
    cases = [case for case in _list_cases(optimisation.version) if case[1] in chosen_ids]
    order = json.loads(optimisation.run_order)
    return runs.NewEvalRun(
        optimisation.version,
        cases,
        case_ids=[case_id for _, case_id in cases],
        person=optimisation.person,
        **{**order, **fields},
    )


def _list_cases(version: EvalSetVersion) -> list[tuple[int, str]]:
    return [(index, case["eval_id"]) for index, case in enumerate(json.loads(version.content)["eval_cases"])]
