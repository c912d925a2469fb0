"""Queries whose SQL is built once."""

from __future__ import annotations

from sessions_app.store.database.combined_query import read_together
from sessions_app.store.database.compiled_query import CompiledQuery
from sessions_app.store.models import AgentSession
from tests.timeline.story import Story


def test_query_is_built_once_and_answers_for_all_values(db):
    for app in ("weather", "50%"):
        for session in ("s1", "s2"):
            Story(session, app=app)
    built = []

    def build(app_name: str, limit: int):
        built.append(app_name)
        sessions = AgentSession.objects.filter(app_name=app_name, pk__gt=limit).exclude(title__startswith="%")
        return [sessions.order_by("pk").values_list("app_name", "session_id")]

    query = CompiledQuery(build, "an app", -1)
    first = AgentSession.objects.filter(app_name="50%").order_by("pk")[0].pk
    assert query.rows("weather", 0) == [(0, "weather", "s1"), (0, "weather", "s2")]
    assert query.rows("50%", 0) == [(0, "50%", "s1"), (0, "50%", "s2")]
    assert query.rows("50%", first) == [(0, "50%", "s2")]
    assert query.rows("an app", 0) == []
    assert len(built) == 1


def test_several_queries_are_answered_in_one_statement(db, django_assert_num_queries):
    story = Story("s1")
    story.says("a", delta={"n": 1})
    sessions = AgentSession.objects.order_by("pk").values_list("session_id", "pk")
    with django_assert_num_queries(1):
        parts = read_together(sessions[:1], sessions.none(), sessions.values_list("app_name", "last_seq"))
    assert parts == [[("s1", story.pk)], [], [("weather", 1)]]
    with django_assert_num_queries(0):
        assert read_together(sessions.none()) == [[]]
