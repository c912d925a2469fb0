"""Fixture: packages with entry points, as if they were installed."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from evals_app.metrics import catalog
from sessions_app.plugins import load_plugins
from sessions_app.problems import all_detectors

InstallPlugin = Callable[[str, str, str], None]
"""Puts a module with this name and source on the path; an entry point of the group names it."""


@pytest.fixture
def install_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InstallPlugin]:
    """Install modules as plugins until the end of the test."""
    modules = []

    def install(group: str, name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        metadata = tmp_path / f"{name}-1.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {name}\n")
        modules.append(name)
        importlib.invalidate_caches()
        forget()

    def forget() -> None:
        load_plugins.cache_clear()
        all_detectors.cache_clear()
        catalog.own_metrics.cache_clear()

    monkeypatch.syspath_prepend(str(tmp_path))
    yield install
    for name in modules:
        sys.modules.pop(name, None)
    forget()
