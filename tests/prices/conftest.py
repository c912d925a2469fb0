"""A price file in the data folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PriceFile = Callable[[str], None]


@pytest.fixture
def price_file(tmp_path: Path, settings: Any) -> PriceFile:
    """Function that writes the price file of this server, which has none at first."""
    settings.DEVUI_AGENTS_DIR, settings.DATA_DIR = "", tmp_path
    return lambda entries: (tmp_path / "prices.toml").write_text(entries) and None
