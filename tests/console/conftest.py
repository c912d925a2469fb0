"""Fixtures that the console's tests share with those of runs and pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from tests.console.runs import STAGE
from tests.e2e.own_server import serving
from tests.pages.conftest import agents_dir
from tests.runtime.conftest import store

__all__ = ["agents_dir", "store"]


@pytest.fixture(scope="module")
def speaker_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the agent that can be spoken with."""
    folder = tmp_path_factory.mktemp("speaking")
    shutil.copytree(
        STAGE / "speaker", folder / "agents" / "speaker", ignore=shutil.ignore_patterns("__pycache__")
    )
    with serving(folder) as served:
        yield served
