"""Terms about recorded invocations and runs: `during:`, `model:` and `code:`."""

from __future__ import annotations

import pytest

from sessions_app.search.execution.session_queries import Search
from sessions_app.search.query.parsing import parse
from sessions_app.search.query.scanner import QueryError
from sessions_app.store.models import AgentSession
from tests.trends.recorded import Call, Invocation, record, session

pytestmark = pytest.mark.django_db

AFTERNOON = 1_790_000_000.0
"""21 September 2026, 14:13:20 UTC."""


def users(query: str) -> list[str]:
    rows = Search(parse(query)).filter_rows(AgentSession.objects.order_by("user_id"))
    return list(rows.values_list("user_id", flat=True))


@pytest.fixture
def sessions(db: None) -> None:
    """Sessions of ann with an invocation over the full hour, of ben a day later, and of cem without any."""
    record(
        session("ann"),
        Invocation(AFTERNOON, 3_600.0, models=[Call("flash")], code="abc123", revision="f00d+"),
    )
    record(session("ben"), Invocation(AFTERNOON + 86_400, models=[Call("pro x")], code="def456"))
    session("cem")


@pytest.mark.parametrize(
    ("query", "user_ids"),
    [
        ("during:2026-09-21", ["ann"]),
        ("during:2026-09-22", ["ben"]),
        ("during:2026-09-20", []),
        ("during:2026-09-21T14", ["ann"]),
        ("during:2026-09-21T15", ["ann"]),
        ("during:2026-09-21T16", []),
        ("-during:2026-09-21", ["ben", "cem"]),
        ("model:flash", ["ann"]),
        ('model:"pro x"', ["ben"]),
        ("code:abc", ["ann"]),
        ("code:f00d", ["ann"]),
        ("-code:abc", ["ben", "cem"]),
        ("during:2026-09-21 model:flash code:abc123", ["ann"]),
    ],
)
def test_terms_find_the_sessions_of_invocations(sessions, query, user_ids):
    assert users(query) == user_ids


@pytest.mark.parametrize("value", ["soon", "2h", "2026-09-21T13:30", "2026-13-01", "2026-09-21T25"])
def test_period_is_a_day_or_an_hour(value):
    with pytest.raises(QueryError, match="not a day or"):
        parse(f"during:{value}")
