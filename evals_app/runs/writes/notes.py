"""Writes of notes on runs and attempts, and of the baseline of an evalset."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F

from evals_app.models import RETRY, EvalAttempt, EvalRun
from evals_app.runs.writes.revisions import next_revision
from sessions_app.store import scopes
from sessions_app.store.database import change_notification
from sessions_app.store.errors import BadInput, NotFound

MAX_NOTE = 10_000
"""Characters of a note."""


def mark_baseline(run_id: str, is_baseline: bool = True, *, person: str = "") -> None:
    """Make a run the baseline of its evalset, in place of the previous one, or undo that.

    `person` is the name of the person who does it, here and below; empty: unknown.

    Raises:
        NotFound: no such run.
        BadInput: it has not ended, or only retries attempts of another run.
    """
    with transaction.atomic():
        run = EvalRun.objects.select_for_update().filter(pk=run_id).first()
        if run is None:
            raise NotFound(f"No eval run {run_id!r}.", hint="The evalset's page lists its runs.")
        if is_baseline and run.active:
            raise BadInput(
                "A run that has not ended cannot be the baseline.", hint="Mark it when it has ended."
            )
        if is_baseline and run.source == RETRY:
            raise BadInput(
                "A run that retries attempts cannot be the baseline: first outcomes count.",
                hint=f"Mark the run that it repeats: {run.repeats_id or 'it was deleted'}.",
            )
        baselines = EvalRun.objects.filter(evalset=run.evalset_id, baseline=True)
        if not is_baseline:
            baselines = baselines.filter(pk=run_id)
        baselines.update(baseline=False, baseline_person="", revision=F("revision") + 1)
        if is_baseline:
            EvalRun.objects.filter(pk=run_id).update(
                baseline=True, baseline_person=person, revision=F("revision") + 1
            )
        change_notification.notify_after_commit()


def note_run(run_id: str, note: str, *, person: str = "") -> None:
    """Store a person's note on a run; "" removes it.

    Raises:
        NotFound: no such run.
        BadInput: the note is too long.
    """
    text = _clean_note(note)
    with transaction.atomic():
        if not EvalRun.objects.filter(pk=run_id).update(
            note=text, note_person=person if text else "", revision=F("revision") + 1
        ):
            raise NotFound(f"No eval run {run_id!r}.", hint="The evalset's page lists its runs.")
        change_notification.notify_after_commit()


def note_attempt(attempt_pk: int, note: str, *, person: str = "") -> None:
    """Store a person's note on an attempt; "" removes it.

    Raises:
        NotFound: no such attempt.
        BadInput: the note is too long.
    """
    text = _clean_note(note)
    with transaction.atomic():
        run_id = EvalAttempt.objects.values_list("run_id", flat=True).filter(pk=attempt_pk).first()
        if run_id is None:
            raise NotFound(f"No attempt {attempt_pk}.", hint="Its run was deleted.")
        revision = next_revision(run_id)
        EvalAttempt.objects.filter(pk=attempt_pk).update(
            note=text, note_person=person if text else "", revision=revision
        )
        change_notification.notify_after_commit()


def _clean_note(text: str) -> str:
    if len(text) > MAX_NOTE:
        raise BadInput(
            f"A note may have {MAX_NOTE:,} characters; this one has {len(text):,}.", hint="Shorten it."
        )
    return scopes.clean_text(text.strip())
