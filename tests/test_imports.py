"""The direction of imports, held: the rooms, the layers inside them, and who may know the agent runtime.

A module's layer is what docs/architecture.md says of it, so the page and the code cannot drift apart.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
ROOMS = ("devui", "sessions_app", "evals_app")
LAYERED = ("sessions_app", "evals_app")
RUNTIME_ROOMS = ("sessions_app/adk/", "evals_app/engine/", "devui/runtime/")

MAY_IMPORT = {
    "base": {"base"},
    "writes": {"base", "writes"},
    "reads": {"base", "reads"},
    "acts": {"base", "writes", "reads", "acts"},
    "doors": {"base", "writes", "reads", "acts", "doors"},
}
DOORS_THAT_MEET = {
    ("urls", "views"),  # what a table of addresses is for
    ("management", "engine"),  # the command line runs evals in its own process
    ("management", "adk"),  # and hands sessions over to memory
    ("engine", "adk"),  # attempts run on the store's services, seen by the recorder
}

Found = tuple[str, ast.Module]
Rule = Callable[[str, str], bool]
"""Tells of (path of a module, dotted name that it imports) whether that is forbidden."""


@cache
def modules() -> tuple[Found, ...]:
    """Return every module of the rooms by its path."""
    files = (file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py")))
    return tuple(
        (file.relative_to(ROOT).as_posix(), ast.parse(file.read_text()))
        for file in files
        if "migrations" not in file.parts
    )


def imports_of(path: str, tree: ast.AST) -> Iterator[str]:
    """Yield the dotted names that a module imports, wherever in it and however they are spelled."""
    package = path.split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _name_of(node.func) in ("import_module", "__import__"):
            yield from (given.value for given in node.args if isinstance(given, ast.Constant))


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def offenders(forbidden: Rule, among: Iterable[Found] | None = None) -> list[str]:
    """Return the imports that break a rule, in words."""
    return [
        f"{path} imports {name}"
        for path, tree in (modules() if among is None else among)
        for name in imports_of(path, tree)
        if forbidden(path, name)
    ]


def is_under(name: str, *packages: str) -> bool:
    """Tell whether a dotted name is one of these or lies in it."""
    return any(name == package or name.startswith(package + ".") for package in packages)


# Layers


@cache
def layers() -> dict[str, str]:
    """Return dotted name → layer, of each module and package that the tables of docs/architecture.md name."""
    found, room = {}, ""
    for line in (ROOT / "docs/architecture.md").read_text().splitlines():
        if heading := re.match(r"### The modules of `(\w+)`", line):
            room = heading[1]
        elif room and (row := re.match(rf"\| (`.*?`) \| ({'|'.join(MAY_IMPORT)}) \|", line)):
            for name in re.findall(r"`([\w/]+)/?`", row[1]):
                found[f"{room}.{name.strip('/').replace('/', '.')}"] = row[2]
        elif line.startswith("## "):
            room = ""
    return found


def place_of(name: str) -> str | None:
    """Return the longest prefix of a dotted name that has a layer."""
    parts = name.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 1, -1))
    return next((prefix for prefix in prefixes if prefix in layers()), None)


def dotted(path: str) -> str:
    """Return the dotted name of a module's path."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def against_the_layers(path: str, name: str) -> bool:
    """`models ← writes ← doors` and `models ← timeline, history, report ← doors`."""
    here, there = place_of(dotted(path)), place_of(name)
    if here is None or there is None:
        return False
    return layers()[there] not in MAY_IMPORT[layers()[here]]


def between_doors(path: str, name: str) -> bool:
    """Doors never import each other; the same door of another room is no other door."""
    here, there = place_of(dotted(path)), place_of(name)
    if here is None or there is None or {layers()[here], layers()[there]} != {"doors"}:
        return False
    doors = here.split(".")[1], there.split(".")[1]
    return doors[0] != doors[1] and doors not in DOORS_THAT_MEET


def test_every_module_has_a_layer():
    """A new one gets a row in the tables of docs/architecture.md."""
    rooms = [*LAYERED, *(f"{room}.management.commands" for room in LAYERED)]
    names = [dotted(path) for path, _ in modules() if path.startswith(LAYERED)]
    assert not [name for name in names if name not in rooms and place_of(name) is None]


def test_every_name_in_the_tables_is_a_module():
    assert len(layers()) > 50
    assert not [
        name
        for name in layers()
        if not (ROOT / f"{name.replace('.', '/')}.py").is_file()
        and not (ROOT / name.replace(".", "/")).is_dir()
    ]


def test_imports_go_down_the_layers():
    assert not offenders(against_the_layers)


def test_doors_never_import_each_other():
    assert not offenders(between_doors)


def test_every_part_of_the_composing_room_is_in_its_table():
    page = (ROOT / "docs/architecture.md").read_text()
    table = page.partition("### The modules of `devui`")[2].partition("\n### ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)/?`", row)}
    parts = {path.split("/")[1].removesuffix(".py") for path, _ in modules() if path.startswith("devui/")}
    assert named == {part for part in parts if not part.startswith("__")}


# Rooms


def of_the_agent_runtime(path: str, name: str) -> bool:
    """Only the rooms that run in an agent's process know ADK."""
    return is_under(name, "google") and not path.startswith(RUNTIME_ROOMS)


def from_sessions_to_evals(path: str, name: str) -> bool:
    """Evals know sessions, never the reverse."""
    return path.startswith("sessions_app/") and is_under(name, "evals_app")


def of_the_composing_room(path: str, name: str) -> bool:
    """`devui` composes, so nothing imports it but itself; its leaf for HTTP is everybody's."""
    return not path.startswith("devui/") and is_under(name, "devui") and not is_under(name, "devui.http")


def of_private_names(path: str, name: str) -> bool:
    """Names of ADK that start with an underscore are used in one guarded module a room."""
    is_private = any(part.startswith("_") for part in name.split("."))
    return is_under(name, "google.adk") and is_private and not path.endswith("/_adk.py")


def private_attributes(path: str, tree: ast.AST) -> list[str]:
    """Return what a module reaches for behind an underscore of what it imports from ADK."""
    if path.endswith("/_adk.py"):
        return []
    adks = {
        alias.asname or alias.name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if is_under(getattr(node, "module", None) or alias.name, "google.adk")
    }
    return [
        f"{path} uses {node.value.id}.{node.attr}"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id in adks and re.match(r"_(?!_)", node.attr)
    ]


@pytest.mark.parametrize(
    "rule", [of_the_agent_runtime, from_sessions_to_evals, of_the_composing_room, of_private_names]
)
def test_the_rooms_keep_apart(rule):
    assert not offenders(rule)


def test_private_attributes_of_adk_are_reached_in_the_guarded_modules_alone():
    assert not [found for path, tree in modules() for found in private_attributes(path, tree)]


def test_a_guarded_module_stands_in_every_room_that_runs_agents():
    for room in RUNTIME_ROOMS:
        assert (ROOT / room / "_adk.py").is_file()


@pytest.mark.parametrize(
    ("rule", "path", "line"),
    [
        (against_the_layers, "sessions_app/models/state.py", "from sessions_app import writes"),
        (against_the_layers, "sessions_app/wire/records.py", "import sessions_app.runs.rows"),
        (against_the_layers, "sessions_app/redact.py", "from . import writes"),
        (against_the_layers, "sessions_app/redact.py", "from sessions_app.views import session"),
        (against_the_layers, "sessions_app/writes.py", "from sessions_app import history"),
        (against_the_layers, "sessions_app/writes.py", "from sessions_app.live import tail"),
        (against_the_layers, "sessions_app/runs/rows.py", "from ..timeline.runs import runs_of"),
        (against_the_layers, "sessions_app/history.py", "from sessions_app.writes import append_event"),
        (against_the_layers, "sessions_app/timeline/board.py", "from sessions_app.runs import rows"),
        (against_the_layers, "sessions_app/timeline/board.py", "from sessions_app import edits"),
        (against_the_layers, "evals_app/report.py", "from evals_app import writes"),
        (against_the_layers, "evals_app/models.py", "from sessions_app.writes import SessionKey"),
        (against_the_layers, "evals_app/launch.py", "def f(): from evals_app.views import run"),
        (between_doors, "sessions_app/views/session.py", "from sessions_app.api import v1"),
        (between_doors, "sessions_app/api/v1.py", "from ..views import session"),
        (between_doors, "sessions_app/live/tail.py", "from sessions_app.adk import DjangoSessionService"),
        (between_doors, "sessions_app/management/commands/x.py", "from sessions_app import views"),
        (between_doors, "evals_app/views/runs.py", "from sessions_app.api import v1"),
        (of_the_agent_runtime, "sessions_app/views/session.py", "def f(): import google.adk"),
        (of_the_agent_runtime, "devui/asgi.py", "from google.genai import types"),
        (of_the_agent_runtime, "evals_app/metrics.py", 'importlib.import_module("google.adk.evaluation")'),
        (from_sessions_to_evals, "sessions_app/overview.py", "from evals_app.models import EvalRun"),
        (of_the_composing_room, "sessions_app/db.py", "from devui import settings"),
        (of_the_composing_room, "evals_app/api.py", "from devui.errors import answer"),
        (
            of_private_names,
            "sessions_app/adk/service.py",
            "from google.adk.events._internal_metadata import x",
        ),
        (of_private_names, "devui/runtime/host.py", "from google.adk.runners import _x"),
    ],
)
def test_each_rule_sees_a_planted_violation(rule, path, line):
    assert offenders(rule, [(path, ast.parse(line))])


@pytest.mark.parametrize(
    "line",
    [
        "from google.adk import runners\nrunners._x()",
        "import google.adk as a\na._x",
        "from google.adk.x import Y\nY()\nY._z",
    ],
)
def test_a_planted_private_attribute_is_seen(line):
    assert private_attributes("devui/runtime/host.py", ast.parse(line))
    assert not private_attributes("devui/runtime/_adk.py", ast.parse(line))


@pytest.mark.parametrize("module", ["devui.asgi"])
def test_the_web_process_starts_without_the_agent_runtime(module, tmp_path):
    script = f"import sys, {module}; sys.exit('google.adk' in sys.modules or 'google.genai' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert result.returncode == 0, result.stderr
