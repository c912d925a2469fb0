"""Links between the numbered pages of a list. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.paginator import Page


def number_pages(page: Page[Any], url: Callable[[int], str]) -> dict[str, Any]:
    """Return what the template of a pager needs for one of numbered pages.

    Args:
        url: returns the address of the page with a number.
    """
    return {
        "page": page,
        "first_url": url(page.number - 1) if page.has_previous() else "",
        "next_url": url(page.number + 1) if page.has_next() else "",
        "first_label": "Previous",
        "next_label": "Next",
    }
