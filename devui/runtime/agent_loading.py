"""Loading the agent of an app with ADK's own loader, and explaining failures."""

from __future__ import annotations

import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from google.adk.apps.app import App
from google.adk.cli.service_registry import load_services_module
from yaml import MarkedYAMLError

from devui.runtime._adk import AgentLoadError, Node, OneAppLoader
from devui.runtime.exception_text import safe_message
from sessions_app.agents.folder import open_folder
from sessions_app.store import scopes
from sessions_app.store.errors import NotFound

MAX_TRACEBACK = 50_000


class AgentCode:
    """The code of one app's agent, loaded once by ADK's rules (`.env`, `services.py`, `app` before `root_agent`).

    Attributes:
        code_version: hash of the app's files before loading; after `load_first`, their hash then.
        is_mixed: the two hashes differ, so the loaded files may be of either version.
    """

    def __init__(self, agents_dir: str, app_name: str) -> None:
        self.app_name = app_name
        self.folder = open_folder(agents_dir)
        self.code_version = self.folder.code_version(app_name)
        self.is_mixed = False
        self.loader = OneAppLoader(str(self.folder.path), app_name)

    def load_services(self) -> None:
        """Run `services.py` and `services.yaml` of the folder, which may register services with ADK."""
        load_services_module(str(self.folder.path))

    def load_first(self) -> tuple[Node, App | None]:
        """Load the agent, and check whether its files changed meanwhile. Raises the exceptions of `load`."""
        before = self.code_version
        try:
            return self.load()
        finally:
            with suppress(NotFound):  # the folder was removed: the hash before loading stays
                self.code_version = self.folder.code_version(self.app_name)
            self.is_mixed = self.code_version != before

    def load(self) -> tuple[Node, App | None]:
        """Return the root agent, and the `App` around it if the agent's module has one.

        Raises:
            BaseException: whatever the agent's code raised, `SystemExit` included.
            ValueError: its `App` has no root agent.
        """
        loaded = self.loader.load_code(self.app_name)
        if not isinstance(loaded, App):
            return loaded, None
        if loaded.root_agent is None:
            raise ValueError(f"The app of {self.app_name!r} has no root_agent.")
        return loaded.root_agent, loaded


def describe_failure(error: BaseException, root: Path) -> dict[str, Any]:
    """Return type, message, file, line and traceback of an exception raised while loading an agent.

    File and line are those of the innermost frame below `root`, or of a syntax error. The traceback starts at the
    agent's own code.
    """
    if isinstance(error, AgentLoadError) and error.__cause__ is not None:
        error = error.__cause__
    frames = traceback.extract_tb(error.__traceback__)
    agent_frames = [frame for frame in frames if Path(frame.filename).is_relative_to(root)]
    file, line = (agent_frames[-1].filename, agent_frames[-1].lineno) if agent_frames else ("", None)
    if isinstance(error, SyntaxError) and error.filename:
        file, line = error.filename, error.lineno
    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None and not agent_frames:
        file, line = error.problem_mark.name, error.problem_mark.line + 1
    return {
        "type": type(error).__name__,
        "message": safe_message(error),
        "file": file,
        "line": line,
        "traceback": traceback_text(
            error, skip=frames.index(agent_frames[0]) if agent_frames else len(frames)
        ),
    }


def traceback_text(error: BaseException, skip: int = 0) -> str:
    """Return the traceback as Python prints it, without its first `skip` frames and those of the import system."""
    report = traceback.TracebackException.from_exception(error, compact=True)
    report.stack = traceback.StackSummary.from_list(
        [frame for frame in report.stack[skip:] if not frame.filename.startswith("<frozen importlib")]
    )
    text = scopes.clean_error("".join(report.format()))
    return text if len(text) <= MAX_TRACEBACK else f"…{text[-MAX_TRACEBACK:]}"
