"""A folder of agents, read without importing any of them.

What counts as an agent, and under which name, follows ADK: `AgentLoader.list_agents` (a folder with
`agent.py`, `__init__.py` or `root_agent.yaml`) and `NestedAgentLoader.list_agents` (such folders further
down, named `a.b`), in `google/adk/cli/utils/`. A contract test holds the two together.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.conf import settings

from sessions_app.agents import remotes
from sessions_app.errors import BadInput, NotFound

MAX_DEPTH = 5
CODE_SUFFIXES = frozenset({".py", ".yaml", ".yml"})
TEMPLATE_SUFFIXES = frozenset({".prompt", ".j2", ".jinja", ".jinja2"})
TEXT_SUFFIXES = frozenset({".md", ".txt"})
PROMPT_NAMES = ("prompt", "instruction")
"""What the name of a text, or of its folder, holds that agents read when they are loaded: with another one they are
another program. Other texts may be what they write."""

MAX_PROMPT_BYTES = 200_000
"""Bytes of a file of text that may be a prompt; a larger one is data."""

DATA_FILES = ("*.evalset.*", "*.test.json", "test_config.*")
SKIPPED_FOLDERS = frozenset({"__pycache__", "tmp", "node_modules"})
ENV_FILE = ".env"
INITIAL_STATE_FILE = "initial_state.json"
"""What ADK's development server begins every session with that it is asked to create (`DevServer`)."""


@dataclass(frozen=True, slots=True)
class AgentsFolder:
    """A folder of agents, or the folder of a single one.

    Attributes:
        given: the folder as it was named, absolute.
        root: the folder agents are imported from: `given`, or its parent when `given` is one agent.
        single: the name of the only agent, when `given` is one.
    """

    given: Path
    root: Path
    single: str | None = None

    def names(self) -> list[str]:
        """Return the names of the apps, sorted."""
        if self.single is not None:
            return [self.single]
        packages = (folder for folder in _subfolders(self.root) if is_agent(folder, or_package=True))
        nested = (
            folder for folder in _walk(self.root, MAX_DEPTH) if folder != self.root and is_agent(folder)
        )
        return sorted({".".join(folder.relative_to(self.root).parts) for folder in (*packages, *nested)})

    def folder_of(self, app_name: str) -> Path:
        """Return the folder of an app.

        Raises:
            NotFound: there is no such app.
        """
        folder = self.root.joinpath(*app_name.split("."))
        top_level = folder.parent == self.root
        known = app_name == self.single if self.single else is_agent(folder, or_package=top_level)
        if remote := remotes.remote_of_app(app_name):
            raise NotFound(
                f"Agent {app_name!r} is on another server, {remote.url}: this one has no files of it.",
                hint="Evals and all else that needs an agent's files run with agents of this server.",
            )
        if not known or app_name != ".".join(folder.relative_to(self.root).parts):
            raise NotFound(
                f"No agent {app_name!r} in {str(self.given)!r}.",
                hint="An agent is a folder with agent.py, __init__.py or root_agent.yaml.",
            )
        return folder

    def code_version(self, app_name: str) -> str:
        """Return a hash of an app's code: its own files, what the apps share, and its `.env`; prompts, but no data.

        Raises:
            NotFound: there is no such app.
        """
        folder = self.folder_of(app_name)
        files = {*_code_below(folder), *self._shared_code(), *_env_file(folder)}
        digest = sha256()
        for file in sorted(files):
            digest.update(os.fsencode(os.path.relpath(file, self.root)) + b"\0" + _file_digest(file))
        return digest.hexdigest()[:16]

    def initial_state(self, app_name: str) -> dict[str, Any]:
        """Return the state in the file beside an agent; none without one, or when it holds no JSON object."""
        try:
            found = json.loads((self.folder_of(app_name) / INITIAL_STATE_FILE).read_text(encoding="utf-8"))
        except (NotFound, OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _shared_code(self) -> Iterator[Path]:
        """Yield the code beside the agents: modules of the folder itself and packages that are no agents.

        An agent that was named alone has such code where other agents lie beside it; elsewhere its parent may hold
        anything.
        """
        if self.single is None or any(is_agent(beside) for beside in self._beside()):
            yield from _code_below(self.root, MAX_DEPTH, lambda folder: not is_agent(folder))

    def _beside(self) -> Iterator[Path]:
        return (folder for folder in _subfolders(self.root) if folder.name != self.single)


def open_folder(path: str | os.PathLike[str]) -> AgentsFolder:
    """Return the folder of agents, or of a single agent, at `path`.

    Raises:
        BadInput: there is no such folder.
    """
    given = Path(path).expanduser().absolute()
    if not given.is_dir():
        what = "is not a folder" if given.exists() else "does not exist"
        raise BadInput(
            f"The agents folder {str(given)!r} {what}.",
            hint="Name a folder whose subfolders are agents, or the folder of one agent.",
        )
    given = given.resolve()
    if is_agent(given):
        return AgentsFolder(given, given.parent, given.name)
    return AgentsFolder(given, given)


def is_agent(folder: Path, *, or_package: bool = False) -> bool:
    """Tell whether a folder is an agent by ADK's rule (`is_single_agent_directory`), or a Python package."""
    marks = ("agent.py", "root_agent.yaml", *(["__init__.py"] if or_package else []))
    return any((folder / mark).is_file() for mark in marks)


def is_code(path: str | os.PathLike[str]) -> bool:
    """Tell whether a change of the file makes the agent another program: evalsets and other data do not."""
    name = Path(path).name
    if name == ENV_FILE:
        return True
    is_data = name.startswith(".") or any(fnmatch(name, pattern) for pattern in DATA_FILES)
    return not is_data and (Path(name).suffix in CODE_SUFFIXES or _is_prompt(Path(path)))


def _is_prompt(file: Path) -> bool:
    named = f"{file.parent.name}/{file.stem}".lower()
    is_named = file.suffix in TEXT_SUFFIXES and any(word in named for word in PROMPT_NAMES)
    return is_named or file.suffix in TEMPLATE_SUFFIXES


def is_skipped(folder_name: str) -> bool:
    """Tell whether folders of this name are never looked into: hidden ones (`.adk`, `.venv`), caches."""
    return folder_name.startswith(".") or folder_name in SKIPPED_FOLDERS


def _code_below(
    folder: Path, depth: int | None = None, into: Callable[[Path], bool] = lambda folder: True
) -> Iterator[Path]:
    for below in _walk(folder, depth, into):
        try:
            yield from (
                file
                for file in below.iterdir()
                if is_code(file) and file.is_file() and not _is_too_long(file)
            )
        except OSError:
            continue  # removed, or not for us to read


def _is_too_long(file: Path) -> bool:
    return file.suffix not in CODE_SUFFIXES and file.stat().st_size > MAX_PROMPT_BYTES


def _walk(
    folder: Path, depth: int | None = None, into: Callable[[Path], bool] = lambda folder: True
) -> Iterator[Path]:
    """Yield a folder and those below it, at most `depth` levels down, without following links."""
    yield folder
    if depth == 0:
        return
    for below in _subfolders(folder):
        if not below.is_symlink() and into(below):
            yield from _walk(below, None if depth is None else depth - 1, into)


def _subfolders(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            found = [Path(entry.path) for entry in entries if entry.is_dir() and not is_skipped(entry.name)]
    except OSError:
        return
    yield from (below for below in sorted(found) if not (below / "pyvenv.cfg").exists())


def _env_file(folder: Path) -> list[Path]:
    """Return the `.env` that ADK loads: the first one on the way from the agent's folder to the file root."""
    found = (parent / ENV_FILE for parent in (folder, *folder.parents))
    return [file for file in found if file.is_file()][:1]


def _file_digest(file: Path) -> bytes:
    try:
        state = file.stat()
        return _content_digest(file, state.st_mtime_ns, state.st_size)
    except OSError:
        return b""  # removed since it was listed


@lru_cache(maxsize=20_000)
def _content_digest(file: Path, _changed_ns: int, _size: int) -> bytes:
    return sha256(file.read_bytes()).digest()


def configured_folder() -> AgentsFolder | None:
    """Return the agents folder this server was given, or None when there is none."""
    path = getattr(settings, "DEVUI_AGENTS_DIR", "")
    try:
        return open_folder(path) if path else None
    except BadInput:
        return None
