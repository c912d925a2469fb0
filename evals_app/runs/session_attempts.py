"""The attempt that a session of the realm of an eval run belongs to."""

from __future__ import annotations

from django.db.models import Q
from django.urls import reverse

from evals_app.models import EvalAttempt
from evals_app.variants.variant import read_run_variant
from sessions_app.sessions.eval_attempts import AttemptLink
from sessions_app.store import realms
from sessions_app.store.models import AgentSession


def find_attempt(session: AgentSession) -> AttemptLink | None:
    """Return the attempt of a session, also of an earlier try of it; None if its run was deleted. One query."""
    run_id, _, _ = session.realm.removeprefix(realms.ATTEMPT).partition("/")
    first_realm, _, _ = session.realm.partition(
        "."
    )  # `attempt_realm` appends .2, .3 … to those of later tries
    same_attempt = Q(realm=first_realm) | Q(realm__startswith=f"{first_realm}.")
    attempt = EvalAttempt.objects.select_related("run").filter(same_attempt, run=run_id).first()
    if attempt is None:
        return None
    variant = read_run_variant(attempt.run)
    return AttemptLink(
        f"{reverse('eval-run', kwargs={'run_id': attempt.run_id})}?attempt={attempt.pk}",
        attempt.case_id,
        variant.name if variant else "",
        attempt.run.variant_hash,
    )
