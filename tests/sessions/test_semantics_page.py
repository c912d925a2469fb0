"""docs/semantics.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_every_choice_names_a_test_that_there_is():
    page = (ROOT / "docs/semantics.md").read_text()
    folders = (ROOT / "tests" / name for name in ("sessions", "remote"))
    code = "\n".join(file.read_text() for folder in folders for file in folder.rglob("test_*.py"))
    test_names, defined = re.findall(r"`(test_\w+)`", page), set(re.findall(r"def (test_\w+)", code))
    assert len(test_names) > 30
    assert not [name for name in test_names if name not in defined]


def test_every_row_of_a_choice_names_a_test():
    tables = (ROOT / "docs/semantics.md").read_text().split("\n\n")
    choices = [table.splitlines()[2:] for table in tables if table.partition("\n")[0].endswith("| test |")]
    assert len(choices) == 2
    assert not [row for table in choices for row in table if "`test_" not in row]
