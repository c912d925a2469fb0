"""Facts of an agent's process: variables that it reads, packages that it imported, versions of models."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
import textwrap

import pytest

from evals_app.execution import process_facts

READS = """
import os, sys
sys.path.insert(0, {root!r})
from evals_app.execution import process_facts
process_facts.watch_environment()
process_facts.watch_environment()
agent = compile({code!r}, "/agents/mine/agent.py", "exec")
exec(agent, {{"__name__": "agent"}})
print(process_facts.read_environment())
"""
ROOT = str(process_facts.__file__).removesuffix("evals_app/execution/process_facts.py")


def variables_read(code, **environment):
    """Return what a process notes in which an agent has this code."""
    script = READS.format(root=ROOT, code=textwrap.dedent(code))
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return eval(done.stdout)


@pytest.mark.parametrize(
    "read",
    [
        "os.environ['STYLE']",
        "os.environ.get('STYLE')",
        "os.environ.get('STYLE', 'x')",
        "os.getenv('STYLE')",
        "'STYLE' in os.environ",
        "os.environ.setdefault('STYLE', 'x')",
    ],
)
def test_variable_is_noted_however_it_is_read(read):
    assert variables_read(f"import os\n{read}", STYLE="polite").keys() == {"STYLE"}


def test_copies_of_the_whole_environment_note_nothing():
    code = """
        import os, subprocess
        first, second, third = {**os.environ}, dict(os.environ), os.environ.copy()
        fourth = list(os.environ.items())
        subprocess.run(["true"])
    """
    assert variables_read(code) == {}


def test_values_are_digests_and_credentials_only_set():
    variables = variables_read(
        "import os\nos.getenv('STYLE'), os.getenv('GEMINI_API_KEY'), os.getenv('MISSING')",
        STYLE="polite",
        GEMINI_API_KEY="secret",
    )
    assert variables == {"GEMINI_API_KEY": "set", "MISSING": "", "STYLE": variables["STYLE"]}
    assert "polite" not in variables["STYLE"]
    assert variables_read("import os\nos.getenv('STYLE')", STYLE="rude") != {"STYLE": variables["STYLE"]}


def test_reads_of_libraries_and_of_devui_are_not_the_agents():
    assert variables_read("import tempfile, asyncio, pydantic\ntempfile.gettempdir()") == {}


def test_imported_packages_have_the_versions_that_are_installed():
    packages = process_facts.list_imported_packages()
    assert {"google-adk", "pydantic", "django"} <= packages.keys()
    assert "playwright-never-imported" not in packages
    for name in ("google-adk", "pydantic", "django", "google-genai", "pyyaml"):
        assert packages[name] == importlib.metadata.version(name)
