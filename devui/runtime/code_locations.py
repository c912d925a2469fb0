"""Where code stands: the file and the line of a function, a class, or the call that made an agent. Nothing is run."""

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
"""What is looked at to find where agents are made; behind it they are shown without a place."""

MAX_WRAPPERS = 20

Place = dict[str, Any]
"""{file: absolute path, line}; empty when not known."""

NAMED_IN_YAML = re.compile(r"""^name:\s*["']?([^"'#\n]+?)["']?\s*(?:#.*)?$""", re.MULTILINE)


class Places:
    """Finds code of one app.

    Attributes:
        root: the folder that agents are imported from.
        folder: that of the app, whose files come first.
    """

    def __init__(self, root: Path, folder: Path) -> None:
        self.root = root
        self.folder = folder

    def of_agent(self, name: str, given: object) -> Place:
        """Return where the agent of this name is made; where its class stands when no call names it."""
        return self._made.get(name) or self.of_class(type(given))

    def of_class(self, given: type) -> Place:
        """Return where a class of the agent's own code stands; nothing for those of libraries."""
        file = getattr(sys.modules.get(given.__module__), "__file__", None)
        if not isinstance(file, str) or not self._is_own(file):
            return {}
        try:
            return {"file": file, "line": inspect.getsourcelines(given)[1]}
        except (OSError, TypeError):
            return {"file": file, "line": 1}

    def of_code(self, given: Any) -> Place:
        """Return where a function, a method or the class of a callable object stands."""
        function = _unwrapped(given)
        code = getattr(function, "__code__", None)
        if inspect.iscode(code):
            is_real = not code.co_filename.startswith("<")
            return {"file": code.co_filename, "line": code.co_firstlineno} if is_real else {}
        return {} if inspect.isbuiltin(function) else self.of_class(type(function))

    def _is_own(self, file: str) -> bool:
        path = Path(file)
        return path.is_relative_to(self.root) and not {"site-packages", "dist-packages"} & set(path.parts)

    @cached_property
    def _made(self) -> dict[str, Place]:
        found: dict[str, Place] = {}
        for file in self._files():
            try:
                if file.stat().st_size > MAX_FILE_BYTES:
                    continue
                text = file.read_text(encoding="utf-8")
                named = _named_in_python(text) if file.suffix == ".py" else _named_in_yaml(text)
                for name, line in named:
                    found.setdefault(name, {"file": str(file), "line": line})
            except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
                continue  # what cannot be read has no place to show
        return found

    def _files(self) -> list[Path]:
        loaded = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        own = [Path(file) for file in loaded if isinstance(file, str) and self._is_own(file)]
        modules = [file for file in own if file.suffix == ".py"]
        configs = [file for file in sorted(self.folder.glob("*.yaml")) if not is_skipped(file.name)]
        first = sorted(modules, key=lambda file: not file.is_relative_to(self.folder))
        return list(dict.fromkeys([*configs, *first]))[:MAX_FILES]


def _named_in_python(text: str) -> Iterator[tuple[str, int]]:
    """Yield (name, line) of each call with `name="…"`, of each call of a function that makes such calls with one of
    its parameters, and of each function: a workflow names a node by it.
    """
    nodes = list(ast.walk(ast.parse(text)))
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    functions = [node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    for call in calls:
        named = _text_in(_argument(call, "name", None))
        if named:
            yield named, call.lineno
    makers = {function.name: found for function in functions if (found := _naming_parameter(function))}
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id in makers:
            named = _text_in(_argument(call, *makers[call.func.id]))
            if named:
                yield named, call.lineno
    yield from ((function.name, function.lineno) for function in functions)


def _naming_parameter(function: ast.FunctionDef | ast.AsyncFunctionDef) -> tuple[str, int] | None:
    """Return name and place of the parameter that a function hands on as the `name` of what it makes."""
    parameters = [parameter.arg for parameter in function.args.args]
    for node in ast.walk(function):
        given = _argument(node, "name", None) if isinstance(node, ast.Call) else None
        if isinstance(given, ast.Name) and given.id in parameters:
            return given.id, parameters.index(given.id)
    return None


def _argument(call: ast.Call, name: str, place: int | None) -> ast.expr | None:
    by_name = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return call.args[place] if by_name is None and place is not None and place < len(call.args) else by_name


def _text_in(given: ast.expr | None) -> str:
    return given.value if isinstance(given, ast.Constant) and isinstance(given.value, str) else ""


def _named_in_yaml(text: str) -> Iterator[tuple[str, int]]:
    for match in NAMED_IN_YAML.finditer(text):
        yield match.group(1).strip(), text.count("\n", 0, match.start()) + 1


def _unwrapped(given: Any) -> Callable[..., Any] | Any:
    for _ in range(MAX_WRAPPERS):
        if isinstance(given, partial):
            given = given.func
        elif inspect.ismethod(given):
            given = given.__func__
        elif inspect.isfunction(given) and hasattr(given, "__wrapped__"):
            given = given.__wrapped__
        else:
            break
    return given
