"""Price file: validity of prices, unknown prices, and errors of the file."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from evals_app.files import BadFile
from evals_app.runs import prices

FILE = """
currency = "EUR"

[[price]]
model = "gemini-2.5-flash"
input = 0.30
cached = 0.075
output = 2.50

[[price]]
model = "gemini-2.5-flash"
from = 2026-01-01
input = 0.60
output = 5

[[price]]
model = "gemini-*"
input = 1
output = 1
"""
USAGE = {"prompt": 1_000_000, "cached": 400_000, "output": 2_000_000, "calls": 3}


def at(year):
    return datetime(year, 6, 1, tzinfo=UTC).timestamp()


@pytest.fixture
def table(tmp_path):
    (tmp_path / "prices.toml").write_text(FILE)
    return prices.find_prices([tmp_path])


def test_cached_tokens_have_a_price_of_their_own_and_are_not_paid_twice(table):
    assert table.currency == "EUR"
    assert table.cost({"gemini-2.5-flash": USAGE}, at(2025)) == pytest.approx(
        0.6 * 0.3 + 0.4 * 0.075 + 2 * 2.5
    )


def test_newest_price_applies_and_cached_tokens_default_to_input(table):
    assert table.cost({"gemini-2.5-flash": USAGE}, at(2026)) == pytest.approx(0.6 + 10)


@pytest.mark.parametrize(
    "name", ["gemini-3-pro", "models/gemini-3-pro", "publishers/google/models/gemini-3-pro"]
)
def test_a_pattern_names_models_with_and_without_their_vendor(table, name):
    assert table.cost({name: USAGE}, at(2025)) == pytest.approx(3.0)


def test_model_without_price_makes_cost_unknown(table):
    assert table.cost({"other": USAGE}, at(2025)) is None
    assert table.cost({"gemini-2.5-flash": USAGE, "other": USAGE}, at(2025)) is None
    assert table.cost({}, at(2025)) is None
    untold = {"gemini-2.5-flash": {"prompt": 0, "output": 0, "cached": 0, "calls": 2}}
    assert table.cost(untold, at(2025)) is None, "a model that told no tokens did not answer for nothing"
    assert table.find_unpriced(["other", "gemini-x", "other"]) == ["other"]


def test_a_price_does_not_hold_before_its_day(tmp_path):
    (tmp_path / "prices.toml").write_text('[[price]]\nmodel = "m"\nfrom = 2026-01-01\ninput = 1\noutput = 1')
    table = prices.find_prices([tmp_path / "nowhere", tmp_path])
    assert table.cost({"m": USAGE}, at(2025)) is None
    assert table.cost({"m": USAGE}, at(2026)) == pytest.approx(3.0)


def test_without_a_file_nothing_has_a_price(tmp_path):
    assert prices.find_prices([tmp_path]) == prices.NO_PRICES
    assert prices.NO_PRICES.cost({"m": USAGE}, at(2025)) is None
    assert prices.NO_PRICES.as_json() == {}


def test_run_keeps_prices_of_its_start(table):
    stored_table = json.loads(json.dumps(table.as_json()))
    assert prices.prices_from_json(stored_table) == table
    assert prices.prices_from_json({}) == prices.NO_PRICES


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[price]]\nmodel = "m"\ninput = -1\noutput = 1',
            "price[0].input: must be greater than or equal to 0",
        ),
        ('[[price]]\nmodel = "m"\ninput = 1', "price[0].output: is required"),
        ('[[price]]\nmodel = "m"\ninput = true\noutput = 1', "price[0].input: must be a number"),
        ("[[price]]\ninput = 1\noutput = 1", "price[0].model: is required"),
        (
            '[[price]]\nmodel = "m"\ninput = 1\noutput = 1\nfrom = "soon"',
            "price[0].from: must be a valid date",
        ),
        ('[[price]]\nmodel = "m"\ninput = 1\noutput = 1\nper = 3', "price[0].per: is no known field"),
        ("price = 3", "price: must be a list"),
        ("price = [3]", "price[0]: must be an object"),
        ("cost = 3", "cost: is no known field"),
        ("currency = 3", "currency: must be text"),
        ('currency = "a\\u0000"', "currency: must be printable text"),
        ('currency = "the currency of another country"', "at most 12 characters"),
        ("currency = ", "cannot be read"),
    ],
)
def test_invalid_price_file_is_reported_and_unused(tmp_path, text, message):
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(BadFile) as refused:
        prices.read_prices(path)
    assert message in refused.value.message
    broken = prices.find_prices([tmp_path])
    assert broken.prices == ()
    assert broken.problems
