"""The argument `agent` of a test: a folder, a package, or an object that another process can import."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

__tracebackhide__ = True
"""Tells pytest that it need not show this module: a refusal is shown at the line of the suite."""

PathLike = str | os.PathLike[str]
"""A path of a file or folder."""

Agent = PathLike | object
"""A folder, a package, `pkg.module:attribute`, an agent object, an `App`, or a factory of either."""

ADK = "google.adk."


class Refused(Exception):
    """The evalset cannot be evaluated: it, a case or the agent does not exist, or an option is invalid."""


def describe_agent(caller_folder: Path, agent: Agent, caller: Mapping[str, Any]) -> dict[str, str]:
    """Return what a process needs to find the agent: its `folder`, or the `reference` of an object.

    For an object that was given itself, `file` is the file of its module, and `name` its name or "".

    Args:
        caller_folder: the folder of the calling module.
        caller: the globals of the calling module.

    Raises:
        Refused: there is no such agent, or another process cannot import it.
    """
    if isinstance(agent, str | os.PathLike):
        folder = existing_path(caller_folder, agent)
        if folder is None and ":" in (reference := os.fspath(agent)):
            return {"reference": reference}
        return {"folder": str(folder or _package_folder(caller_folder, agent))}
    is_adk_object = any(base.__module__.startswith(ADK) for base in type(agent).__mro__)
    if not is_adk_object and not callable(agent):
        raise Refused(
            f"{agent!r} is no agent: give a folder, a package, `module:name`, an agent, an App or a factory."
        )
    module, attribute = _find_name(agent, caller)
    return {
        "reference": f"{module.__name__}:{attribute}",
        "file": str(module.__file__),
        "name": str(getattr(agent, "name", "")) if is_adk_object else "",
    }


def existing_path(caller_folder: Path, path: PathLike) -> Path | None:
    """Return an existing path relative to a folder or to the working folder, or None."""
    paths = (folder / path for folder in (caller_folder, Path.cwd()))
    return next((path.resolve() for path in paths if path.exists()), None)


def _package_folder(caller_folder: Path, agent: PathLike) -> Path:
    """Return the folder of a package, which is located without importing it."""
    name = os.fspath(agent)
    try:
        spec = importlib.util.find_spec(name) if name.replace(".", "_").isidentifier() else None
    except ImportError:
        spec = None
    if spec is None or not spec.submodule_search_locations:
        raise Refused(
            f"There is no agent {name!r}: neither a folder (from {caller_folder} or {Path.cwd()}) nor a package."
            " An object in a module is `module:name`."
        )
    return Path(next(iter(spec.submodule_search_locations)))


def _find_name(agent: object, caller: Mapping[str, Any]) -> tuple[ModuleType, str]:
    """Return the module and the name by which an object can be imported.

    The module that assigns an object to a name is preferred to one that imports the object: its code is the agent's.

    Raises:
        Refused: no module has a name for the object.
    """
    definition = sys.modules.get(getattr(agent, "__module__", None) or "")
    name = getattr(agent, "__qualname__", "")
    if definition and _is_importable(definition) and _has_attribute(definition, name, agent):
        return definition, name
    names = list(_names_in_modules(agent))
    defining = [(module, name) for module, name in names if _assigns_name(module, name)]
    calling = [(module, name) for module, name in names if vars(module) is caller]
    if candidates := defining or calling:
        return candidates[0]
    label = getattr(agent, "__name__", None) or getattr(agent, "name", None) or repr(agent)
    raise Refused(
        f"The agent {str(label)!r} has no name in a module, so the process that evaluates it cannot import it:"
        " give `module:name`, or a factory at the top level of a module."
    )


def _is_importable(module: ModuleType) -> bool:
    return module.__name__ != "__main__" and bool(vars(module).get("__file__"))


def _has_attribute(module: ModuleType, name: str, value: object) -> bool:
    try:
        return bool(name) and bool(attrgetter(name)(module) == value)
    except AttributeError:
        return False


def _names_in_modules(value: object) -> Iterator[tuple[ModuleType, str]]:
    """Yield the modules and names that are bound to an object."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and _is_importable(module):
            yield from ((module, name) for name, bound in list(vars(module).items()) if bound is value)


def _assigns_name(module: ModuleType, name: str) -> bool:
    """Tell whether a module assigns to a name in its code, in contrast to importing it."""
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return False
    stores = (
        node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    return any(node.id == name for node in stores)
