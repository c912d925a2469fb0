"""Rows of playground runs: created by the web process, carried out by a runtime, cancelled by either."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import transaction
from django.db.models import Prefetch, Q, QuerySet

from evals_app.models import PlaygroundAnswer, PlaygroundRun
from evals_app.playground.columns import RequestColumn, dump_columns
from sessions_app.delivery.ownership import UNASSIGNED_S
from sessions_app.prices import current_prices
from sessions_app.prices.costs import usages_cost
from sessions_app.quotas.quota_enforcement import add_usage, admit_run
from sessions_app.store import realms, scopes
from sessions_app.store.errors import NotFound
from sessions_app.store.events.call_usage import recorded_call_usage
from sessions_app.store.models import AgentSession, ModelCall

Status = PlaygroundAnswer.Status

RUNS_SHOWN = 50
"""Newest runs of a call that are listed."""

PROCESS_ENDED_TYPE = "ProcessEnded"
PROCESS_ENDED_MESSAGE = "The process of the agent ended before the model had answered. Run it again."

TOKEN_FIELDS = ("prompt_tokens", "output_tokens", "thought_tokens", "cached_tokens", "total_tokens")


def create_run(
    call: ModelCall, columns: Sequence[RequestColumn], *, name: str = "", person: str = ""
) -> PlaygroundRun:
    """Create a run of a recorded call, with a queued answer for each repetition of its columns.

    Raises:
        QuotaUsedUp: the run exceeds a quota of the person.
    """
    with transaction.atomic():
        run = PlaygroundRun.objects.create(
            session_id=call.session_id,
            call=call,
            name=scopes.clean_text(name),
            person=person,
            columns=scopes.dumps(dump_columns(columns)),
            created_at=time.time(),
        )
        PlaygroundAnswer.objects.bulk_create(
            PlaygroundAnswer(
                run=run, column=position, repetition=repetition, model=scopes.clean_text(column.model)
            )
            for position, column in enumerate(columns)
            for repetition in range(1, column.repetitions + 1)
        )
        admit_run(person, call.session.app_name)
    return run


def find_run(call: ModelCall, pk: int) -> PlaygroundRun:
    """Return a run of a call with its process.

    Raises:
        NotFound: the call has no such run.
    """
    run = PlaygroundRun.objects.select_related("runtime").filter(call=call, pk=pk).first()
    if run is None:
        raise NotFound(
            f"Model call {call.pk} has no playground run {pk}.",
            hint="It was deleted with its session, or the address is of another call.",
        )
    return run


def is_abandoned(run: PlaygroundRun) -> bool:
    """Tell whether a run has active answers, but its process has ended or none took it within `UNASSIGNED_S`."""
    if run.runtime is not None:
        has_process = run.runtime.stopped_at is None
    else:
        has_process = time.time() - run.created_at <= UNASSIGNED_S
    return not has_process and active_answers(run.pk).exists()


def list_runs(call: ModelCall) -> list[PlaygroundRun]:
    """Return the newest runs of a call, newest first, at most `RUNS_SHOWN`."""
    return list(PlaygroundRun.objects.filter(call=call).defer("columns").order_by("-pk")[:RUNS_SHOWN])


def query_runs(app_name: str = "") -> QuerySet[PlaygroundRun]:
    """Return all runs of sessions that are not hidden, or those of one app; with session, call and answers."""
    sessions = AgentSession.objects.filter(app_name=app_name) if app_name else AgentSession.objects.all()
    visible_sessions = realms.exclude_inside_hidden(realms.exclude_hidden(sessions))
    answers = PlaygroundAnswer.objects.only("run", "model", "status").order_by("column", "repetition")
    rows = PlaygroundRun.objects.filter(session__in=visible_sessions)
    return (
        rows.select_related("session", "call").defer("columns").prefetch_related(Prefetch("answers", answers))
    )


def rename_run(run: PlaygroundRun, name: str) -> None:
    """Give a run another name; empty removes it."""
    PlaygroundRun.objects.filter(pk=run.pk).update(name=scopes.clean_text(name))


def delete_run(run: PlaygroundRun) -> None:
    """Delete a run with its answers; its process ends the calls that are not finished."""
    PlaygroundRun.objects.filter(pk=run.pk).delete()


def assign_run(run_pk: int, runtime_id: str) -> PlaygroundRun | None:
    """Assign a run to a process, and return it with its call; None if it was deleted or has a process already."""
    if not PlaygroundRun.objects.filter(pk=run_pk, runtime=None).update(runtime_id=runtime_id):
        return None
    return PlaygroundRun.objects.select_related("call", "session").get(pk=run_pk)


def active_answers(run_pk: int, column: int | None = None) -> QuerySet[PlaygroundAnswer]:
    """Return the active answers of a run, or of one of its columns."""
    rows = PlaygroundAnswer.objects.filter(run=run_pk, status__in=PlaygroundAnswer.ACTIVE)
    return rows if column is None else rows.filter(column=column)


def start_answer(pk: int) -> bool:
    """Mark a queued answer as running; return whether it was queued."""
    rows = PlaygroundAnswer.objects.filter(pk=pk, status=Status.QUEUED)
    return bool(rows.update(status=Status.RUNNING, started_at=time.time()))


def update_answers(run_pk: int, streamed: Mapping[int, Mapping[str, Any]]) -> set[int]:
    """Store what running answers have streamed, and return the primary keys of the run's active answers.

    Args:
        streamed: values of fields of `PlaygroundAnswer`, by primary key.
    """
    for pk, values in streamed.items():
        PlaygroundAnswer.objects.filter(pk=pk, status=Status.RUNNING).update(**values)
    return set(active_answers(run_pk).values_list("pk", flat=True))


def finish_answer(pk: int, status: str, values: Mapping[str, Any]) -> None:
    """Store how a running answer ended, and add its tokens and costs to the usage of its person.

    An answer that was cancelled meanwhile does not change.

    Args:
        values: values of further fields of `PlaygroundAnswer`.
    """
    with transaction.atomic():
        rows = PlaygroundAnswer.objects.filter(pk=pk, status=Status.RUNNING)
        if not rows.update(status=status, finished_at=time.time(), **values):
            return
        answer = PlaygroundAnswer.objects.select_related("run__session").get(pk=pk)
        if answer.total_tokens and answer.run.person:
            cost = usages_cost([recorded_call_usage(answer_call(answer))], current_prices())
            add_usage(
                answer.run.person,
                answer.run.session.app_name,
                tokens=answer.total_tokens,
                cost=cost.amount if cost else 0.0,
            )


def cancel_answers(run_pk: int, column: int | None = None) -> None:
    """Mark the active answers of a run or of one of its columns as cancelled; its process then ends their calls."""
    active_answers(run_pk, column).update(status=Status.CANCELLED, finished_at=time.time())


def fail_answers(run_pk: int, error_type: str, error: str) -> None:
    """Mark the active answers of a run as failed."""
    active_answers(run_pk).update(
        status=Status.FAILED, finished_at=time.time(), error_type=error_type, error=error
    )


def answer_call(answer: PlaygroundAnswer) -> ModelCall:
    """Return an unsaved model call with the times and tokens of an answer, to calculate its duration and costs."""
    return ModelCall(
        model=answer.model,
        started_at=answer.started_at or 0.0,
        first_at=answer.first_at,
        finished_at=answer.finished_at,
        **{field: getattr(answer, field) for field in TOKEN_FIELDS},
    )


def find_active_runs() -> QuerySet[Any]:
    """Return person and app of each run with active answers that is not abandoned."""
    active = PlaygroundAnswer.objects.filter(status__in=PlaygroundAnswer.ACTIVE).values("run")
    stopped = Q(runtime__stopped_at__isnull=False)
    never_taken = Q(runtime=None, created_at__lt=time.time() - UNASSIGNED_S)
    rows = PlaygroundRun.objects.filter(pk__in=active).exclude(stopped | never_taken)
    return rows.order_by().values_list("person", "session__app_name")
