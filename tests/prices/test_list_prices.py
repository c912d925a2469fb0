"""List prices that ship with DevUI."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date

import pytest

from sessions_app.prices import list_prices
from sessions_app.prices.list_prices import find_list_price

TODAY = date(2026, 11, 30)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("gemini-2.5-flash", "gemini-2.5-flash"),
        ("gemini-2.5-flash-001", "gemini-2.5-flash"),
        ("models/gemini-2.5-flash", "gemini-2.5-flash"),
        ("projects/p/locations/l/publishers/google/models/gemini-2.5-flash-001", "gemini-2.5-flash"),
        ("gemini/gemini-2.5-pro", "gemini-2.5-pro"),
        ("Gemini-2.5-Pro", "gemini-2.5-pro"),
        ("openai/gpt-4o", "gpt-4o"),
        ("azure/gpt-4o", "gpt-4o"),
        ("gpt-5.2-20251211", "gpt-5.2"),
        ("anthropic/claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("vertex_ai/claude-sonnet-4-5", "claude-sonnet-4-5"),
    ],
)
def test_names_of_models_have_a_list_price(name, model):
    price = find_list_price(name, TODAY)
    assert price is not None
    assert price.model == model
    assert price.list_date.isoformat() == list_prices.read_list_date()


@pytest.mark.parametrize(
    "name",
    ["", "/", "fake", "ollama/gemma3", "openai/my-own", "models/", "projects/p/locations/l/endpoints/12"],
)
def test_other_names_have_no_list_price(name):
    assert find_list_price(name, TODAY) is None


def test_long_prompts_of_gemini_cost_more():
    price = find_list_price("gemini-2.5-pro", TODAY)
    assert (price.input, price.cached, price.output) == (1.25, 0.125, 10)
    assert price.long_prompts.above == 200_000
    assert (price.long_prompts.input, price.long_prompts.cached, price.long_prompts.output) == (2.5, 0.25, 15)


def test_a_list_price_holds_from_its_day():
    before, after = (find_list_price("gemini-3.6-flash", day) for day in (TODAY, date(2027, 1, 1)))
    assert (before.output, after.output) == (3.75, 7.5)


def test_every_entry_of_the_list_is_a_price():
    names = set()
    for provider in list_prices._read_list()["providers"]:
        for model in provider["models"]:
            assert re.compile(model["match"])
            for price in model["prices"]:
                list_prices.ListPrice.model_validate({**price, "model": model["model"], "list_date": TODAY})
                names.add(model["model"])
    assert len(names) > 200
    assert "Permission is hereby granted" in list_prices._read_list()["license"]


def test_the_list_is_read_when_it_is_first_needed():
    code = "from sessions_app.prices import list_prices as l; assert not l._read_list.cache_info().currsize"
    subprocess.run([sys.executable, "-c", code], check=True)
