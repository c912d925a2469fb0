"""The pytest plugin: an option for the store, and a summary of the runs.

It imports nothing of Django, ADK or DevUI, so that suites without evals do not pay for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

STORE = ".devui/devui.sqlite3"
"""Store of the results, relative to the suite's folder: the same that `devui web` uses there."""

_config: pytest.Config | None = None
_run_facts: list[Mapping[str, Any]] = []


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for another store."""
    help_text = f"DevUI's store for the results of evalsets (default: sqlite:///{STORE})"
    parser.getgroup("devui").addoption("--devui-store", metavar="URL", help=help_text)
    parser.addini("devui_store", help_text, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the configuration: tests are created before any fixture could provide it."""
    global _config
    _config = config


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the runs."""
    if not _run_facts:
        return
    terminalreporter.section("DevUI evals")
    for facts in _run_facts:
        counts = facts["counts"]
        summary = f"{counts['passed']} of {counts['total']} attempts passed, {facts['status']}"
        terminalreporter.line(f"{facts['path']}: {summary} (run {facts['id']} in {store_url()})")
    _run_facts.clear()


def record_run(facts: Mapping[str, Any]) -> None:
    """Record an ended run for the summary."""
    _run_facts.append(facts)


def suite_folder() -> Path:
    """Return the suite's folder."""
    return _config.rootpath if _config is not None else Path.cwd()


def store_url() -> str:
    """Return the URL of the store for results: the configured one, else a file below the suite's folder.

    `DATABASE_URL` is ignored: in a suite it may name the suite's own database.
    """
    configured = (
        (_config.getoption("devui_store") or _config.getini("devui_store")) if _config is not None else ""
    )
    url = str(configured or os.environ.get("DEVUI_STORE", ""))
    return url or f"sqlite:///{suite_folder() / STORE}"
