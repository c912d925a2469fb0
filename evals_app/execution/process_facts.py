"""Facts of the process that runs an agent: packages that it imported, and environment variables that the agent read.

They tell why an agent whose files are the same behaves differently. Only what is known is recorded: a variable that was
read before `watch_environment`, or by C code, is missing.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import FrameType

from sessions_app.store.redaction import is_credential_name

OWN_PACKAGES = ("devui", "sessions_app", "evals_app")
"""Packages whose reads of the environment are not the agent's."""
ACCESSORS = {"get", "getenv", "__contains__", "setdefault", "pop"}
"""Functions of Python's library that look a single variable up for their caller."""
DIST_INFO = ".dist-info"
LIBRARY = os.path.dirname(os.__file__)
"""Folder of Python's library."""

_names_read: set[str] = set()
_last_iteration = (0, 0)
"""Frame and instruction that last iterated over the environment."""


class _WatchedEnvironment(type(os.environ)):  # type: ignore[misc]
    """`os.environ`, which notes the names that code outside of Python's library and packages reads."""

    def __getitem__(self, key: str) -> str:
        """Return a value. A copy of the whole environment notes nothing."""
        reader = _find_reader(sys._getframe(1))
        if reader is not None and _last_iteration != (id(reader), reader.f_lasti):
            _names_read.add(key)
        value: str = super().__getitem__(key)
        return value

    def __iter__(self) -> Iterator[str]:
        """Iterate over names; values that the same instruction reads next are copied, as by `dict(os.environ)`."""
        global _last_iteration
        caller = _skip_library(sys._getframe(1))
        _last_iteration = (id(caller), caller.f_lasti) if caller else (0, 0)
        names: Iterator[str] = super().__iter__()
        return names


def watch_environment() -> None:
    """Note from now on which variables agents of this process read. A second call changes nothing."""
    os.environ.__class__ = _WatchedEnvironment


def _find_reader(frame: FrameType | None) -> FrameType | None:
    """Return the frame of an agent's code that reads a variable; None if other code does."""
    reader = _skip_library(frame)
    while frame is not None and frame is not reader:
        if frame.f_code.co_name not in ACCESSORS:
            return None
        frame = frame.f_back
    return reader if reader is not None and _is_agent_code(reader) else None


def _skip_library(frame: FrameType | None) -> FrameType | None:
    """Return the first frame outside of the functions with which Python's library reads the environment."""
    while frame is not None and frame.f_globals.get("__name__") in {
        "os",
        "_collections_abc",
        "collections.abc",
    }:
        frame = frame.f_back
    return frame


def _is_agent_code(frame: FrameType) -> bool:
    return _is_agent_file(frame.f_code.co_filename, str(frame.f_globals.get("__name__", "")))


@cache
def _is_agent_file(file: str, module: str) -> bool:
    if file.startswith("<") or module.partition(".")[0] in OWN_PACKAGES:
        return False
    is_installed = any(part in file for part in ("site-packages", "dist-packages"))
    return not is_installed and not file.startswith(LIBRARY)


def read_environment() -> dict[str, str]:
    """Return a digest of each variable that agents read; "" if it is not set.

    Of a variable with the name of a credential it only says that it is set.
    """
    digests = {}
    for name in sorted(_names_read):
        value = os.environ.get(name)
        if value is None:
            digests[name] = ""
        elif is_credential_name(name):
            digests[name] = "set"
        else:
            digests[name] = sha256(value.encode(errors="replace")).hexdigest()[:8]
    return digests


def list_imported_packages() -> dict[str, str]:
    """Return the version of each installed package of which this process has imported a module.

    Most packages have the name of their module. Lists of files are read only if modules without such a package remain.
    """
    modules = _list_top_modules()
    installed = [info for folder in dict.fromkeys(sys.path) for info in _list_installed(folder)]
    packages: dict[str, str] = {}
    unmatched = []
    for info in installed:
        name, _, version = info.name.removesuffix(DIST_INFO).partition("-")
        module = name.lower().replace(".", "_")
        if module in modules:
            modules.discard(module)
            packages.setdefault(module.replace("_", "-"), version)
        else:
            unmatched.append((info, module.replace("_", "-"), version))
    if modules:
        paths = "|".join(re.escape(module.replace(".", "/")) for module in modules)
        is_listed = re.compile(rf"\n(?:{paths})(?:/|\.py,)").search
        for info, name, version in unmatched:
            if is_listed(_read_files(info)):
                packages.setdefault(name, version)
    return packages


def _list_top_modules() -> set[str]:
    """Return the names of imported packages and modules that are no part of another one; of namespaces, their parts."""
    namespaces = {
        name for name, module in list(sys.modules.items()) if getattr(module, "__file__", "") is None
    }
    return {
        name
        for name, module in list(sys.modules.items())
        if "packages" in (getattr(module, "__file__", None) or "")
        and ("." not in name or name.rpartition(".")[0] in namespaces)
    }


def _list_installed(folder: str) -> list[Path]:
    try:
        return [Path(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(DIST_INFO)]
    except OSError:
        return []


def _read_files(info: Path) -> str:
    """Return the list of a package's files, a line each; empty if it cannot be read."""
    try:
        return "\n" + (info / "RECORD").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
