"""Rules of imports: packages in the order of docs/architecture.md, no cycles, ADK only where agents run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
APPS = ("sessions_app", "evals_app", "devui")
"""The Django apps, the lowest first: each imports only itself and those before it."""

RUNTIME_PACKAGES = ("sessions_app/adk/", "evals_app/execution/", "devui/runtime/")

STORE = "sessions_app.store"
"""The package behind the wall: it imports nothing of the app beside it, and has a table of its own."""

ADK_SERVICES = "sessions_app.adk"
"""The package that programs with a `Runner` of their own import; it imports only the store."""

ENTRY_POINTS_THAT_MEET = {
    ("urls", "views"),  # what a table of addresses is for
    ("management", "execution"),  # the command line runs evals in its own process
    ("management", "adk"),  # and hands sessions over to memory
    ("execution", "adk"),  # attempts run on the store's services, seen by the recorder
}

ParsedModule = tuple[str, ast.Module]
Rule = Callable[[str, str], bool]
"""Tells of (path of a module, dotted name that it imports) whether that is forbidden."""


@cache
def modules() -> tuple[ParsedModule, ...]:
    """Return every module of the apps with its path."""
    files = (file for app in APPS for file in sorted((ROOT / app).rglob("*.py")))
    return tuple(
        (file.relative_to(ROOT).as_posix(), ast.parse(file.read_text()))
        for file in files
        if "migrations" not in file.parts
    )


@cache
def imports_of(path: str, tree: ast.AST) -> tuple[str, ...]:
    """Return the dotted names that a module imports, wherever in it and however they are spelled."""
    return tuple(_imports_in(path, tree))


def _imports_in(path: str, tree: ast.AST) -> Iterator[str]:
    package = path.split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and _name_of(node.func) in ("import_module", "__import__"):
            yield from (arg.value for arg in node.args if isinstance(arg, ast.Constant))


def _name_of(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def offenders(forbidden: Rule, among: Iterable[ParsedModule] | None = None) -> list[str]:
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


# Packages


@cache
def order() -> dict[str, int]:
    """Return the position of each package and root module in the tables of docs/architecture.md, the lowest first."""
    positions, app = {}, ""
    for line in (ROOT / "docs/architecture.md").read_text().splitlines():
        if heading := re.match(r"### Packages of `([\w/]+)`", line):
            app = heading[1].replace("/", ".")
        elif app and (row := re.match(r"\| `(\w+)/?`", line)):
            positions[f"{app}.{row[1]}"] = len(positions)
        elif line.startswith("## "):
            app = ""
    return positions


@cache
def entry_points() -> set[str]:
    """Return the packages that the tables call entry points."""
    page = (ROOT / "docs/architecture.md").read_text()
    return set(re.findall(r"^\| `(\w+)/?`[ †]*\| entry point", page, re.MULTILINE))


def dotted_name(path: str) -> str:
    """Return the dotted name of a module's path."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def package_of(name: str) -> str:
    """Return the package or root module of an app, or of the store, that a dotted name lies in."""
    depth = 3 if name.startswith(f"{STORE}.") else 2
    return ".".join(name.split(".")[:depth])


def up_the_order(path: str, name: str) -> bool:
    """A package imports only packages above it in its table, which are lower."""
    importer, imported = package_of(dotted_name(path)), package_of(name)
    if importer == imported or importer not in order() or imported not in order():
        return False
    return order()[imported] > order()[importer] and importer.split(".")[0] == imported.split(".")[0]


def through_the_wall(path: str, name: str) -> bool:
    """The store imports nothing of ours outside of itself; ADK's services import only the store."""
    if not is_under(name, *APPS):
        return False
    importer = dotted_name(path)
    if is_under(importer, STORE):
        return not is_under(name, STORE)
    return is_under(importer, ADK_SERVICES) and not is_under(name, STORE, ADK_SERVICES)


def up_the_apps(path: str, name: str) -> bool:
    """`sessions_app` ← `evals_app` ← `devui`."""
    importer, imported = path.split("/")[0], name.split(".")[0]
    return imported in APPS and APPS.index(imported) > APPS.index(importer)


def between_entry_points(path: str, name: str) -> bool:
    """Entry points never import each other; the same one of another app is no other one."""
    if not is_under(name, *APPS) or "." not in name:
        return False
    importer, imported = dotted_name(path).split(".")[1:2], name.split(".")[1]
    if not importer or not {importer[0], imported} <= entry_points():
        return False
    return importer[0] != imported and (importer[0], imported) not in ENTRY_POINTS_THAT_MEET


def cycles(among: Iterable[ParsedModule] | None = None) -> list[str]:
    """Return, for each level of the tree, a cycle of imports between siblings: modules or whole packages."""
    parsed = tuple(modules() if among is None else among)
    names = {dotted_name(path) for path, _ in parsed}
    siblings: dict[str, dict[str, set[str]]] = {}
    for path, tree in parsed:
        importer = dotted_name(path).split(".")
        for name in imports_of(path, tree):
            imported = _module_named(name, names)
            shared = next(
                (n for n, pair in enumerate(zip(importer, imported, strict=False)) if pair[0] != pair[1]),
                None,
            )
            if shared is not None:
                graph = siblings.setdefault(".".join(importer[:shared]), {})
                graph.setdefault(importer[shared], set()).add(imported[shared])
    return [
        f"{parent or 'the apps'}: {cycle}"
        for parent, graph in siblings.items()
        if (cycle := _cycle_in(graph))
    ]


def _module_named(name: str, names: set[str]) -> list[str]:
    """Return the parts of the module that an imported name lies in; empty when it is none of ours."""
    parts = name.split(".")
    while parts and ".".join(parts) not in names:
        parts.pop()
    return parts


def _cycle_in(graph: dict[str, set[str]]) -> str:
    try:
        tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        return " ← ".join(error.args[1])
    return ""


def test_every_package_is_in_its_table_and_every_row_is_a_package():
    packages = {package_of(dotted_name(path)) for path, _ in modules() if path.count("/") > 0}
    assert set(order()) == {name for name in packages if "." in name and not name.endswith("__main__")}


def test_packages_import_only_those_above_them_in_the_table():
    assert not offenders(up_the_order)


def test_the_store_and_adks_services_import_nothing_of_the_app_beside_them():
    assert not offenders(through_the_wall)


def test_entry_points_never_import_each_other():
    assert not offenders(between_entry_points)


def test_imports_have_no_cycles():
    assert not cycles()


@pytest.mark.parametrize(
    "planted",
    [
        {
            "sessions_app/state/key_history.py": "from sessions_app.state import shared_state",
            "sessions_app/state/shared_state.py": "from . import key_history",
        },
        {
            "sessions_app/state/key_history.py": "from sessions_app.search import tokens",
            "sessions_app/search/tokens.py": "import sessions_app.state.shared_state",
            "sessions_app/state/shared_state.py": "",
        },
        {
            "sessions_app/runs/lifecycle.py": "def f(): from evals_app.models import EvalRun",
            "evals_app/models.py": "from sessions_app.runs import lifecycle as rows",
        },
    ],
    ids=["modules", "packages", "apps"],
)
def test_a_planted_cycle_is_seen(planted):
    assert cycles([(path, ast.parse(text)) for path, text in planted.items()])


# Tests


def of_test_modules(path: str, name: str) -> bool:
    """Helpers of tests are in conftest.py or in modules with plain names, never in other test modules."""
    return any(part.startswith("test_") for part in name.split("."))


def test_no_module_imports_test_modules():
    test_modules = {file.stem for file in (ROOT / "tests").rglob("test_*.py")}
    texts = {
        file.relative_to(ROOT).as_posix(): file.read_text()
        for folder in ("tests", "benchmarks", *APPS)
        for file in (ROOT / folder).rglob("*.py")
    }
    # Who imports a module writes its name, so only these few files are parsed.
    naming = [path for path, text in texts.items() if test_modules.intersection(re.findall(r"\w+", text))]
    assert not offenders(of_test_modules, [(path, ast.parse(texts[path])) for path in naming])


# ADK


def of_the_agent_runtime(path: str, name: str) -> bool:
    """Only packages that run in an agent's process import ADK."""
    is_of_agents = is_under(name, "google") and not is_under(
        name, "google.protobuf"
    )  # its messages, for OTLP
    return is_of_agents and not path.startswith(RUNTIME_PACKAGES)


def of_private_names(path: str, name: str) -> bool:
    """Names of ADK that start with an underscore are used in one guarded module per app."""
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


@pytest.mark.parametrize("rule", [of_the_agent_runtime, up_the_apps, of_private_names])
def test_apps_import_downwards_and_adk_only_where_agents_run(rule):
    assert not offenders(rule)


def test_private_names_of_adk_are_used_in_guarded_modules_only():
    assert not [use for path, tree in modules() for use in private_attributes(path, tree)]


def test_every_package_that_imports_adk_has_a_guarded_module():
    for package in RUNTIME_PACKAGES:
        assert (ROOT / package / "_adk.py").is_file()


@pytest.mark.parametrize(
    ("rule", "path", "line"),
    [
        (
            up_the_order,
            "sessions_app/store/models/state.py",
            "from sessions_app.store.sessions import writes",
        ),
        (through_the_wall, "sessions_app/store/models/state.py", "from sessions_app.sessions import labels"),
        (through_the_wall, "sessions_app/adk/service.py", "def f(): import sessions_app.prices.costs"),
        (through_the_wall, "sessions_app/store/mirrors.py", "from evals_app.models import EvalRun"),
        (up_the_order, "sessions_app/store/events/records.py", "import sessions_app.store.runs.open_calls"),
        (up_the_order, "sessions_app/store/redaction.py", "from .models import Event"),
        (
            up_the_order,
            "sessions_app/sessions/labels.py",
            "from sessions_app.live import session_tail as tail",
        ),
        (up_the_order, "sessions_app/runs/lifecycle.py", "from ..timeline.runs import runs_of"),
        (up_the_order, "evals_app/models.py", "def f(): from evals_app.views import run_actions"),
        (up_the_order, "devui/web/error_responses.py", "from devui import settings"),
        (between_entry_points, "sessions_app/views/session.py", "from sessions_app.api import v1"),
        (between_entry_points, "sessions_app/api/v1.py", "from ..views import session"),
        (
            between_entry_points,
            "sessions_app/live/session_tail.py",
            "from sessions_app.adk import DjangoSessionService",
        ),
        (between_entry_points, "sessions_app/management/commands/x.py", "from sessions_app import views"),
        (between_entry_points, "evals_app/views/run_actions.py", "from sessions_app.api import v1"),
        (up_the_apps, "sessions_app/sessions/overview.py", "from evals_app.models import EvalRun"),
        (up_the_apps, "sessions_app/store/database/units_of_work.py", "from devui import settings"),
        (up_the_apps, "evals_app/api/results.py", "from devui.web.error_responses import answer"),
        (of_the_agent_runtime, "sessions_app/views/session.py", "def f(): import google.adk"),
        (of_the_agent_runtime, "devui/asgi.py", "from google.genai import types"),
        (
            of_the_agent_runtime,
            "evals_app/metrics/catalog.py",
            'importlib.import_module("google.adk.evaluation")',
        ),
        (
            of_private_names,
            "sessions_app/adk/service.py",
            "from google.adk.events._internal_metadata import x",
        ),
        (of_private_names, "devui/runtime/host.py", "from google.adk.runners import _x"),
        (of_test_modules, "tests/api/test_v1.py", "from tests.api.test_run import post"),
        (of_test_modules, "tests/api/test_v1.py", "from . import test_run"),
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


DATABASE_PACKAGES = (
    "sessions_app/store/",
    "sessions_app/search/",
    "sessions_app/adk/",
    "sessions_app/migrations/",
)
"""Packages that may ask which database they use, and name tables of sessions in SQL."""


def database_details(path: str, text: str) -> list[str]:
    """Return the questions for the database's vendor and the raw table names of a module outside of the store."""
    if path.startswith(DATABASE_PACKAGES):
        return []
    return [
        f"{path}: {match}"
        for match in re.findall(r"\.vendor\b|\b(?:FROM|JOIN|UPDATE|INTO) sessions_app_\w+", text)
    ]


def test_what_differs_between_the_databases_stands_in_the_store():
    files = ((file.relative_to(ROOT).as_posix(), file) for app in APPS for file in (ROOT / app).rglob("*.py"))
    assert not [detail for path, file in files for detail in database_details(path, file.read_text())]


@pytest.mark.parametrize("line", ['connection.vendor == "sqlite"', "SELECT id FROM sessions_app_event"])
def test_a_planted_detail_of_the_database_is_seen(line):
    assert database_details("sessions_app/runs/lifecycle.py", line)
    assert not database_details("sessions_app/store/models/runs.py", line)


LOADED_WITH_SERVICES = (
    "devui",
    "evals_app.apps",
    "evals_app.management",
    "evals_app.migrations",
    "evals_app.models",
    "sessions_app.adk",
    "sessions_app.apps",
    "sessions_app.management",
    "sessions_app.migrations",
    "sessions_app.models",
    "sessions_app.quotas.active_runs",
    "sessions_app.sessions.eval_attempts",
    "sessions_app.store",
    "sessions_app.transfer.folder_importer",
)
"""Modules that a program with a `Runner` of its own may load: settings, tables, the store, ADK's services, and three
registries that `evals_app` adds to when Django starts."""


def test_a_foreign_runner_loads_only_the_store_and_adks_services(tmp_path):
    script = (
        f"import sys, devui; devui.setup('sqlite:///{tmp_path}/s.sqlite3')\n"
        "from sessions_app.adk import DjangoSessionService\n"
        f"print(*(name for name in sys.modules if name.split('.')[0] in {APPS}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        env={name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    loaded = result.stdout.split()
    assert "sessions_app.adk.service" in loaded
    assert "sessions_app.adk.recorder" not in loaded
    assert not [name for name in loaded if is_under(name, "devui.accounts", "devui.web")]
    packages = {
        "sessions_app",
        "sessions_app.quotas",
        "sessions_app.sessions",
        "sessions_app.transfer",
        "evals_app",
    }
    assert not [name for name in loaded if name not in packages and not is_under(name, *LOADED_WITH_SERVICES)]
