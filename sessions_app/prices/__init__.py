"""Prices of tokens and costs of model calls."""

from sessions_app.prices.price_files import NAME, current_prices, find_prices, price_folders, read_prices
from sessions_app.prices.price_table import (
    DEFAULT_CURRENCY,
    KINDS,
    NO_PRICES,
    Price,
    Prices,
    Usage,
    prices_from_json,
)

__all__ = [
    "DEFAULT_CURRENCY",
    "KINDS",
    "NAME",
    "NO_PRICES",
    "Price",
    "Prices",
    "Usage",
    "current_prices",
    "find_prices",
    "price_folders",
    "prices_from_json",
    "read_prices",
]
