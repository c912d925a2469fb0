"""File and line of functions, classes and agent definitions. No agent code is run."""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from sessions_app.agents.folder import is_skipped

MAX_FILES = 300
MAX_FILE_BYTES = 1_000_000
"""Most files, and bytes of a file, that are scanned for agent definitions; agents beyond have no location."""

MAX_WRAPPERS = 20

CodeLocation = dict[str, Any]
"""{file: absolute path, line}; empty if unknown."""

YAML_NAME = re.compile(r"""^name:\s*["']?([^"'#\n]+?)["']?\s*(?:#.*)?$""", re.MULTILINE)


class CodeLocator:
    """Locates the code of one app.

    Attributes:
        root: folder from which agents are imported.
        folder: folder of the app, whose files take precedence.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder

    def of_agent(self, name: str, agent: object) -> CodeLocation:
        """Return the location of the call that creates an agent, else that of its class."""
        return self._definitions.get(name) or self.of_class(type(agent))

    def of_class(self, cls: type) -> CodeLocation:
        """Return the location of a class of the agent's own code; empty for classes of libraries."""
        file = getattr(sys.modules.get(cls.__module__), "__file__", None)
        if not isinstance(file, str) or not self._is_own(file):
            return {}
        try:
            return {"file": file, "line": inspect.getsourcelines(cls)[1]}
        except (OSError, TypeError):
            return {"file": file, "line": 1}

    def of_code(self, code_object: Any) -> CodeLocation:
        """Return the location of a function, a method, or the class of a callable object."""
        function = _unwrap(code_object)
        code = getattr(function, "__code__", None)
        if inspect.iscode(code):
            is_real = not code.co_filename.startswith("<")
            return {"file": code.co_filename, "line": code.co_firstlineno} if is_real else {}
        return {} if inspect.isbuiltin(function) else self.of_class(type(function))

    def _is_own(self, file: str) -> bool:
        path = Path(file)
        return path.is_relative_to(self.root) and not {"site-packages", "dist-packages"} & set(path.parts)

    @cached_property
    def _definitions(self) -> dict[str, CodeLocation]:
        locations: dict[str, CodeLocation] = {}
        for file in self._files():
            try:
                if file.stat().st_size > MAX_FILE_BYTES:
                    continue
                text = file.read_text(encoding="utf-8")
                names = _python_names(text) if file.suffix == ".py" else _yaml_names(text)
                for name, line in names:
                    locations.setdefault(name, {"file": str(file), "line": line})
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # an unreadable file defines no agent
        return locations

    def _files(self) -> list[Path]:
        loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        own = [Path(file) for file in loaded if isinstance(file, str) and self._is_own(file)]
        modules = [file for file in own if file.suffix == ".py"]
        configs = [file for file in sorted(self.folder.glob("*.yaml")) if not is_skipped(file.name)]
        first = sorted(modules, key=lambda file: not file.is_relative_to(self.folder))
        return list(dict.fromkeys([*configs, *first]))[:MAX_FILES]


def _python_names(text: str) -> Iterator[tuple[str, int]]:
    """Yield (name, line) of calls with `name="…"`, of calls of functions that pass a parameter on as `name`, and of
    functions, because a workflow names nodes by their functions.
    """
    nodes = list(ast.walk(ast.parse(text)))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for call in calls:
        name = _string_value(_argument(call, "name", None))
        if name:
            yield name, call.lineno
    factories = {
        function.name: parameter for function in functions if (parameter := _name_parameter(function))
    }
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id in factories:
            name = _string_value(_argument(call, *factories[call.func.id]))
            if name:
                yield name, call.lineno
    yield from ((function.name, function.lineno) for function in functions)


def _name_parameter(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, int] | None:
    """Return name and index of the parameter that a function passes on as `name`."""
    parameters = [parameter.arg for parameter in function.args.args]
    for node in ast.walk(function):
        value = _argument(node, "name", None) if isinstance(node, ast.Call) else None
        if isinstance(value, ast.Name) and value.id in parameters:
            return value.id, parameters.index(value.id)
    return None


def _argument(call: ast.Call, name: str, index: int | None) -> ast.expr | None:
    by_name = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return call.args[index] if by_name is None and index is not None and index < len(call.args) else by_name


def _string_value(node: ast.expr | None) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _yaml_names(text: str) -> Iterator[tuple[str, int]]:
    for match in YAML_NAME.finditer(text):
        yield match.group(1).strip(), text.count("\n", 0, match.start()) + 1


def _unwrap(function: Any) -> Callable[..., Any] | Any:
    for _ in range(MAX_WRAPPERS):
        if isinstance(function, partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif inspect.isfunction(function) and hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            break
    return function
