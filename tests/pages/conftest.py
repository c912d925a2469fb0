"""Fixtures of page tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.store import finish_threads

AGENT = "from google.adk.agents import LlmAgent\n"


@pytest.fixture
def agents_dir(tmp_path: Path, settings: Any) -> Path:
    """A folder of two agents."""
    for name in ("weather", "writer"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.py").write_text(AGENT)
    settings.DEVUI_AGENTS_DIR = str(tmp_path)
    return tmp_path


@pytest.fixture
def no_agents(tmp_path: Path, settings: Any) -> Path:
    """An empty folder in place of the agents."""
    settings.DEVUI_AGENTS_DIR = str(tmp_path)
    return tmp_path


@pytest.fixture
def store(transactional_db: None) -> Iterator[None]:
    """A store that other threads see, as the asynchronous pages need it."""
    yield
    finish_threads()
