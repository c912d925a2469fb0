"""Stores the problems of sessions after appends, behind a cursor.

Each session has a cursor, `problems_seq`: its events up to it were checked. What is recorded later (traces, ends of
runs) moves it back (`index_backlog.recheck`). Checking events again replaces what was found at them before.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable

from django.db import DatabaseError, transaction
from django.db.models import Min, Q, Sum

from sessions_app.errors import DevUIError
from sessions_app.models import AgentSession, SessionProblem, SessionTrait
from sessions_app.plugins import FAILURES
from sessions_app.problems.evidence_queries import EvidenceBatch, read_batch
from sessions_app.problems.registry import MAX_LINKS, MAX_TEXT, Detector, Problem, Severity, detect, quote
from sessions_app.search import index_backlog
from sessions_app.store import change_notification

log = logging.getLogger(__name__)

BATCH_EVENTS = 200
"""Events checked at once."""

SAME_STORED = 5
"""Problems of one code that are stored of an invocation in a batch; the last one counts the others."""

MAX_STORED = 1_000
"""Problems stored of a session. Of the oldest ones beyond that only their number is kept."""


def check_next() -> tuple[EvidenceBatch, list[SessionProblem]] | None:
    """Check the next events of the newest session that is behind. None if none is."""
    session = index_backlog.sessions_to_check().order_by("-pk").first()
    if session is None:
        return None
    try:
        return check_session(session)
    except (DevUIError, DatabaseError):
        raise
    except FAILURES:
        log.exception("Session %s cannot be checked for problems: it is left out.", session.pk)
        return EvidenceBatch(session.pk, session.last_seq, session.last_seq, session.problems_version, []), []


def check_session(session: AgentSession) -> tuple[EvidenceBatch, list[SessionProblem]]:
    """Check the next events of a session. Return the batch and the rows of the problems found at them."""
    batch = read_batch(session, BATCH_EVENTS)
    rows: list[SessionProblem] = []
    for evidence in batch.evidence:
        counts: dict[str, SessionProblem] = {}
        numbers: Counter[str] = Counter()
        for detector, problem in detect(evidence):
            if 0 < problem.seq <= batch.start:
                continue
            numbers[detector.code] += 1
            if numbers[detector.code] > SAME_STORED:
                counts[detector.code].more += 1
                continue
            counts[detector.code] = _row(session.pk, evidence.invocation_id, detector, problem)
            rows.append(counts[detector.code])
    rows.sort(key=lambda row: row.seq)
    return batch, rows


def store_batch(batch: EvidenceBatch, rows: Iterable[SessionProblem]) -> bool:
    """Store the problems of a batch. Return False, without a change, if the session changed meanwhile."""
    with transaction.atomic():
        of_session = SessionProblem.objects.filter(session=batch.session_pk)
        replaced = Q(seq__gt=batch.start) | Q(seq=0, invocation_id__in=batch.invocation_ids)
        of_session.filter(replaced).delete()
        SessionProblem.objects.bulk_create(rows)
        dropped = _drop_oldest(batch.session_pk)
        _store_traits(batch.session_pk)
        counted = of_session.exclude(severity=Severity.NOTE).aggregate(more=Sum("more", default=0))["more"]
        number = of_session.exclude(severity=Severity.NOTE).count() + counted
        is_current = _move_cursor(batch, number, dropped)
        if not is_current:
            transaction.set_rollback(True)
        else:
            change_notification.notify_after_commit()
    return is_current


def check_all() -> int:
    """Check all sessions that are behind. Return the number of batches."""
    batches = 0
    while found := check_next():
        store_batch(*found)
        batches += 1
    return batches


def _move_cursor(batch: EvidenceBatch, number: int, dropped: int) -> bool:
    session = AgentSession.objects.filter(pk=batch.session_pk, problems_version=batch.version)
    row = session.values_list("problems_beyond", flat=True).first()
    if row is None:
        return False
    beyond = (row if batch.start else 0) + dropped
    values = {"problems_seq": batch.end, "problems_beyond": beyond, "problem_count": number + beyond}
    return bool(session.update(**values, problems_version=batch.version + 1))


def _drop_oldest(session_pk: int) -> int:
    """Delete the oldest problems beyond the limit. Return how many problems they stood for."""
    rows = SessionProblem.objects.filter(session=session_pk)
    extra = list(rows.order_by("-seq", "-pk").values_list("pk", "more", "severity")[MAX_STORED:])
    rows.filter(pk__in=[pk for pk, _, _ in extra]).delete()
    return sum(1 + more for _, more, severity in extra if severity != Severity.NOTE)


def _store_traits(session_pk: int) -> None:
    """Keep one trait for each code of the session's problems, for searches."""
    problems = SessionProblem.objects.filter(session=session_pk)
    traits = SessionTrait.objects.filter(session=session_pk, name=SessionTrait.Name.PROBLEM)
    seqs = dict(problems.order_by().values_list("code").annotate(Min("seq")))
    traits.exclude(value__in=seqs).delete()
    SessionTrait.objects.bulk_create(
        [
            SessionTrait(session_id=session_pk, name=SessionTrait.Name.PROBLEM, value=code, seq=seq)
            for code, seq in seqs.items()
        ],
        update_conflicts=True,
        unique_fields=["session", "name", "value"],
        update_fields=["seq"],
    )


def _row(session_pk: int, invocation_id: str, detector: Detector, problem: Problem) -> SessionProblem:
    links = [[link.kind, link.target, link.label] for link in problem.links[:MAX_LINKS]]
    return SessionProblem(
        session_id=session_pk,
        code=detector.code,
        severity=detector.severity,
        invocation_id=invocation_id,
        seq=problem.seq,
        agent=quote(problem.agent),
        text=quote(problem.text, MAX_TEXT),
        links=json.dumps(links),
    )
