"""Checks of sessions for problems, and storage of the results.

Each session has a cursor, `problems_seq`: its events up to it were checked. Traces and ends of runs, which are recorded
later, move it back (`index_backlog.recheck`). A check of events replaces the problems that are stored of them.
"""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db import DatabaseError, transaction
from django.db.models import Count, Max, Q, QuerySet, Sum

from sessions_app.plugins import FAILURES
from sessions_app.problems.evidence_queries import EvidenceBatch, read_batch
from sessions_app.problems.registry import (
    MAX_LINKS,
    MAX_TEXT,
    Detector,
    DetectorScope,
    Link,
    Problem,
    Severity,
    detect,
    quote,
)
from sessions_app.problems.state_queries import MAX_KEYS
from sessions_app.store.database import change_notification
from sessions_app.store.errors import DevUIError
from sessions_app.store.index import index_backlog
from sessions_app.store.models import AgentSession, SessionProblem, SessionTrait

log = logging.getLogger(__name__)

BATCH_EVENTS = 200
"""Events checked at once."""

SAME_STORED = 5
"""Problems of one code that are stored of an invocation in a batch; the last one counts the others."""

SAME_OF_STATE = MAX_KEYS
"""Problems of one code that are stored of the state."""

MAX_STORED = 1_000
"""Problems of invocations that are stored of a session. Older ones are only counted."""


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    """A batch, and the rows of its problems in the order of events. They are not stored yet."""

    batch: EvidenceBatch
    rows: list[SessionProblem]


def check_next() -> CheckedBatch | None:
    """Check the next events of the newest session with unchecked events; None if there is no such session."""
    session = index_backlog.sessions_to_check().order_by("-pk").first()
    return check(session) if session else None


def check(session: AgentSession) -> CheckedBatch:
    """Check the next events of a session, and the session as a whole. A failed check is logged and skips them."""
    try:
        batch = read_batch(session, BATCH_EVENTS)
        return CheckedBatch(batch, sorted(_find_problems(batch), key=lambda row: row.seq))
    except (DevUIError, DatabaseError):
        raise
    except FAILURES:
        log.exception("Session %s cannot be checked for problems: its events are skipped.", session.pk)
        last = session.last_seq
        return CheckedBatch(EvidenceBatch(session.pk, last, last, session.problems_version, []), [])


def store(checked: CheckedBatch) -> bool:
    """Store the problems of a batch. Return False, without a change, if the session changed meanwhile."""
    batch = checked.batch
    of_session = SessionProblem.objects.filter(session=batch.session_pk)
    with transaction.atomic():
        of_invocations = Q(seq__gt=batch.start) | Q(seq=0, invocation_id__in=batch.invocation_ids)
        replaced = of_invocations & Q(scope=DetectorScope.INVOCATION)
        if batch.state is not None:
            replaced |= Q(scope=DetectorScope.STATE)
        old_rows = of_session.filter(replaced)
        old_contents = [_comparable_content(row) for row in old_rows.order_by("seq", "pk")]
        has_changed = old_contents != [_comparable_content(row) for row in checked.rows]
        dropped = _replace_problems(batch.session_pk, old_rows, checked.rows) if has_changed else 0
        _store_traits(batch.session_pk)
        counted = of_session.exclude(severity=Severity.NOTE).aggregate(
            rows=Count("pk"), more=Sum("more", default=0)
        )
        is_current = _move_cursor(batch, counted["rows"] + counted["more"], dropped)
        if not is_current:
            transaction.set_rollback(True)
        elif has_changed:
            change_notification.notify_after_commit()
    return is_current


def _replace_problems(session_pk: int, old_rows: QuerySet[SessionProblem], rows: list[SessionProblem]) -> int:
    """Replace stored problems. Return the number of problems dropped because the session has too many."""
    old_rows.delete()
    SessionProblem.objects.bulk_create(rows)
    return _drop_oldest(session_pk)


def check_all() -> int:
    """Check all sessions that are behind. Return the number of batches."""
    batches = 0
    while checked := check_next():
        store(checked)
        batches += 1
    return batches


def _find_problems(batch: EvidenceBatch) -> Iterator[SessionProblem]:
    """Yield the rows of the problems of a batch, bounded for each invocation and code."""
    for evidence in batch.evidence:
        problems = detect(DetectorScope.INVOCATION, evidence)
        new = ((detector, problem) for detector, problem in problems if not 0 < problem.seq <= batch.start)
        row = SessionProblem(session_id=batch.session_pk, invocation_id=evidence.invocation_id)
        yield from _bounded_rows(row, new, SAME_STORED)
    if batch.state is not None:
        row = SessionProblem(session_id=batch.session_pk, scope=DetectorScope.STATE)
        yield from _bounded_rows(row, detect(DetectorScope.STATE, batch.state), SAME_OF_STATE)


def _bounded_rows(
    template: SessionProblem, problems: Iterable[tuple[Detector, Problem]], limit: int
) -> Iterator[SessionProblem]:
    """Yield the rows of problems, at most `limit` of a code; the last one counts the others."""
    rows: defaultdict[str, list[SessionProblem]] = defaultdict(list)
    for detector, problem in problems:
        same = rows[detector.code]
        if len(same) < limit:
            same.append(_build_row(template, detector, problem))
        else:
            same[-1].more += 1
    for same in rows.values():
        yield from same


def _comparable_content(row: SessionProblem) -> tuple[object, ...]:
    subject = (row.scope, row.invocation_id, row.seq, row.agent, row.key)
    return (row.code, row.severity, *subject, row.text, row.links, row.more)


def _move_cursor(batch: EvidenceBatch, number: int, dropped: int) -> bool:
    """Move the session's cursor behind a batch. Return False if the session changed since the batch was read."""
    session = AgentSession.objects.filter(pk=batch.session_pk, problems_version=batch.version)
    stored_beyond = session.values_list("problems_beyond", flat=True).first()
    if stored_beyond is None:
        return False
    beyond = (stored_beyond if batch.start else 0) + dropped
    values = {"problems_seq": batch.end, "problems_beyond": beyond, "problem_count": number + beyond}
    return bool(session.update(**values, problems_version=batch.version + 1))


def _drop_oldest(session_pk: int) -> int:
    """Delete the oldest rows beyond the limit. Return the number of errors and warnings that they count."""
    rows = SessionProblem.objects.filter(session=session_pk, scope=DetectorScope.INVOCATION)
    extra = list(rows.order_by("-seq", "-pk").values_list("pk", "more", "severity")[MAX_STORED:])
    rows.filter(pk__in=[pk for pk, _, _ in extra]).delete()
    return sum(1 + more for _, more, severity in extra if severity != Severity.NOTE)


def _store_traits(session_pk: int) -> None:
    """Store a trait for each code of the session's problems, for searches."""
    problems = SessionProblem.objects.filter(session=session_pk)
    traits = SessionTrait.objects.filter(session=session_pk, name=SessionTrait.Name.PROBLEM)
    seqs = dict(problems.order_by().values_list("code").annotate(Max("seq")))
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


def _build_row(template: SessionProblem, detector: Detector, problem: Problem) -> SessionProblem:
    """Return the row of a problem in the session, scope and invocation of a template."""
    links = [_link_json(link, template.session_id) for link in problem.links[:MAX_LINKS]]
    return SessionProblem(
        session_id=template.session_id,
        scope=template.scope,
        invocation_id=template.invocation_id,
        code=detector.code,
        severity=detector.severity,
        seq=problem.seq,
        agent=quote(problem.agent),
        key=problem.key.replace("\0", ""),
        text=quote(problem.text, MAX_TEXT),
        links=json.dumps(links),
    )


def _link_json(link: Link, session_pk: int) -> list[str | int]:
    """Return the JSON of a link. Only links to other sessions name the session."""
    is_elsewhere = link.session_id and link.session != session_pk
    session = (link.session, quote(link.session_id)) if is_elsewhere else ()
    return [link.kind, link.target, quote(link.label), *session]
