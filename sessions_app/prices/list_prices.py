"""List prices of models, which ship with DevUI: `list_prices.json`, from the data of `genai-prices` (MIT).

The list is read when a price is first looked up in it. `make list-prices` updates the file; DevUI itself never does.
"""

from __future__ import annotations

import json
import re
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any

from sessions_app.prices.price import Price

LIST = Path(__file__).with_name("list_prices.json")

VERSION_SUFFIX = re.compile(r"-(?:\d{3}|\d{4}-?\d\d-?\d\d)$")
"""Version of a model that the list knows without one: `gemini-2.5-flash-001`, `gpt-5.2-20251211`."""


class ListPrice(Price):
    """A price of the list of a day."""

    list_date: date


def read_list_date() -> str:
    """Return the day of the list."""
    return str(_read_list()["date"])


def read_list_source() -> str:
    """Return the name and version of the package whose data the list is."""
    return str(_read_list()["source"])


@lru_cache(maxsize=2_000)
def find_list_price(model: str, day: date) -> ListPrice | None:
    """Return the list price of a model on a day (UTC).

    The name is one of the provider (`gemini-2.5-flash`), with a path (`models/gemini-2.5-flash`) or with the provider
    as LiteLLM writes it (`openai/gpt-5`). Other providers, such as `ollama/…`, have no list price.
    """
    provider, name = _split_provider(model.lower())
    if provider is None:
        return None
    entry = _find_model(provider, name) or _find_model(provider, VERSION_SUFFIX.sub("", name))
    if entry is None:
        return None
    valid = [price for price in entry["prices"] if date.fromisoformat(price.get("from", "0001-01-01")) <= day]
    if not valid:
        return None
    return ListPrice.model_validate({**valid[-1], "model": entry["model"], "list_date": read_list_date()})


def _split_provider(model: str) -> tuple[dict[str, Any] | None, str]:
    """Return the provider of a model, None for an unknown one, and the model's name there."""
    providers = _read_list()["providers"]
    prefix, _, name = model.partition("/")
    if not name:
        by_name = (item for item in providers if item["match"] and re.search(item["match"], model))
        return next(by_name, None), model
    if "models" in model.split("/")[:-1]:  # a resource of the Gemini API or of Vertex AI
        prefix, name = "google", model.rpartition("/")[2]
    by_prefix = [
        item
        for item in providers
        if item["name"] == prefix or (item["names"] and re.search(item["names"], prefix))
    ]
    return min(by_prefix, key=lambda item: item["name"] != prefix, default=None), name


def _find_model(provider: dict[str, Any], name: str) -> dict[str, Any] | None:
    """Return the first model of a provider that a name matches, or of the others whose models it offers."""
    by_name = {item["name"]: item for item in _read_list()["providers"]}
    for item in (provider, *(by_name[other_name] for other_name in provider["others"])):
        for model in item["models"]:
            if re.search(model["match"], name):
                return dict(model)
    return None


@lru_cache(maxsize=1)
def _read_list() -> dict[str, Any]:
    return dict(json.loads(LIST.read_text(encoding="utf-8")))
