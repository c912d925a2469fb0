"""The agents folder: find agents and their code version without importing them.

Agents and their names follow ADK's rules: `AgentLoader.list_agents` (a folder with `agent.py`, `__init__.py` or
`root_agent.yaml`) and `NestedAgentLoader.list_agents` (such folders further down, named `a.b`), in
`google/adk/cli/utils/`, except for packages without an agent (`tests/`, `shared/`). A contract test compares both.
"""

from __future__ import annotations

import ast
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from django.conf import settings

from sessions_app.agents import remotes
from sessions_app.store import text_input
from sessions_app.store.errors import BadInput, DevUIError, NotFound

log = logging.getLogger(__name__)

MAX_DEPTH = 5
CODE_SUFFIXES = frozenset({".py", ".yaml", ".yml"})
TEMPLATE_SUFFIXES = frozenset({".prompt", ".j2", ".jinja", ".jinja2"})
TEXT_SUFFIXES = frozenset({".md", ".txt"})
PROMPT_NAMES = ("prompt", "instruction")
"""Words in the name or folder of a text file that mark it as a prompt, which counts as code. Other text files may be
output of agents."""

MAX_PROMPT_BYTES = 200_000
"""Largest text file that counts as a prompt; larger files are data."""

DATA_FILES = ("*.evalset.*", "*.test.json", "test_config.*")
SKIPPED_FOLDERS = frozenset({"__pycache__", "tmp", "node_modules"})
AGENT_NAMES = frozenset({"root_agent", "app"})
"""Names by which ADK finds the agent of a package."""

AGENT_HINT = (
    "An agent is a folder with agent.py, root_agent.yaml, or an __init__.py that has a root_agent or app."
)
ENV_FILE = ".env"
_VARIABLE = re.compile(r"\s*(?:export\s+)?(\w+)\s*=\s*(?![\"']{2}\s*$)\S")
"""A line of it that gives a variable a value."""

INITIAL_STATE_FILE = "initial_state.json"
"""File with the initial state of sessions that ADK's development server creates (`DevServer`)."""


class UnusableInitialState(BadInput):
    """An agent's initial state file, last changed at `changed_at`, cannot be used."""

    def __init__(self, reason: str, changed_at: float) -> None:
        super().__init__(reason, hint='Write a JSON object, such as {"city": "Rome"}.')
        self.changed_at = changed_at


@dataclass(frozen=True, slots=True)
class AgentsFolder:
    """A folder of agents, or the folder of a single one.

    Attributes:
        path: the absolute path of the configured folder.
        root: the folder from which agents are imported: `path`, or its parent if `path` is a single agent.
        single: the agent's name if `path` is a single agent.
    """

    path: Path
    root: Path
    single: str | None = None

    def names(self) -> list[str]:
        """Return the names of the apps, sorted."""
        return sorted(self._app_folders())

    def _app_folders(self) -> dict[str, Path]:
        """Return the folders of the apps by name. Of folders with one name (`a.b`, `a/b`), ADK loads the nested one."""
        if self.single is not None:
            return {self.single: self.path}
        packages = (folder for folder in _list_subfolders(self.root) if is_agent(folder, or_package=True))
        nested = (
            folder
            for folder in _walk_folders(self.root, MAX_DEPTH)
            if folder != self.root and is_agent(folder)
        )
        folders = sorted((*packages, *nested), key=lambda folder: len(folder.parts))
        return {_join_names(folder.relative_to(self.root)): folder for folder in folders}

    def app_folder(self, app_name: str) -> Path:
        """Return the folder of an app.

        Raises:
            NotFound: the folder has no such app, or the app is on a remote server.
        """
        folder = self.root.joinpath(*app_name.split("."))
        is_plain = self.single is None and is_agent(folder, or_package=folder.parent == self.root)
        if is_plain and app_name == ".".join(folder.relative_to(self.root).parts):
            return folder
        if remote := remotes.find_remote(app_name):
            raise NotFound(
                f"Agent {app_name!r} runs on another server, {remote.url}. Its files are not available here.",
                hint="Evals and other functions that need an agent's files work with agents of this server only.",
            )
        if odd_folder := self._app_folders().get(app_name):
            return odd_folder
        raise NotFound(f"No agent {app_name!r} in {str(self.path)!r}.", hint=AGENT_HINT)

    def code_version(self, app_name: str) -> str:
        """Return a hash of an app's code: its files and prompts, code shared between apps, and its `.env`; no data.

        Raises:
            NotFound: there is no such app.
        """
        folder = self.app_folder(app_name)
        return hash_files({*code_below(folder), *self._shared_code(), *_env_file(folder)}, self.root)

    def environment_names(self, app_name: str) -> set[str]:
        """Return the names of the environment variables that an agent has, of this process and of its `.env`.

        Raises:
            NotFound: there is no such app.
        """
        names = {name for name, value in os.environ.items() if value}
        for file in _env_file(self.app_folder(app_name)):
            try:
                lines = text_input.read_file(file).decode(errors="replace").splitlines()
            except OSError:
                continue
            names |= {match.group(1) for line in lines if (match := _VARIABLE.match(line))}
        return names

    def initial_state(self, app_name: str) -> dict[str, Any]:
        """Return the state in an agent's initial state file; empty if there is no usable file, as in ADK."""
        try:
            return self.read_initial_state(app_name)
        except UnusableInitialState as error:
            log.warning("Ignoring %s of %s: %s", INITIAL_STATE_FILE, app_name, error.message)
            return {}

    def read_initial_state(self, app_name: str) -> dict[str, Any]:
        """Return the state in an agent's initial state file; empty without a file.

        Raises:
            UnusableInitialState: it cannot be read, or holds no JSON object.
        """
        try:
            file = self.app_folder(app_name) / INITIAL_STATE_FILE
            changed_at = file.stat().st_mtime
        except (DevUIError, OSError):
            return {}
        try:
            state = text_input.parse_json(text_input.read_file(file))
        except OSError as error:
            raise UnusableInitialState(f"it cannot be read: {error.strerror}", changed_at) from error
        except (ValueError, RecursionError) as error:
            raise UnusableInitialState(f"it is no JSON: {error}", changed_at) from error
        if not isinstance(state, dict):
            kind = "null" if state is None else f"a {type(state).__name__}"
            raise UnusableInitialState(f"it holds {kind}, not an object", changed_at)
        return state

    def _shared_code(self) -> Iterator[Path]:
        """Yield the code that agents share: modules of the root folder and packages that are not agents.

        The parent of a single agent counts only if it has other agents; otherwise it may contain anything.
        """
        if self.single is None or any(is_agent(sibling) for sibling in self._sibling_folders()):
            yield from code_below(self.root, MAX_DEPTH, lambda folder: not is_agent(folder))

    def _sibling_folders(self) -> Iterator[Path]:
        return (folder for folder in _list_subfolders(self.root) if folder.name != self.single)


def open_folder(path: str | os.PathLike[str]) -> AgentsFolder:
    """Return the folder of agents, or of a single agent, at `path`.

    Raises:
        BadInput: there is no such folder.
    """
    folder = Path(path).expanduser().absolute()
    if not folder.is_dir():
        what = "is not a folder" if folder.exists() else "does not exist"
        raise BadInput(
            f"The agents folder {str(folder)!r} {what}.",
            hint="Name a folder whose subfolders are agents, or the folder of one agent.",
        )
    folder = folder.resolve()
    if is_agent(folder):
        return AgentsFolder(folder, folder.parent, _join_names(Path(folder.name)))
    return AgentsFolder(folder, folder)


def open_folder_with_agents(path: str | os.PathLike[str]) -> AgentsFolder:
    """Return the folder of agents, or of a single agent, at `path`.

    Raises:
        BadInput: there is no such folder, or it has no agents.
    """
    folder = open_folder(path)
    if not folder.names():
        raise BadInput(
            f"The folder {str(folder.path)!r} has no agents.",
            hint=AGENT_HINT,
        )
    return folder


def _join_names(path: Path) -> str:
    """Return the names of folders, joined by dots. U+FFFD replaces bytes that are not UTF-8."""
    return os.fsencode(".".join(path.parts)).decode(errors="replace")


def is_agent(folder: Path, *, or_package: bool = False) -> bool:
    """Tell whether a folder is an agent by ADK's rule (`is_single_agent_directory`), or a package with an agent."""
    is_single = any(os.path.isfile(folder / mark) for mark in ("agent.py", "root_agent.yaml"))
    return is_single or (or_package and _is_package_with_agent(folder))


def _is_package_with_agent(folder: Path) -> bool:
    file = folder / "__init__.py"
    if not os.path.isfile(file):
        return False
    if os.path.isfile(folder / "agent" / "__init__.py"):
        return True
    try:
        state = file.stat()
        return _has_agent_name(file, state.st_mtime_ns, state.st_size)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return True  # loading it tells why it cannot be read


@lru_cache(maxsize=1000)
def _has_agent_name(file: Path, _changed_ns: int, _size: int) -> bool:
    """Tell whether code defines or imports a name of `AGENT_NAMES` or `*`, or may define `root_agent` by its text.

    Comments and docstrings do not count.

    Raises:
        OSError: the file cannot be read.
        SyntaxError, ValueError, RecursionError, MemoryError: it cannot be parsed.
    """
    tree = ast.parse(text_input.read_file(file))
    names: set[object] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Name(name, ast.Store()) | ast.FunctionDef(name) | ast.ClassDef(name):
                names.add(name)
            case ast.alias(name, other_name):
                names |= {name, other_name}
            case ast.Constant("root_agent" as text):
                names.add(text)
    return not names.isdisjoint({*AGENT_NAMES, "*"})


@contextmanager
def explain_unloadable_name(root: Path, app_name: str) -> Iterator[None]:
    """Let ADK's loader, called in the block, name the reason if it cannot load an agent because of its name.

    Args:
        root: the folder from which agents are imported.
        app_name: the app that the block loads.

    Raises:
        ValueError: the loader raised it.
    """
    try:
        yield
    except ValueError:  # by the loader itself: those of the agent's code are `AgentLoadError`
        if reason := _unloadable_reason(root, app_name):
            raise ValueError(reason) from None
        raise


def _unloadable_reason(root: Path, app_name: str) -> str:
    """Return why an agent cannot be imported under its name; empty: the name is no reason."""
    first = app_name.partition(".")[0]
    if not root.joinpath(*app_name.split(".")).exists():
        if "\N{REPLACEMENT CHARACTER}" in app_name:
            return f"The name of the folder {app_name!r} is not UTF-8. Rename the folder."
        return (
            f"The name of the folder {app_name!r} has a dot, which separates folders in the names of agents. "
            "Rename the folder."
        )
    module = sys.modules.get(first)
    files = [*getattr(module, "__path__", ()), getattr(module, "__file__", None) or "built into Python"]
    if module is None or any(Path(file).is_relative_to(root) for file in files):
        return ""
    return (
        f"Python has another module {first!r} ({files[-1]}), which it imports instead of the folder. "
        "Rename the folder."
    )


def is_code(path: str | os.PathLike[str]) -> bool:
    """Tell whether a file is part of an agent's code; evalsets and other data are not."""
    name = Path(path).name
    if name == ENV_FILE:
        return True
    is_data = name.startswith(".") or any(fnmatch(name, pattern) for pattern in DATA_FILES)
    return not is_data and (Path(name).suffix in CODE_SUFFIXES or _is_prompt(Path(path)))


def _is_prompt(file: Path) -> bool:
    folder_and_stem = f"{file.parent.name}/{file.stem}".lower()
    has_prompt_name = file.suffix in TEXT_SUFFIXES and any(word in folder_and_stem for word in PROMPT_NAMES)
    return has_prompt_name or file.suffix in TEMPLATE_SUFFIXES


def is_skipped(folder_name: str) -> bool:
    """Tell whether folders of this name are skipped: hidden folders (`.adk`, `.venv`) and caches."""
    return folder_name.startswith(".") or folder_name in SKIPPED_FOLDERS


def code_below(
    folder: Path, depth: int | None = None, into: Callable[[Path], bool] = lambda folder: True
) -> Iterator[Path]:
    """Yield the code files of a folder and of those below it, at most `depth` levels down."""
    for below in _walk_folders(folder, depth, into):
        try:
            yield from (
                file
                for file in below.iterdir()
                if is_code(file) and file.is_file() and not _is_too_long(file)
            )
        except OSError:
            continue  # removed, or not readable


def _is_too_long(file: Path) -> bool:
    return file.suffix not in CODE_SUFFIXES and file.stat().st_size > MAX_PROMPT_BYTES


def _walk_folders(
    folder: Path, depth: int | None = None, into: Callable[[Path], bool] = lambda folder: True
) -> Iterator[Path]:
    """Yield a folder and those below it, at most `depth` levels down, without following links."""
    yield folder
    if depth == 0:
        return
    for below in _list_subfolders(folder):
        if not below.is_symlink() and into(below):
            yield from _walk_folders(below, None if depth is None else depth - 1, into)


def _list_subfolders(folder: Path) -> Iterator[Path]:
    try:
        with os.scandir(folder) as entries:
            paths = sorted(Path(entry.path) for entry in entries if not is_skipped(entry.name))
    except OSError:
        return
    yield from (path for path in paths if os.path.isdir(path) and not os.path.exists(path / "pyvenv.cfg"))


def _env_file(folder: Path) -> list[Path]:
    """Return the `.env` that ADK loads: the first one in the agent's folder or its parents."""
    candidates = (parent / ENV_FILE for parent in (folder, *folder.parents))
    return [file for file in candidates if os.path.isfile(file)][:1]


def hash_files(files: Iterable[Path], root: Path) -> str:
    """Return a hash of the contents of files and of their paths relative to a folder."""
    digest = sha256()
    for file in sorted(files):
        digest.update(os.fsencode(os.path.relpath(file, root)) + b"\0" + _file_digest(file))
    return digest.hexdigest()[:16]


def _file_digest(file: Path) -> bytes:
    try:
        state = file.stat()
        return _content_digest(file, state.st_mtime_ns, state.st_size)
    except OSError:
        return b""  # removed meanwhile


@lru_cache(maxsize=20_000)
def _content_digest(file: Path, _changed_ns: int, _size: int) -> bytes:
    return sha256(text_input.read_file(file)).digest()


def configured_folder() -> AgentsFolder | None:
    """Return the agents folder of this server's settings; None if there is none."""
    path = getattr(settings, "DEVUI_AGENTS_DIR", "")
    try:
        return open_folder(path) if path else None
    except BadInput:
        return None


def find_initial_state(app_name: str) -> dict[str, Any]:
    """Return the state that new sessions of an app in the configured folder start with."""
    agents_folder = configured_folder()
    return agents_folder.initial_state(app_name) if agents_folder else {}


def initial_state_fault(app_name: str, created_at: float = float("inf")) -> str:
    """Return why an app's initial state file, if it has not changed since `created_at`, cannot be used; else ""."""
    try:
        if agents_folder := configured_folder():
            agents_folder.read_initial_state(app_name)
    except UnusableInitialState as error:
        return error.message if error.changed_at <= created_at else ""
    return ""
