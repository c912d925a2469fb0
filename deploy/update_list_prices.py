"""Write the list prices that DevUI ships from the data of the package `genai-prices` (MIT): `make list-prices`.

DevUI does not depend on the package: it brings an HTTP client of its own and can update itself over the network.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

LIST = Path(__file__).parent.parent / "sessions_app" / "prices" / "list_prices.json"

PROVIDERS = ("anthropic", "aws", "azure", "deepseek", "google", "groq", "mistral", "openai", "x-ai")
"""Providers of agents' models, in the order of the package, which is the order of the search for a name."""

KINDS = {"input": "input_mtok", "cached": "cache_read_mtok", "output": "output_mtok"}

OTHER_OUTPUT = ("output_audio_mtok", "output_image_mtok", "output_video_mtok")
"""Prices of output that DevUI does not count apart: the cost of such a model stays unknown."""


def escape(text: str) -> str:
    """Return the regular expression of a text in lower case."""
    return re.escape(text.lower()).replace("\\-", "-")


def clause_regex(clause: Any) -> str:
    """Return a regular expression, to search for, that matches what a clause of the package matches."""
    match type(clause).__name__:
        case "ClauseEquals":
            return f"^{escape(clause.equals)}$"
        case "ClauseStartsWith":
            return f"^{escape(clause.starts_with)}"
        case "ClauseEndsWith":
            return f"{escape(clause.ends_with)}$"
        case "ClauseContains":
            return escape(clause.contains)
        case "ClauseRegex":
            return str(clause.regex)
        case "ClauseOr":
            return f"(?:{'|'.join(map(clause_regex, clause.or_))})"
        case "ClauseAnd":
            return "^" + "".join(
                f"(?={pattern[1:]})" if pattern.startswith("^") else f"(?=.*{pattern})"
                for pattern in map(clause_regex, clause.and_)
            )
        case name:
            raise ValueError(f"unknown clause: {name}")


def price_amounts(prices: Any, above: int | None = None) -> dict[str, float]:
    """Return the prices for 1,000,000 tokens, with `above` those of prompts with more tokens than that."""
    amounts = {}
    for kind, key in KINDS.items():
        price = getattr(prices, key)
        if price is not None and hasattr(price, "tiers"):
            price = next((tier.price for tier in price.tiers if tier.start == above), price.base)
        if price is not None:
            amounts[kind] = float(price)
    return amounts


def list_model_prices(model: Any) -> Iterator[dict[str, Any]]:
    """Yield the prices of a model for text, the oldest first; none if it has none or makes something else."""
    conditions = model.prices if isinstance(model.prices, list) else [None]
    for condition in conditions:
        constraint, prices = (condition.constraint, condition.prices) if condition else (None, model.prices)
        amounts = price_amounts(prices)
        if hasattr(constraint, "start_time") or any(getattr(prices, key) for key in OTHER_OUTPUT):
            continue
        if not {"input", "output"} <= amounts.keys():
            continue
        starts = {tier.start for key in KINDS.values() for tier in getattr(getattr(prices, key), "tiers", ())}
        if len(starts) > 1:
            raise ValueError(f"{model.id} has several tiers")
        price: dict[str, Any] = {"from": constraint.start_date.isoformat()} if constraint else {}
        price |= amounts
        for start in starts:
            price["long_prompts"] = {"above": start, **price_amounts(prices, start)}
        yield price


def list_provider(provider: Any) -> dict[str, Any]:
    """Return a provider with the regular expressions of its own name and of its models."""
    models = [
        {"model": model.id, "match": clause_regex(model.match), "prices": list(list_model_prices(model))}
        for model in provider.models
    ]
    return {
        "name": provider.id,
        "names": clause_regex(provider.provider_match) if provider.provider_match else "",
        "match": clause_regex(provider.model_match) if provider.model_match else "",
        "others": [name for name in provider.fallback_model_providers or () if name in PROVIDERS],
        "models": models,
    }


def main(day: str) -> None:
    """Write the list; `day` is that of the package's release."""
    from genai_prices.data import providers  # type: ignore[import-not-found]

    [license_file] = [path for path in metadata.files("genai-prices") or () if path.name == "LICENSE"]
    content = {
        "source": f"genai-prices {metadata.version('genai-prices')}",
        "date": day,
        "license": license_file.read_text(),
        "providers": [list_provider(provider) for provider in providers if provider.id in PROVIDERS],
    }
    lines = json.dumps(content, ensure_ascii=False, separators=(", ", ": "))
    LIST.write_text(lines.replace('{"model": ', '\n{"model": ').replace('{"name": ', '\n{"name": ') + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
