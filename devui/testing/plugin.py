"""The pytest plugin: an option for the store, a folder for the processes of a session, and a summary of the runs.

It imports nothing of Django, ADK or DevUI, so that suites without evals do not pay for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

STORE = ".devui/devui.sqlite3"
"""Store of the results, relative to the suite's folder: the same that `devui web` uses there."""

FOLDER_INPUT = "devui_folder"
"""Key of the shared folder in the input of xdist's workers."""

is_evaluating = False
"""Tells whether this is the process that evaluates an agent, which may import a module with tests for it."""

_sessions: list[SuiteSession] = []
"""The session of pytest in this process; a suite of a plug-in may run another one inside."""


class SuiteSession:
    """A session of pytest: its configuration, and the folder that its processes share.

    Under xdist the controller creates the folder, names it to its workers and removes it. A worker on another machine
    has a folder of its own.
    """

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        given = getattr(config, "workerinput", {}).get(FOLDER_INPUT, "")
        self._shared = Path(given) if given and Path(given).is_dir() else None
        self._own: Path | None = None

    @property
    def folder(self) -> Path:
        """The folder, created on first use. Only this user can read it."""
        if self._shared is None:
            self._shared = self._own = Path(tempfile.mkdtemp(prefix="devui-suite-"))
        return self._shared

    def pytest_configure_node(self, node: Any) -> None:
        """Name the folder to a worker of xdist."""
        node.workerinput[FOLDER_INPUT] = str(self.folder)

    def read_run_facts(self) -> list[dict[str, Any]]:
        """Return the facts of the runs of all processes, the oldest first."""
        files = self._shared.glob("run-*.json") if self._shared is not None else ()
        facts = [json.loads(file.read_text(encoding="utf-8")) for file in files]
        return sorted(facts, key=lambda run: run["created_at"])

    def close(self) -> None:
        """Remove the folder if this process created it."""
        if self._own is not None:
            shutil.rmtree(self._own, ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for another store."""
    help_text = f"DevUI's store for the results of evalsets (default: sqlite:///{STORE})"
    parser.getgroup("devui").addoption("--devui-store", metavar="URL", help=help_text)
    parser.addini("devui_store", help_text, default="")


def pytest_configure(config: pytest.Config) -> None:
    """Begin the session: tests are created before any fixture could provide its configuration."""
    session = SuiteSession(config)
    _sessions.append(session)
    if hasattr(config.hook, "pytest_configure_node"):  # of xdist
        config.pluginmanager.register(session, "devui-session")


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the session."""
    if _sessions and _sessions[-1].config is config:
        _sessions.pop().close()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List the runs."""
    runs = _sessions[-1].read_run_facts()
    if not runs:
        return
    terminalreporter.section("DevUI evals")
    for facts in runs:
        counts = facts["counts"]
        summary = f"{counts['passed']} of {counts['total']} attempts passed, {facts['status']}"
        terminalreporter.line(f"{facts['path']}: {summary} (run {facts['id']} in {store_url()})")


def record_run(facts: Mapping[str, Any]) -> None:
    """Record an ended run for the summary of the session."""
    if _sessions:
        from devui.testing.shared_replies import write_json  # suites without evals do not import it

        write_json(_sessions[-1].folder / f"run-{facts['id']}.json", facts)


@contextlib.contextmanager
def open_shared_folder() -> Iterator[Path]:
    """Return the folder that the processes of the session share; outside of pytest, a temporary one."""
    if _sessions:
        yield _sessions[-1].folder
        return
    with tempfile.TemporaryDirectory(prefix="devui-suite-") as folder:
        yield Path(folder)


def suite_folder() -> Path:
    """Return the suite's folder."""
    return _sessions[-1].config.rootpath if _sessions else Path.cwd()


def store_url() -> str:
    """Return the URL of the store for results: the configured one, else a file below the suite's folder.

    `DATABASE_URL` is ignored: in a suite it may name the suite's own database.
    """
    config = _sessions[-1].config if _sessions else None
    configured = (config.getoption("devui_store") or config.getini("devui_store")) if config else ""
    url = str(configured or os.environ.get("DEVUI_STORE", ""))
    return url or f"sqlite:///{suite_folder() / STORE}"
