"""Texts of limited length. Pure."""

from __future__ import annotations


def truncate(text: str, limit: int) -> str:
    """Return at most `limit` characters of a text; the last one is an ellipsis if it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
