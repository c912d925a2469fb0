"""Costs of events, invocations, runs, sessions, apps and users, beside their tokens."""

from __future__ import annotations

import random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.prices import current_prices
from sessions_app.prices.session_usage import read_session_costs, total_spending
from sessions_app.runs.run_list import read_listed_spending
from sessions_app.search import indexing
from sessions_app.store.models import AgentSession, Run
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.timeline_reader import read_timeline
from tests.prices.price_list import MILLION, PRICES, used
from tests.timeline.nested_story import add, nest, text
from tests.timeline.story import START, Story


@pytest.fixture
def story(db: None) -> Story:
    return Story()


def cost(story: Story) -> str:
    """Return the amount, calls and unpriced calls of a session."""
    result = read_session_costs([story.session])[story.pk]
    return f"{result.amount:g} {result.calls} {result.unpriced}" if result else "unknown"


def test_cost_of_a_session_is_known_before_and_after_indexing(story, price_file):
    price_file(PRICES)
    story.says("a", **used())
    assert cost(story) == "5 1 0"
    indexing.index_all()
    assert cost(story) == "5 1 0"
    story.says("b", **used(thoughtsTokenCount=MILLION, totalTokenCount=3 * MILLION))
    assert cost(story) == "18 2 0"
    indexing.index_all()
    assert cost(story) == "18 2 0"
    indexing.reset()
    indexing.index_all()
    assert cost(story) == "18 2 0"


def test_a_model_without_a_price_makes_the_cost_a_minimum(story, price_file):
    price_file(PRICES)
    story.says("a", **used())
    story.says("b", **used("other"))
    story.says("c", **used(""))
    story.says("d", modelVersion="fast", usageMetadata={"totalTokenCount": 3})
    assert cost(story) == "5 4 3"


def test_a_model_that_costs_nothing_has_a_known_cost(story, price_file):
    price_file(PRICES)
    story.says("a", **used("free"))
    assert cost(story) == "0 1 0"


def test_with_an_invalid_price_file_nothing_is_read(story, price_file):
    price_file("price = 3")
    story.says("a", **used())
    with CaptureQueriesContext(connection) as queries:
        assert read_session_costs([story.session]) == {}
    assert len(queries) == 1, "the session's own row"


def test_each_call_costs_the_price_of_its_day(story, price_file):
    price_file(PRICES)
    story.says("a", **used("dated"))
    story.says("b", timestamp=START + 86_400, **used("dated"))
    indexing.index_all()
    assert cost(story) == "22 2 0"


@pytest.mark.parametrize("at", [-1e300, 1e300, 1e12, -5.0])
def test_hostile_times_and_numbers_of_tokens_do_not_stop_the_index(story, price_file, at):
    price_file(PRICES)
    story.says("a", timestamp=at, **used(prompt=10**30, totalTokenCount=10**30))
    indexing.index_all()
    assert story.session.indexed_seq == 1
    assert cost(story).endswith(" 1 0")


@pytest.mark.parametrize("seed", range(8))
def test_sums_equal_the_costs_of_the_events_one_by_one(story, price_file, seed):
    """Oracle: every event is priced alone, however much of the session is indexed."""
    price_file(PRICES)
    chance = random.Random(seed)
    expected, unpriced = 0.0, 0
    rates = {"fast": (1, 4), "free": (0, 0), "dated": (1, 1)}
    for number in range(chance.randrange(1, 150)):
        story.invocation = f"i{number // 5}"
        model = chance.choice([*rates, "other", ""])
        prompt, output = chance.randrange(1, 5000), chance.randrange(5000)
        story.says("x", **used(model, prompt, output)) if chance.random() < 0.8 else story.asks("no tokens")
        if story.event(story.session.last_seq).total_tokens:
            unpriced += model not in rates
            into, out = rates.get(model, (0, 0))
            expected += (prompt * into + output * out) / MILLION
        if chance.random() < 0.05:
            indexing.index_all()
    [session] = AgentSession.objects.all()
    result = read_session_costs([session]).get(session.pk)
    by_event = [
        item.cost
        for first in range(0, session.last_seq, 40)
        for group in read_timeline(session, windows.after(session, first)).groups
        for item in group.items
        if item.cost
    ]
    if result is None:
        assert not by_event
        return
    assert (result.amount, result.unpriced) == (pytest.approx(expected), unpriced)
    assert sum(each.amount for each in by_event) == pytest.approx(expected)
    assert sum(each.calls for each in by_event) == result.calls
    spending = total_spending(session.app_name, session.user_id)
    assert (spending.tokens, spending.cost.amount) == (session.total_tokens, pytest.approx(expected))


def test_an_invocation_that_begins_before_the_window_has_its_whole_cost(story, price_file):
    price_file(PRICES)
    for _ in range(3):
        story.says("a", **used())
    last = read_timeline(story.session, windows.newest(story.session, 1))
    [group] = last.groups
    assert (group.totals.tokens, group.totals.cost.amount) == (6 * MILLION, 15)
    assert group.items[0].cost.amount == 5


def test_runs_have_the_cost_of_their_own_events(story, price_file):
    price_file(PRICES)
    story.says("before", **used())
    story.says("mine", **used())
    columns = {"session_id": story.pk, "status": Run.Status.DONE, "created_at": 1.0, "request": "{}"}
    run = Run.objects.create(id="r1", first_seq=1, last_seq=2, **columns)
    [spending] = read_listed_spending([run, Run(id="r2", **columns)]).values()
    assert (spending.tokens, spending.cost.amount) == (2 * MILLION, 5)


def test_runs_have_the_cost_of_their_nested_runs(story, price_file):
    price_file(PRICES)
    story.says("before", **used())
    story.calls("helper", "c1")
    add(nest(story, "n1"), text("inside"), **used())
    columns = {"session_id": story.pk, "status": Run.Status.DONE, "created_at": 1.0, "request": "{}"}
    run = Run.objects.create(id="r1", first_seq=1, last_seq=2, **columns)
    [spending] = read_listed_spending([run]).values()
    assert (spending.tokens, spending.cost.amount) == (2 * MILLION, 5)


def test_spending_of_apps_and_users_leaves_others_and_realms_out(story, price_file):
    price_file(PRICES)
    story.says("a", **used())
    Story("s2", user="ben").says("b", **used())
    Story("s3", realm="eval/1").says("c", **used())
    assert total_spending("weather", "").cost.amount == 10
    indexing.index_all()
    assert total_spending("weather", "").cost.amount == 10
    assert total_spending("", "ben").cost.amount == 5
    assert total_spending("other", "").tokens == 0


def test_a_broken_price_file_makes_costs_unknown(story, price_file):
    price_file("[[price]]")
    story.says("a", **used())
    assert current_prices().problems
    assert read_session_costs([story.session]) == {}
