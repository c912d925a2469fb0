"""Prices of tokens and costs of model calls."""

from sessions_app.prices.price import Price
from sessions_app.prices.price_files import (
    NAME,
    check_prices,
    current_prices,
    find_price_path,
    find_prices,
    price_folders,
    read_prices,
)
from sessions_app.prices.price_table import (
    DEFAULT_CURRENCY,
    KINDS,
    NO_PRICES,
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
    "check_prices",
    "current_prices",
    "find_price_path",
    "find_prices",
    "price_folders",
    "prices_from_json",
    "read_prices",
]
