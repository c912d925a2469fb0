"""Cells of CSV files."""

from __future__ import annotations

import pytest

from sessions_app.presentation import csv_cells


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠"])
def test_text_that_a_spreadsheet_would_execute_gets_an_apostrophe(start):
    assert csv_cells.csv_cell(f"{start}1+1") == f"'{start}1+1"


@pytest.mark.parametrize("value", ["1+1", "", " =", -1, None, 0.5])
def test_other_values_stay_as_they_are(value):
    assert csv_cells.csv_cell(value) == value
