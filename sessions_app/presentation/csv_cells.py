"""Cells of CSV files that spreadsheets open."""

from __future__ import annotations

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""Beginnings of texts that a spreadsheet executes as a formula. Excel reads full-width signs, too."""


def csv_cell(value: object) -> object:
    """Return a value for a cell; a text that would be a formula gets an apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA_STARTS) else value
