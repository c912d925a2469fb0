"""Orders of runs of variants: each is like a run of the original, with which it is compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.db import transaction

from evals_app.models import REPEAT_SOURCES, EvalRun, EvalSet
from evals_app.runs import run_orders
from evals_app.runs.replay.policy import ReplayPolicy
from evals_app.runs.replayed_sessions import order_replay
from evals_app.runs.rerun import order_like
from evals_app.runs.run_orders import RunOrder
from evals_app.runs.writes import runs
from evals_app.variants.variant import Variant
from sessions_app.runs.runtime_client import provider
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession


async def require_applicable(app_name: str, variants: Sequence[Variant]) -> None:
    """Require that the agent of an app can be varied like this. Its process checks it, and is started if needed.

    Raises:
        NotFound: no such app.
        BadInput: a variant names something that the agent does not have or that cannot be varied.
        RuntimeUnavailable: the agent cannot be loaded.
    """
    client = await provider().client(app_name)
    body = {"variants": [variant.as_json() for variant in variants]}
    await client.call("POST", "/devui/evals/variants", body)


@transaction.atomic
def order_with_variants(
    evalset: EvalSet, order: RunOrder, variants: Sequence[Variant], run_id: str = ""
) -> list[EvalRun]:
    """Create a pending run of an evalset and one of each variant, all or none; the first is that of the original.

    Raises:
        BadFile, NotFound, BadInput: as `run_orders.prepare_run`; BadInput also for too many attempts of all together.
        QuotaUsedUp: a quota of the person or of the app is used up.
    """
    return _order_variants_beside(run_orders.order_run(evalset, order, run_id), variants)


@transaction.atomic
def order_replay_with_variants(
    session: AgentSession,
    conversation: Sequence[dict[str, Any]],
    policy: ReplayPolicy,
    variants: Sequence[Variant],
    run_id: str = "",
    *,
    num_runs: int = 1,
    person: str = "",
) -> list[EvalRun]:
    """Create a pending run of the user messages of a session and one of each variant, all or none.

    The first is that of the original. See `replayed_sessions.order_replay`.

    Raises:
        BadInput: as `order_replay`; also for too many attempts of all together.
        QuotaUsedUp: a quota of the person or of the app is used up.
    """
    run = order_replay(
        session, conversation, policy.models, policy.tools, run_id, num_runs=num_runs, person=person
    )
    return _order_variants_beside(run, variants)


def _order_variants_beside(run: EvalRun, variants: Sequence[Variant]) -> list[EvalRun]:
    """Return a run of the original and new runs of variants.

    Raises:
        BadInput: they have too many attempts together.
        QuotaUsedUp: a quota of the person or of the app is used up.
    """
    if run.total * (1 + len(variants)) > run_orders.MAX_ATTEMPTS:
        raise BadInput(
            f"{1 + len(variants)} runs, the original and its variants, of {run.total:,} attempts each have more than"
            f" {run_orders.MAX_ATTEMPTS:,} together.",
            hint="Choose fewer cases, repetitions or variants.",
        )
    return [run, *order_variants(run, variants)]


def order_variants(run: EvalRun, variants: Sequence[Variant]) -> list[EvalRun]:
    """Create a pending run of each variant, with the cases, configuration and numbers of a run of the original.

    Raises:
        QuotaUsedUp: a quota of the person or of the app is used up.
    """
    order = replace(order_like(run, run.source, run.person), repeats=None, variant_of=run)
    return [runs.create_run(replace(order, variant=variant)) for variant in variants]


def list_variant_runs(run: EvalRun) -> list[EvalRun]:
    """Return the runs of the variants of a run of the original, in their order, without those that repeat a part."""
    variant_runs = run.variant_runs.select_related("version", "evalset").exclude(source__in=REPEAT_SOURCES)
    return list(variant_runs.order_by("created_at"))


def count_variants(run: EvalRun) -> int:
    """Return the number of variants that were ordered with a run of one of them; 1 for any other run."""
    if run.variant_of_id is None:
        return 1
    return EvalRun.objects.filter(variant_of=run.variant_of_id).values("variant_hash").distinct().count()
