"""Price file: validity of prices, unknown prices, and errors of the file."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app import prices
from sessions_app.file_problems import BadFile
from sessions_app.prices import Price, Prices
from sessions_app.prices.costs import usages_cost
from sessions_app.store.events.call_usage import read_call_usage, split_tokens
from sessions_app.store.events.token_counts import count_tokens

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


def test_thoughts_have_a_price_of_their_own_and_are_not_paid_twice():
    of_thoughts = Price(model="m", input=1, output=2, thoughts=7)
    tokens = {"prompt": 0, "output": 3_000_000, "thoughts": 1_000_000}
    assert of_thoughts.cost(tokens) == 2 * 2 + 7
    assert of_thoughts.model_copy(update={"thoughts": None}).cost(tokens) == 3 * 2


def test_a_price_file_that_is_too_large_is_refused_not_read_in_part(tmp_path):
    entry = "[[price]]\nmodel = 'm'\nfrom = 2026-01-01\ninput = 1\noutput = 2\n"
    (tmp_path / "prices.toml").write_text(entry + "# more\n" * 200_000)
    [problem] = prices.find_prices([tmp_path]).problems
    assert "larger than 1 MB" in problem.what


def test_a_price_file_that_is_a_pipe_is_a_problem(tmp_path):
    os.mkfifo(tmp_path / "prices.toml")
    [problem] = prices.find_prices([tmp_path]).problems
    assert "is not a regular file" in problem.what


def test_a_price_of_0_is_a_price(table):
    free = Prices((Price(model="local-*", input=0, output=0),))
    assert free.cost({"local-llama": USAGE}, at(2026)) == 0.0
    assert free.find_unpriced(["local-llama"]) == []
    assert free.cost({"local-llama": USAGE, "other": USAGE}, at(2026)) is None


@pytest.mark.parametrize(
    ("reported", "output", "thoughts", "prompt"),
    [
        ((10, 20, 5, 0, 35), 25, 5, 10),  # Gemini: thoughts beside the output
        ((10, 20, 5, 0, 30), 20, 5, 10),  # LiteLLM, OpenAI: within it
        ((10, 20, 5, 0, None), 25, 5, 10),
        ((10, 20, 5, 0, 42), 25, 5, 17),  # the results of Gemini's own tools
        ((20, 20, 5, 0, 40), 20, 5, 20),  # with the results of its own tools in the prompt
        ((None, None, 5, None, 5), 5, 5, 0),
        ((None, None, None, None, 9), 0, 0, 0),  # nobody knows which kind these are
    ],
)
def test_tokens_of_a_call_are_counted_once_whoever_reports_them(reported, output, thoughts, prompt):
    tokens = split_tokens(*reported)
    assert (tokens["output"], tokens["thoughts"], tokens["prompt"]) == (output, thoughts, prompt)


@pytest.mark.parametrize(
    ("total", "counted"),
    [(15.0, 15), (15.5, 0), (float("nan"), 0), (float("inf"), 0), (True, 0), ("15", 0), (-1, 0)],
)
def test_tokens_may_be_floats_of_whole_numbers(total, counted):
    assert count_tokens({"total_token_count": total}.get).get("total", 0) == counted


M = 1_000_000
PER_MILLION = Prices((Price(model="m", input=1, cached=0.1, output=10, thoughts=100),))


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"prompt": M, "candidates": M, "thoughts": M, "total": 3 * M}, 111),
        ({"prompt": M, "candidates": 2 * M, "thoughts": M, "total": 3 * M}, 111),
        ({"prompt": M, "tool_use_prompt": M, "candidates": M, "total": 3 * M}, 12),
        ({"prompt": M, "tool_use_prompt": M, "candidates": M, "thoughts": M, "total": 4 * M}, 112),
        ({"prompt": M, "tool_use_prompt": M, "candidates": 2 * M, "thoughts": M, "total": 4 * M}, 112),
        ({"prompt": M, "candidates": M, "thoughts": M}, 111),
        ({"prompt": M, "tool_use_prompt": M, "candidates": M}, 12),
        ({"prompt": 2 * M, "cached_content": M, "candidates": M}, 11.1),
        ({"prompt": M, "thoughts": M, "total": 2 * M}, 101),
        ({"prompt": M}, 1),
    ],
)
def test_a_call_costs_the_same_in_every_shape_of_usage(usage, cost):
    counts = count_tokens(lambda name: usage.get(name.removesuffix("_token_count")))
    call = read_call_usage({"tokens": counts, "model": "m"}, 0.0)
    assert usages_cost([call], PER_MILLION).amount == pytest.approx(cost)


COUNT = st.integers(0, 1_000)
PRICE = st.none() | st.integers(0, 50).map(float)


@given(COUNT, COUNT, COUNT, COUNT, st.booleans(), PRICE, PRICE)
def test_cost_is_the_sum_of_the_price_of_every_token(fresh, cached, answer, thoughts, within, cheap, thought):
    """Oracle: every token is paid once, by its own kind."""
    price = Price(model="m", input=3, output=5, cached=cheap, thoughts=thought)
    reported_output = answer + thoughts if within else answer
    tokens = split_tokens(
        fresh + cached, reported_output, thoughts, cached, fresh + cached + answer + thoughts
    )
    cheap, thought = 3 if cheap is None else cheap, 5 if thought is None else thought
    paid = [3] * fresh + [cheap] * cached + [5] * answer + [thought] * thoughts
    assert price.cost(tokens) == pytest.approx(sum(paid) / 1_000_000)


def test_a_changed_file_is_read_again(tmp_path):
    file = tmp_path / "prices.toml"
    for price in (1, 25):
        file.write_text(f'[[price]]\nmodel = "m"\ninput = {price}\noutput = 0')
        assert prices.find_prices([tmp_path]).cost({"m": USAGE}, at(2026)) == pytest.approx(price)


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


def test_without_a_file_only_listed_models_have_a_price(tmp_path):
    listed = prices.find_prices([tmp_path])
    assert listed.cost({"gemini-2.5-flash": USAGE}, at(2026)) == pytest.approx(
        0.6 * 0.3 + 0.4 * 0.03 + 2 * 2.5
    )
    assert listed.cost({"m": USAGE}, at(2025)) is None
    assert prices.NO_PRICES.cost({"m": USAGE}, at(2025)) is None
    assert prices.NO_PRICES.as_json() == {}


def test_run_keeps_prices_of_its_start(table):
    stored_table = json.loads(json.dumps(table.as_json()))
    assert prices.prices_from_json(stored_table) == table
    assert "thoughts" not in stored_table["price"][0], "runs of earlier versions have equal prices"
    assert prices.prices_from_json({}) == prices.NO_PRICES
    listed = prices.find_prices([])
    assert prices.prices_from_json(listed.as_json()) == listed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[[price]]\nmodel = "m"\ninput = 1e308\noutput = 1',
            "price[0].input: must be less than or equal to 1000000000",
        ),
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


def test_the_file_replaces_list_prices_model_by_model(tmp_path):
    (tmp_path / "prices.toml").write_text('[[price]]\nmodel = "gpt-4o"\ninput = 1\noutput = 1')
    table = prices.find_prices([tmp_path])
    assert table.cost({"openai/gpt-4o": USAGE}, at(2026)) == pytest.approx(3.0)
    assert table.cost({"gpt-4.1": USAGE}, at(2026)) is not None


@pytest.mark.parametrize("text", ['currency = "EUR"', "price = 3"], ids=["other currency", "invalid file"])
def test_list_prices_do_not_apply_beside(tmp_path, text):
    (tmp_path / "prices.toml").write_text(text)
    assert prices.find_prices([tmp_path]).cost({"gpt-4o": USAGE}, at(2026)) is None


LONG = "long_prompts = { above = 200_000, input = 2, output = 20 }"


def test_long_prompts_have_prices_of_their_own(tmp_path):
    (tmp_path / "prices.toml").write_text(f'[[price]]\nmodel = "m"\ninput = 1\noutput = 10\n{LONG}')
    table = prices.find_prices([tmp_path])

    def cost(prompt, calls=1):
        return table.cost({"m": {"prompt": prompt, "output": 0, "calls": calls}}, at(2026))

    assert cost(200_000) == pytest.approx(0.2)
    assert cost(200_001) == pytest.approx(0.400_002)
    assert cost(400_000, calls=2) == pytest.approx(0.4), "two short prompts"
    assert prices.prices_from_json(table.as_json()) == table
