"""Agents that are no folder: an agent object, an `App` or a factory of either, by module and name."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Self

from sessions_app.agents.folder import MAX_DEPTH, AgentsFolder, code_below, hash_files
from sessions_app.store.errors import BadInput, NotFound

REFERENCE = re.compile(r"(?P<module>[^\W\d]\w*(?:\.[^\W\d]\w*)*):(?P<attribute>[^\W\d]\w*(?:\.[^\W\d]\w*)*)")
"""`pkg.module:attribute`."""

INSTALLED = {"site-packages", "dist-packages"}
"""Folders with modules of many packages."""


@dataclass(frozen=True, slots=True)
class AgentModule(AgentsFolder):
    """A module with an agent, in place of a folder of agents. Its app has the name of the agent or `App`.

    Attributes:
        path: the folder of the module.
        root: the working folder, to which paths of evalsets are relative.
        name: the dotted name of the module.
        attribute: the name of the agent, `App` or factory in the module.
        code: the folder of the outermost package of the module; the module's file if it is in no package.
    """

    name: str = ""
    attribute: str = ""
    code: Path = Path()

    @property
    def reference(self) -> str:
        """The module and the attribute: `pkg.module:attribute`."""
        return f"{self.name}:{self.attribute}"

    def for_app(self, app_name: str) -> Self:
        """Return the module with the name of its app."""
        return replace(self, single=app_name)

    def app_folder(self, app_name: str) -> Path:
        """Return the folder of the module.

        Raises:
            NotFound: the app has another name.
        """
        if app_name != self.single:
            raise NotFound(f"{self.reference} is the agent {self.single!r}, not {app_name!r}.")
        return self.path

    def code_version(self, app_name: str) -> str:
        """Return a hash of the code in the module's package. Without a package it is that of the module's folder."""
        return hash_files(set(self._code_files()), self.code.parent)

    def _code_files(self) -> Iterator[Path]:
        if self.code.is_dir():
            yield from code_below(self.code)
        elif INSTALLED.isdisjoint(self.path.parts):
            yield from code_below(self.path, MAX_DEPTH)
        else:
            yield self.code


def find_module(reference: str, file: str = "") -> AgentModule:
    """Return the module of a reference such as `pkg.module:make_agent`. Packages around the module are imported.

    Args:
        file: the file from which another process loaded the module, if this one must find the same.

    Raises:
        BadInput: there is no such module, or it is another one.
    """
    parts = REFERENCE.fullmatch(reference)
    if parts is None:
        raise BadInput(
            f"{reference!r} is not the module and name of an agent.", hint="For example pkg.module:make_agent"
        )
    name = parts["module"]
    specs = [_find_spec(name[: match.start()]) for match in re.finditer(r"\.|$", name)]
    origin = specs[-1].origin if specs[-1] else None
    if origin is None or (file and Path(origin).resolve() != Path(file).resolve()):
        loaded = f", which this suite loaded from {file}," if file else ""
        raise BadInput(
            f"The module {name!r} of the agent{loaded} cannot be imported by another process.",
            hint="Put its folder on the import path (PYTHONPATH, or pythonpath in pytest.ini).",
        )
    module_file = Path(origin).resolve()
    packages = [spec for spec in specs if spec and spec.submodule_search_locations and spec.has_location]
    code = Path(packages[0].origin or "").resolve().parent if packages else module_file
    return AgentModule(
        module_file.parent,
        Path.cwd().resolve(),
        name=name,
        attribute=parts["attribute"],
        code=code,
    )


def _find_spec(name: str) -> ModuleSpec | None:
    """Return where a module is.

    Raises:
        BadInput: a package around it fails.
    """
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None
    except Exception as error:
        raise BadInput(
            f"The module {name!r} of the agent cannot be imported: {type(error).__name__}: {error}",
            hint="Correct the package around it.",
        ) from error
