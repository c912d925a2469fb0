"""An evalset of 40 cases on the command line, beside `adk eval` on the same cases; a large one; the web during a run.

`adk eval` needs google-adk[eval], which takes 600 MB: `--adk-eval PYTHON` names an interpreter that has it.
Bytecode is compiled in untimed first runs. `--full`: 1,000 cases instead of 100.
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
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.figures import Figure
from benchmarks.serving import AGENTS, OURS, ROOT, server, server_pid

FOLDER = Path(os.environ.get("BENCH_FOLDER", "."))
ADK_PYTHON = os.environ.get("BENCH_ADK_EVAL", "")
FULL = bool(os.environ.get("BENCH_FULL"))
CASES = 40
MANY, REPETITIONS = (1000, 3) if FULL else (100, 3)
TURNS = 3
BUDGET = 3.5
OF_ADK_EVAL = 0.35
"""Longest time on a new store, as a share of `adk eval`'s in the same run."""

MANY_BUDGET = 90.0
"""Seconds for 3,000 attempts."""

ALONE = ("one_city", "two_cities_at_once", "packing_reads_temp_state", "no_station")
"""Cases that pass in any order: `adk eval` runs all cases on one user's state."""

PASSED = {"DevUI": re.compile(r"(\d+) of \d+ passed"), "adk eval": re.compile(r"Tests passed: (\d+)")}


def write_evalsets(*sizes: int) -> tuple[Path, list[Path]]:
    """Write agents and evalsets of these sizes to a new folder; return the agent's folder and the files."""
    agents = FOLDER / "agents"
    shutil.copytree(AGENTS, agents, ignore=shutil.ignore_patterns("__pycache__", ".adk", "*.evalset.json"))
    evalset = json.loads((AGENTS / "weather" / "lookups.evalset.json").read_text())
    cases = [case for case in evalset["eval_cases"] if case["eval_id"] in ALONE]
    files = []
    for size in sizes:
        many = [{**cases[number % len(cases)], "eval_id": f"case-{number}"} for number in range(size)]
        files.append(agents / "weather" / f"cases{size}.evalset.json")
        files[-1].write_text(json.dumps({**evalset, "eval_set_id": f"cases{size}", "eval_cases": many}))
    return agents / "weather", files


@dataclass(frozen=True)
class TimedCommand:
    """A command whose output names the number of passed cases.

    `new_stores`: it uses a new store each time, as a CI build does.
    """

    command: Sequence[str]
    passed: re.Pattern[str]
    new_stores: bool = False

    def run(self, turn: int, agents: Path) -> tuple[float, str]:
        """Return the wall time in seconds, and the number of passed cases."""
        store = {"DATABASE_URL": f"sqlite:///{FOLDER / f'new{turn}.sqlite3'}"} if self.new_stores else {}
        start = time.perf_counter()
        process = subprocess.run(
            self.command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(agents), **store},
            capture_output=True,
            text=True,
            check=False,
        )
        seconds = time.perf_counter() - start
        if not (match := self.passed.search(process.stdout)):
            raise SystemExit(
                f"{' '.join(self.command)} printed no result:\n{process.stdout}\n{process.stderr}"
            )
        return seconds, match[1]


def run_alternately(commands: Mapping[str, TimedCommand], agents: Path) -> dict[str, tuple[float, str]]:
    """Return the median time of each command, and its number of passed cases.

    The commands take turns, so that a change of the machine's load meets all of them.
    """
    turns = [
        {name: command.run(turn, agents) for name, command in commands.items()} for turn in range(TURNS + 1)
    ]
    return {
        name: (statistics.median(turn[name][0] for turn in turns[1:]), turns[0][name][1]) for name in commands
    }


def many_attempts(agent: Path, evalset: Path) -> Figure:
    """Return the duration of a large evalset, including the start."""
    command = (sys.executable, str(ROOT / "manage.py"), "run_evals", str(agent), str(evalset))
    start = time.perf_counter()
    process = subprocess.run(
        (*command, f"--num-runs={REPETITIONS}"), cwd=ROOT, capture_output=True, text=True, check=False
    )
    seconds = time.perf_counter() - start
    if not (match := PASSED["DevUI"].search(process.stdout)):
        raise SystemExit(f"printed no result:\n{process.stdout[-2000:]}\n{process.stderr}")
    what = f"evalset of {MANY:,} cases × {REPETITIONS}, command line ({match[1]} passed)"
    return Figure(what, "s", seconds, MANY_BUDGET if FULL else None)


def memory_of_the_web(agent: Path, evalset: Path) -> list[Figure]:
    """Return the growth of the server's memory during a large run whose page is open: at the start and later."""
    name = evalset.name.removesuffix(".evalset.json")
    with server(OURS, agents=agent.parent) as (address, _):
        _post(address, "/api/v1/evals/runs", {"app": agent.name, "evalset": name, "cases": ["case-0"]})
        _wait_until_settled(address)
        before = _resident(address)
        order = {"app": agent.name, "evalset": name, "num_runs": REPETITIONS}
        run = _post(address, "/api/v1/evals/runs", order)
        page = f"/evals/runs/{run['id']}/"
        first = 0.0
        while not _wait_until_settled(address, patience=1.0):
            _get(address, page)
            first = first or (_resident(address) if _count_ended(address, run["id"]) >= MANY else 0.0)
        after = _resident(address)
    return [
        Figure(f"memory of the web while {MANY:,} attempts run", "MB", first - before),
        Figure(f"the same, for {MANY * (REPETITIONS - 1):,} more", "MB", after - first),
    ]


def _count_ended(address: str, run_id: str) -> int:
    """Return the number of ended attempts of a run."""
    runs = json.loads(_get(address, "/api/v1/evals/runs?limit=5"))["runs"]
    [counts] = [run["counts"] for run in runs if run["id"] == run_id]
    return sum(count for name, count in counts.items() if name != "total")


def _resident(address: str) -> float:
    """Return the resident memory of the process that listens at an address, in MB."""
    status = Path(f"/proc/{server_pid(address)}/status").read_text()
    kilobytes = re.search(r"VmRSS:\s+(\d+)", status)
    return int(kilobytes[1]) / 1000 if kilobytes else 0.0


def _wait_until_settled(address: str, patience: float = 600.0) -> bool:
    """Tell whether all eval runs end within some seconds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        runs = json.loads(_get(address, "/api/v1/evals/runs?limit=5"))["runs"]
        if all(run["status"] not in {"pending", "running"} for run in runs):
            return True
        time.sleep(0.2)
    return False


def _get(address: str, path: str) -> bytes:
    with urllib.request.urlopen(address + path) as answer:
        return bytes(answer.read())


def _post(address: str, path: str, body: Mapping[str, Any]) -> Any:
    headers = {"Content-Type": "application/json"}
    request = urllib.request.Request(address + path, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def main() -> None:
    """Measure and print."""
    agent, (evalset, large) = write_evalsets(CASES, MANY)
    ours = (sys.executable, str(ROOT / "manage.py"), "run_evals", str(agent), str(evalset))
    commands = {
        "own": TimedCommand(ours, PASSED["DevUI"]),
        "new store": TimedCommand(ours, PASSED["DevUI"], new_stores=True),
    }
    if ADK_PYTHON:
        theirs = (ADK_PYTHON, "-m", "google.adk.cli", "eval", str(agent), str(evalset))
        commands["peer"] = TimedCommand(theirs, PASSED["adk eval"])
    times = run_alternately(commands, agent.parent)
    peer, why = None, "adk eval: not installed here, see --adk-eval"
    if "peer" in times:
        peer, passed = times["peer"]
        why = f"adk eval ({passed} passed)"
    own, passed = times["own"]
    what = f"evalset of {CASES} cases, command line ({passed} passed)"
    print(Figure(what, "s", own, BUDGET, peer, why).as_line())
    own, _ = times["new store"]
    print(Figure(f"{what}, new store", "s", own, OF_ADK_EVAL * peer if peer else None, peer, why).as_line())
    print(many_attempts(agent, large).as_line())
    for figure in memory_of_the_web(agent, large):
        print(figure.as_line())


if __name__ == "__main__":
    main()
