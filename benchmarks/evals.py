"""An evalset of 40 cases from the command line, beside `adk eval` on the same cases.

`adk eval` needs google-adk[eval], which takes 600 MB: `--adk-eval PYTHON` names an interpreter that has it.
Bytecode is compiled by first, untimed runs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.serving import AGENTS, ROOT

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
ADK_PYTHON = os.environ.get("BENCH_ADK_EVAL", "")
CASES = 40
TURNS = 3
BUDGET = 3.5

ALONE = ("one_city", "two_cities_at_once", "packing_reads_temp_state", "no_station")
"""Cases that any order passes: `adk eval` runs all cases on one user's state."""

PASSED = {"DevUI": re.compile(r"(\d+) of \d+ passed"), "adk eval": re.compile(r"Tests passed: (\d+)")}


def write_evalset() -> tuple[Path, Path]:
    """Write the agents and the evalset to a folder that may be written to; return the agent's and the file."""
    agents = FOLDER / "agents"
    shutil.copytree(AGENTS, agents, ignore=shutil.ignore_patterns("__pycache__", ".adk", "*.evalset.json"))
    evalset = json.loads((AGENTS / "weather" / "lookups.evalset.json").read_text())
    cases = [case for case in evalset["eval_cases"] if case["eval_id"] in ALONE]
    many = [{**cases[number % len(cases)], "eval_id": f"case-{number}"} for number in range(CASES)]
    file = agents / "weather" / "forty.evalset.json"
    file.write_text(json.dumps({**evalset, "eval_set_id": "forty", "eval_cases": many}))
    return agents / "weather", file


def time_of(command: Sequence[str], agents: Path, passed: re.Pattern[str]) -> tuple[float, str]:
    """Return the median wall time of a command in seconds, and how many cases passed."""
    times, said = [], ""
    for _ in range(TURNS + 1):
        start = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(agents)},
            capture_output=True,
            text=True,
            check=False,
        )
        times.append(time.perf_counter() - start)
        if not (found := passed.search(done.stdout)):
            raise SystemExit(f"{' '.join(command)} told no result:\n{done.stdout}\n{done.stderr}")
        said = found[1]
    return statistics.median(times[1:]), said


def main() -> None:
    """Measure and print."""
    agent, evalset = write_evalset()
    ours = (sys.executable, str(ROOT / "manage.py"), "run_evals", str(agent), str(evalset))
    own, own_passed = time_of(ours, agent.parent, PASSED["DevUI"])
    what = f"evalset of {CASES} cases, command line ({own_passed} passed)"
    if not ADK_PYTHON:
        why = "adk eval: not installed here, see --adk-eval"
        print(Figure(what, "s", own, BUDGET, None, why).as_line())
        return
    theirs = (ADK_PYTHON, "-m", "google.adk.cli", "eval", str(agent), str(evalset))
    peer, peer_passed = time_of(theirs, agent.parent, PASSED["adk eval"])
    print(Figure(what, "s", own, BUDGET, peer, f"adk eval ({peer_passed} passed)").as_line())


if __name__ == "__main__":
    main()
