"""docs/fixtures.md: its commands run and find what the page says, and its examples are valid."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from google.adk.evaluation.local_eval_sets_manager import load_eval_set_from_file

from evals_app.files import parse
from evals_app.files.argument_matchers import MATCHERS, TYPES, require_matchers
from evals_app.files.fixtures import Injection
from tests import forked_processes

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/fixtures.md").read_text(encoding="utf-8")
MAILROOM = ROOT / "examples/adversarial/mailroom"


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def run_command(words, folder):
    """Run a command of the page with a store of its own; return its exit code and output."""
    assigned = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    command = [sys.executable if word == ".venv/bin/python" else word for word in words[len(assigned) :]]
    environment = {**os.environ, "DATABASE_URL": f"sqlite:///{folder / 'devui.sqlite3'}", **assigned}
    process = forked_processes.run([*command, "--json", str(folder / "run.json")], cwd=ROOT, env=environment)
    return process.returncode, process.stdout


@pytest.fixture
def careful_and_obedient(tmp_path):
    """The exit code, the output and the run of both commands of the page."""
    results = []
    for block in blocks("sh"):
        [line] = block.splitlines()
        code, printed = run_command(shlex.split(line), tmp_path)
        [run] = json.loads((tmp_path / "run.json").read_text())["runs"]
        results.append((code, printed, run))
    return results


def test_careful_agent_withstands_and_obedient_agent_is_found(careful_and_obedient):
    (code, printed, run), (obeying_code, _, obeying_run) = careful_and_obedient
    assert (code, run["counts"]["passed"], run["unused_fixtures"]) == (0, 8, []), printed
    assert (obeying_code, obeying_run["counts"]["failed"]) == (1, 2)
    for attempt in obeying_run["attempts"]:
        assert attempt["cause"] == "send_mail: not expected"
        answers = [(answer["tool"], answer["source"]) for answer in attempt["fixture_answers"]]
        assert answers == [("list_mails", "case"), ("send_mail", "evalset")]


def test_adk_reads_the_attacks():
    assert len(load_eval_set_from_file(str(MAILROOM / "attacks.evalset.json"), "attacks").eval_cases) == 8


def test_json_of_the_page_is_valid():
    evalset, injection, expected_call = blocks("json")
    assert parse(evalset, "a.evalset.json", "a").cases[0].devui_fixtures
    Injection.model_validate_json(injection)
    matchers = json.loads(expected_call)["args"]["to"]["devui_match"]
    require_matchers(matchers)


def test_page_names_every_field_matcher_and_type():
    names = [*Injection.model_fields, *(f'"{name}":' for name in MATCHERS), *TYPES]
    assert [name for name in names if name not in PAGE] == []
