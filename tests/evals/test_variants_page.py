"""docs/variants.md: its command compares its files, and its tables have the fields and limits of the code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from evals_app.execution.variant_fields import LLM_FIELDS
from evals_app.variants.agent_files import MAX_BYTES, MAX_FILES
from evals_app.variants.original_agents import MAX_AGENTS, TRUNCATED
from evals_app.variants.variant import MAX_VARIANTS
from evals_app.variants.variant_files import MAX_CHARACTERS, MAX_NAME_CHARACTERS, MAX_NOTE_CHARACTERS
from tests.evals.run_evals_command import run_evals

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/variants.md").read_text(encoding="utf-8")


def test_command_of_the_page_compares_its_files_as_shown(store, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    blocks = re.findall(r"^`([\w-]+\.yaml)`\n\n```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    for name, text in blocks:
        (tmp_path / name).write_text(text)
    [command] = [text for text in re.findall(r"```sh\n(.*?)\n```", PAGE) if "run_evals" in text]
    words = [str(tmp_path / word) if word.endswith(".yaml") else word for word in shlex.split(command)]
    assert words[:3] == [".venv/bin/python", "manage.py", "run_evals"]
    before = (ROOT / "examples/agents/shop/agent.py").read_text()
    code, out = run_evals(*words[3:])
    [table] = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert table in out
    assert code == 1
    assert (ROOT / "examples/agents/shop/agent.py").read_text() == before


def test_tables_of_the_page_have_the_fields_and_limits_of_the_code():
    documented = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)))
    assert {*LLM_FIELDS, "max_iterations"} <= {*documented}
    assert f"| variants beside the original, with those of models | {MAX_VARIANTS} |" in PAGE
    assert f"| agents that the form shows | {MAX_AGENTS} |" in PAGE
    assert f"more than {TRUNCATED:,} characters: write a file for it" in " ".join(PAGE.split())
    assert f"| characters of a file | {MAX_CHARACTERS:,} |" in PAGE
    files = "files of an agent, bytes of them together, in which a variant is saved"
    assert f"| {files} | {MAX_FILES}, {MAX_BYTES:,} |" in PAGE
    assert f"| characters of a name, of a note | {MAX_NAME_CHARACTERS}, {MAX_NOTE_CHARACTERS:,} |" in PAGE
