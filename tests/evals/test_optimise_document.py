"""docs/optimise.md: its command finds what the page shows, and its table has the options of the command."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from evals_app.management.commands.optimize import Command
from tests.evals.optimize_command import optimize

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/optimise.md").read_text(encoding="utf-8")


def test_command_of_the_page_finds_the_candidates_that_it_shows(store, tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    [command] = [text for text in re.findall(r"```sh\n(.*?)\n```", PAGE) if "manage.py optimize" in text]
    words = [str(tmp_path / word) if word.endswith(".yaml") else word for word in shlex.split(command)]
    code, out = optimize(*words[3:])
    [table] = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    assert table in out
    assert code == 0
    assert (tmp_path / "best.yaml").exists()


def test_table_of_the_page_has_the_options_of_the_command():
    parser = Command().create_parser("manage.py", "optimize")
    options = {name for action in parser._actions for name in action.option_strings if "_" not in name}
    documented = set(re.findall(r"`(--[\w-]+)", PAGE))
    common = set(re.findall(r"--[\w-]+", "--help --version --verbosity --settings --pythonpath --traceback"))
    common |= {"--no-color", "--force-color", "--skip-checks"}
    own = {name for name in options if name.startswith("--")} - common
    assert own - {"--optimizer", "--config-file-path"} <= documented
