"""File and line of functions, classes and agent definitions. No agent code is run."""

from __future__ import annotations

import inspect
import re
import sys
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sessions_app.agents.folder import is_skipped
from sessions_app.store import text_input

MAX_FILES = 300
MAX_FILE_BYTES = 1_000_000
"""Most files, and bytes of a file, that are scanned for agent definitions; agents beyond have no location."""

CodeLocation = dict[str, Any]
"""{file: absolute path, line}; empty if unknown."""

NAME_PATTERNS = {
    ".py": re.compile(r"""\bname\s*=\s*["']([^"'\n]+)["']"""),
    ".yaml": re.compile(r"""^name:\s*["']?([^"'#\n]+?)["']?\s*(?:#.*)?$""", re.MULTILINE),
}
"""Patterns of the name of an agent in its definition, by the suffix of the file."""


class CodeLocator:
    """Locates the code of one app.

    Attributes:
        root: folder from which agents are imported.
        folder: folder of the app, whose files take precedence.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder

    def locate_agent(self, name: str, agent: object) -> CodeLocation:
        """Return the location of the name in the code that creates an agent, else that of its class."""
        return self._own_definitions.get(name) or self.locate_class(type(agent))

    def locate_class(self, cls: type) -> CodeLocation:
        """Return the location of a class of the agent's own code; empty for classes of libraries."""
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if not isinstance(file, str) or not self._is_own(file):
            return {}
        try:
            return {"file": file, "line": inspect.getsourcelines(cls)[1]}
        except (OSError, TypeError):
            return {"file": file, "line": 1}

    def locate_code(self, code_object: Any) -> CodeLocation:
        """Return the location of a function, a method, or the class of a callable object."""
        function = _unwrap_function(code_object)
        code = getattr(function, "__code__", None)
        if inspect.iscode(code):
            is_real = not code.co_filename.startswith("<")
            return {"file": code.co_filename, "line": code.co_firstlineno} if is_real else {}
        return {} if inspect.isbuiltin(function) else self.locate_class(type(function))

    def _is_own(self, file: str) -> bool:
        path = Path(file)
        return path.is_relative_to(self.root) and not {"site-packages", "dist-packages"} & set(path.parts)

    @cached_property
    def _own_definitions(self) -> dict[str, CodeLocation]:
        locations: dict[str, CodeLocation] = {}
        for file in self._own_files():
            try:
                content = text_input.read_file(file, MAX_FILE_BYTES + 1)
                text = text_input.decode_text(content) if len(content) <= MAX_FILE_BYTES else ""
            except (OSError, ValueError):
                continue  # an unreadable file defines no agent
            for match in NAME_PATTERNS[file.suffix].finditer(text):
                line = text.count("\n", 0, match.start()) + 1
                locations.setdefault(match[1].strip(), {"file": str(file), "line": line})
        return locations

    def _own_files(self) -> list[Path]:
        loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        agent_files = [Path(file) for file in loaded if isinstance(file, str) and self._is_own(file)]
        modules = [file for file in agent_files if file.suffix == ".py"]
        configs = [file for file in sorted(self.folder.glob("*.yaml")) if not is_skipped(file.name)]
        first = sorted(modules, key=lambda file: not file.is_relative_to(self.folder))
        return list(dict.fromkeys([*configs, *first]))[:MAX_FILES]


def _unwrap_function(function: Any) -> Any:
    while isinstance(function, partial):
        function = function.func
    return inspect.unwrap(getattr(function, "__func__", function))
