"""Costs on the session page, in lists, on the page of prices and in the API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sessions_app.search import indexing
from tests.pages.html import table
from tests.prices.price_list import PRICES, used
from tests.store import finish_threads
from tests.timeline.story import Story


@pytest.fixture
def story(transactional_db: None) -> Iterator[Story]:
    """A session that the threads of the API see."""
    yield Story()
    finish_threads()


def test_session_page_shows_cost_of_event_invocation_and_session(story, price_file, get):
    price_file(PRICES)
    story.says("a", **used())
    story.says("b", **used("other"))
    page = get(f"/sessions/id/{story.pk}/")
    assert "4.00M tok · ≥ USD 5.00" in page.one("h2", css="invocation-head").text
    assert "≥ USD 5.00, 1 call without a price" in page.one("section", css="inspector").text
    assert page.one("article", data_seq="1").one(title="Tokens, USD 5.00")
    inspector = get(f"/sessions/id/{story.pk}/?seq=2").one("section", css="inspector")
    [link] = [each for each in inspector.all("a") if each.text == "cost unknown"]
    assert link.attrs["href"] == "/evals/prices/"


def test_lists_show_cost_below_tokens(story, price_file, get):
    story.says("a", **used("free"))
    assert table(get("/sessions/"))[0]["Tokens"] == "2.00M"
    price_file(PRICES)
    assert table(get("/sessions/"))[0]["Tokens"] == "2.00MUSD 0.00"
    assert get("/sessions/?user=ann").one(css="spending").attrs["hx-get"] == "/spending/?user=ann"
    assert get("/spending/?user=ann").text == "All sessions of user ann: 2.00M tokens · USD 0.00"
    assert get("/spending/?app=weather").text == "All sessions of weather: 2.00M tokens · USD 0.00"
    assert get("/spending/?user=ann&app=weather").text.startswith("All sessions of user ann in weather: ")
    assert get("/spending/").text == "All sessions: 2.00M tokens · USD 0.00"


def test_prices_page_lists_models_in_use_and_what_is_missing(story, price_file, get):
    story.says("a", **used("new <model>"))
    story.says("b", **used("free"))
    indexing.index_all()
    assert "costs are unknown" in get("/evals/prices/").one(css="notice").text
    price_file(PRICES)
    page = get("/evals/prices/")
    models = page.one("section", aria_labelledby="models-title").all("th", css="cell-main")
    assert [model.text for model in models] == ["new <model>", "free"]
    missing = page.one("section", aria_labelledby="missing-title").one("pre").text
    assert missing == '[[price]] model = "new <model>" input = … output = …'


def test_api_has_cost_beside_tokens(story, price_file, client):
    story.says("a", **used())
    assert client.get(f"/api/v1/sessions/{story.pk}").json()["cost"] is None
    price_file(PRICES)
    expected = {"amount": 5.0, "currency": "USD", "calls": 1, "unpriced": 0}
    assert client.get(f"/api/v1/sessions/{story.pk}").json()["cost"] == expected
    assert client.get("/api/v1/sessions").json()["sessions"][0]["cost"] == expected
