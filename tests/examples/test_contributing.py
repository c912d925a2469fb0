"""docs/contributing.md: its commands run, and the files, fixtures and make targets that it names exist."""

from __future__ import annotations

import ast
import os
import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests import forked_processes

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/contributing.md").read_text(encoding="utf-8")
FOLDERS = (
    "",
    "sessions_app",
    "evals_app",
    "devui",
    "static/devui",
    "sessions_app/timeline",
    "sessions_app/problems",
    "tests/remote",
)
"""Folders that the page's paths are relative to; the last ones in rows that name the folder before the file."""

NOT_IN_THE_TREE = {".adk-js/", "/version", "dist/"}


def commands() -> list[list[str]]:
    """Return the shell commands of the page without comments, as lists of words."""
    blocks = re.findall(r"^( *)```sh\n(.*?)^ *```", PAGE, re.MULTILINE | re.DOTALL)
    lines = (line for _, block in blocks for line in block.splitlines())
    return [shlex.split(line, comments=True) for line in lines if line.strip()]


OWN_VARIABLES = {"DATABASE_URL", "DEVUI_TEST_HALF"}
"""Variables of this run that its commands do not have: they would choose another store, and leave out modules."""

COMMANDS = commands()
PYTHON_COMMANDS = [words[1:] for words in COMMANDS if words[0] == ".venv/bin/python"]
TEST_COMMANDS = [words for words in PYTHON_COMMANDS if "pytest" in words]
MANAGEMENT_COMMANDS = [words for words in PYTHON_COMMANDS if "pytest" not in words]


def run(*words: str) -> str:
    """Run a command in the root of the project; return what it prints."""
    environment = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    process = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_commands_are_make_targets_and_python_commands():
    assert {words[0] for words in COMMANDS} == {"make", ".venv/bin/python"}
    assert len(PYTHON_COMMANDS) > 5


def test_make_targets_exist():
    targets = {words[1] for words in COMMANDS if words[0] == "make"}
    targets |= set(re.findall(r"`make ([\w-]+)`", PAGE))
    run("make", "-n", *sorted(targets))


@pytest.mark.parametrize("words", MANAGEMENT_COMMANDS, ids=" ".join)
def test_management_command_works(words):
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    done = forked_processes.run([sys.executable, *words], cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.strip()


def test_test_commands_name_existing_files():
    assert len(TEST_COMMANDS) > 3
    paths = [word for words in TEST_COMMANDS for word in words if word.startswith("tests/")]
    assert [name for name in paths if not (ROOT / name).is_file()] == []


@pytest.mark.soak
@pytest.mark.parametrize("words", TEST_COMMANDS, ids=" ".join)
def test_test_command_selects_tests(words):
    """That they pass shows the suite, of which they are a part."""
    assert re.search(r"\d+(/\d+)? tests? collected", run(sys.executable, *words, "--collect-only", "-q"))


def test_files_exist():
    prose = re.sub(r"```.*?```", "", PAGE, flags=re.DOTALL)
    paths = {
        name
        for name in re.findall(r"`([\w./-]+)`", prose)
        if re.search(r"/|\.(py|md|html|css|js|svg)$", name)
    }
    exist = {name for name in paths if any((ROOT / folder / name).exists() for folder in FOLDERS)}
    assert paths - exist - NOT_IN_THE_TREE == set()


def test_fixtures_exist():
    rows = re.findall(
        r"^\| (`[a-z_`, ]+`) \| ([^|]+) \|", PAGE.split("| fixture |")[1].split("\n\n")[0], re.MULTILINE
    )
    assert len(rows) > 8
    for names, places in rows:
        for name in re.findall(r"`(\w+)`", names):
            for place in re.findall(r"`([\w./]+)`", places):
                assert name in fixtures_in(ROOT / place), f"{place} has no fixture {name}"


def fixtures_in(path: Path) -> set[str]:
    """Return the names of the functions of a conftest.py or a module."""
    tree = ast.parse((path / "conftest.py" if path.is_dir() else path).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_links_lead_to_headings():
    headings = {
        re.sub(r"[^\w -]", "", line).lower().replace(" ", "-")
        for line in re.findall(r"^##+ (.*)", PAGE, re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGE)) <= headings


def test_state_detector_of_the_page_is_that_of_the_example_plugin():
    [detector] = re.findall(r"^   ```python\n(   AMBIGUOUS_DATE.*?)^   ```", PAGE, re.MULTILINE | re.DOTALL)
    source = (ROOT / "examples/plugin/src/devui_example_plugin/problems.py").read_text(encoding="utf-8")
    assert textwrap.dedent(detector) in source
