"""Problems of all sessions, grouped by kind and app, for the page that lists them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from django.db.models import Count, Max, Q, Sum

from sessions_app.problems.registry import Detector, Severity, find_detector
from sessions_app.store.models import SessionProblem

RECENT_S = 7 * 24 * 3600.0
"""Age in seconds up to which a session counts as recent, since its last event."""


@dataclass(frozen=True, slots=True)
class ProblemGroup:
    """Errors or warnings of a kind in the sessions of an app.

    Attributes:
        problems: number of problems, with those that are only counted.
        sessions, recent_sessions: number of sessions that have them, all and recent ones.
        newest: the problem that was found last, with its session.
    """

    detector: Detector
    app: str
    problems: int
    sessions: int
    recent_sessions: int
    newest: SessionProblem

    @property
    def query(self) -> str:
        """The search for the sessions that have the problem."""
        return f"problem:{self.detector.code}"


def read_problem_groups(app: str = "") -> list[ProblemGroup]:
    """Return the problems of all sessions, or of those of an app, by kind and app. Two queries.

    Sessions of isolated realms, such as eval attempts, do not count.
    """
    stored = SessionProblem.objects.filter(session__realm="").exclude(severity=Severity.NOTE)
    if app:
        stored = stored.filter(session__app_name=app)
    is_recent = Q(session__updated_at__gte=time.time() - RECENT_S)
    rows = (
        stored.order_by()
        .values("code", "session__app_name")
        .annotate(
            problems=Count("pk") + Sum("more"),
            sessions=Count("session", distinct=True),
            recent_sessions=Count("session", distinct=True, filter=is_recent),
            newest_pk=Max("pk"),
        )
    )
    newest = SessionProblem.objects.select_related("session").in_bulk([row["newest_pk"] for row in rows])
    return [
        ProblemGroup(
            find_detector(row["code"]),
            row["session__app_name"],
            row["problems"],
            row["sessions"],
            row["recent_sessions"],
            newest[row["newest_pk"]],
        )
        for row in rows
        if row["newest_pk"] in newest
    ]
