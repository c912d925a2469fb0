"""Costs on the session page, in lists, on the page of prices and in the API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sessions_app.prices.list_prices import read_list_date
from sessions_app.search import indexing
from tests.pages.html import parse, table
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
    expected = {"amount": 5.0, "currency": "USD", "calls": 1, "unpriced": 0, "list_date": ""}
    assert client.get(f"/api/v1/sessions/{story.pk}").json()["cost"] == expected
    assert client.get("/api/v1/sessions").json()["sessions"][0]["cost"] == expected


def test_costs_by_list_price_name_its_date(story, price_file, get, client):
    story.says("a", **used("gemini-2.5-flash"))
    overview = get(f"/sessions/id/{story.pk}/").one("section", css="inspector")
    assert overview.one("span", title=f"By list prices of {read_list_date()}").text == "USD 2.80"
    assert table(get("/sessions/"))[0]["Tokens"] == "2.00MUSD 2.80"
    cost = client.get(f"/api/v1/sessions/{story.pk}").json()["cost"]
    assert (cost["amount"], cost["list_date"]) == (2.8, read_list_date())


def test_prices_page_tells_list_prices_from_those_of_the_file(story, price_file, get):
    story.says("a", **used("gemini-2.5-flash"))
    indexing.index_all()

    def price():
        return get("/evals/prices/").one("section", aria_labelledby="models-title").one("tbody").text

    assert price().endswith("list price")
    assert read_list_date() in get("/evals/prices/").one(css="prices-used").text
    price_file('[[price]]\nmodel = "gemini-*"\ninput = 7\noutput = 8')
    assert "USD 7.00 in, USD 8.00 out" in price()
    assert price().endswith("from the file")


PRICE_OF_FAST = '[[price]]\nmodel = "fast"\ninput = 1\noutput = 2\n'


def save(client, text, seen):
    return client.post("/evals/prices/", {"text": text, "seen": seen})


def seen_digest(get):
    return get("/evals/prices/").one("input", name="seen").attrs["value"]


@pytest.mark.django_db
def test_price_file_is_created_and_changed_on_its_page(price_file, get, client, tmp_path):
    assert save(client, PRICE_OF_FAST.replace("\n", "\r\n"), seen_digest(get)).status_code == 302
    assert (tmp_path / "prices.toml").read_text() == PRICE_OF_FAST
    assert get("/evals/prices/").one("textarea").text == " ".join(PRICE_OF_FAST.split())
    assert save(client, PRICE_OF_FAST + "# new\n", seen_digest(get)).status_code == 302
    assert (tmp_path / "prices.toml").read_text().endswith("# new\n")


@pytest.mark.django_db
def test_invalid_price_file_is_not_stored_and_stays_in_the_form(price_file, client, tmp_path, get):
    response = save(client, "[[price]]\nmodel = 3", seen_digest(get))
    page = parse(response.content)
    assert response.status_code == 400
    assert "is required" in page.one(css="notice-danger").text
    assert page.one("textarea").text == "[[price]] model = 3"
    assert not (tmp_path / "prices.toml").exists()


@pytest.mark.django_db
def test_price_file_that_changed_meanwhile_is_not_overwritten(price_file, client, tmp_path, get):
    seen = seen_digest(get)
    price_file(PRICES)
    assert save(client, PRICE_OF_FAST, seen).status_code == 409
    assert (tmp_path / "prices.toml").read_text() == PRICES


@pytest.mark.django_db
def test_refused_text_is_saved_after_the_changed_file_was_shown(price_file, client, tmp_path, get):
    seen = seen_digest(get)
    price_file(PRICES)
    page = parse(save(client, PRICE_OF_FAST, seen).content)
    assert page.one("section", id="file").all("pre")[0].text == " ".join(PRICES.split())
    assert page.one("textarea").text == " ".join(PRICE_OF_FAST.split())
    assert save(client, PRICE_OF_FAST, page.one("input", name="seen").attrs["value"]).status_code == 302
    assert (tmp_path / "prices.toml").read_text() == PRICE_OF_FAST
