"""Runs both sides, prints a table, and exits with 1 if there is an unintended difference."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import django

from evals_app.metrics.metric import metric_label
from tests import forked_processes
from tests.parity.compare import Compared, compare
from tests.parity.corpus import EXAMPLES, Job, jobs

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SHOWN = 10
PATIENCE_S = 1_800
"""Seconds for one run."""

MOST = 4000
"""Characters of what a side said when it did not run."""


def main() -> int:
    """Return the exit code: 0 when both sides agree wherever they are meant to."""
    parser = argparse.ArgumentParser(prog="make parity", description="Compare run_evals with adk eval.")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv-parity", help="has google-adk[eval]")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "devui.settings")
    django.setup()  # the registry of metrics imports models
    peer = prepare_environment(options.venv)
    with tempfile.TemporaryDirectory(prefix="devui-parity-") as place:
        folder = Path(place)
        agents = _agents(folder)
        (folder / "files").mkdir()
        all_jobs = jobs(folder / "files")
        with ThreadPoolExecutor(max_workers=1) as beside:
            theirs = beside.submit(_adk, peer, folder, agents, all_jobs)
            ours = [_devui(folder, agents, number, job) for number, job in enumerate(all_jobs)]
        both = zip(theirs.result(), ours, strict=True)
    return report(all_jobs, [compare(left, right) for left, right in both])


def prepare_environment(place: Path) -> Path:
    """Return a Python with google-adk[eval] of the version that is installed here, made once and kept."""
    requirement = f"google-adk[eval]=={version('google-adk')}"
    python, mark = place / "bin" / "python", place / ".installed"
    lines = [requirement, "rouge-score", "pyyaml"]
    if mark.is_file() and mark.read_text() == "\n".join(lines) and python.exists():
        return python
    print(f"installing {requirement} into {place.name} …", flush=True)
    shutil.rmtree(place, ignore_errors=True)
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, place], check=True)
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *lines], check=True)
    mark.write_text("\n".join(lines))
    return python


def _agents(folder: Path) -> Path:
    """Copy the agents: `adk eval` writes its results beside them."""
    agents = folder / "agents"
    ignored = shutil.ignore_patterns("__pycache__", ".adk")
    shutil.copytree(EXAMPLES / "agents", agents, ignore=ignored)
    shutil.copytree(HERE / "agents" / "parrot", agents / "parrot", ignore=ignored)
    return agents


def _adk(python: Path, folder: Path, agents: Path, jobs: Sequence[Job]) -> list[Any]:
    """Run all jobs with `adk eval`: those of an agent in one process, in the order given."""
    results: dict[int, Any] = {}
    numbered = sorted(enumerate(jobs), key=lambda item: item[1].agent)
    for agent, group in groupby(numbered, key=lambda other: other[1].agent):
        some = list(group)
        jobs_json = [
            {
                "agent_dir": str(agents / agent),
                "file": str(_file(agents, job)),
                "config": str(_config(folder, number, job)),
                "whole": job.whole,
            }
            for number, job in some
        ]
        jobs_file, results_file = folder / f"{agent}.jobs.json", folder / f"{agent}.results.json"
        jobs_file.write_text(json.dumps(jobs_json))
        print(f"adk eval: {agent}, {len(some)} evalsets", flush=True)
        done = subprocess.run(
            [str(python), str(HERE / "adk_side.py"), str(jobs_file), str(results_file)],
            env={**os.environ, "PYTHONPATH": str(agents)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        if done.returncode:
            raise SystemExit(f"adk eval did not run for {agent}:\n{done.stderr[-MOST:]}")
        read = json.loads(results_file.read_text(encoding="utf-8"))
        results.update(zip((number for number, _ in some), read, strict=True))
    return [results[number] for number in range(len(jobs))]


def _devui(folder: Path, agents: Path, number: int, job: Job) -> list[Any]:
    """Run a job with `run_evals` and return its attempts."""
    print(f"run_evals: {job.agent}, {job.file.name}, {_metrics(job)}", flush=True)
    out = folder / f"{number}.devui.json"
    command = [sys.executable, str(ROOT / "manage.py"), "run_evals", str(agents / job.agent)]
    command += [str(_file(agents, job)), "--config", str(_config(folder, number, job))]
    command += ["--num-runs", str(job.num_runs), "--json", str(out)]
    env = {**os.environ, "DATABASE_URL": f"sqlite:///{folder / 'devui.sqlite3'}"}
    done = forked_processes.run(command, PATIENCE_S, env=env)
    if not out.is_file():
        raise SystemExit(f"run_evals {job.file.name} did not run:\n{(done.stdout + done.stderr)[-MOST:]}")
    (run,) = json.loads(out.read_text(encoding="utf-8"))["runs"]
    attempts: list[Any] = run["attempts"]
    return attempts


def _file(agents: Path, job: Job) -> Path:
    """Return the evalset: of an agent's own its copy beside the copied agent."""
    beside = agents / job.agent / job.file.name
    return beside if job.file.is_relative_to(EXAMPLES / "agents") else job.file


def _config(folder: Path, number: int, job: Job) -> Path:
    path = folder / f"{number}.config.json"
    path.write_text(json.dumps(job.config))
    return path


def report(jobs: Sequence[Job], comparisons: Sequence[Compared]) -> int:
    """Print what was compared, and return the exit code."""
    unintended = 0
    rows = [("evalset", "metrics", "scores", "verdicts", "differ")]
    for job, compared in zip(jobs, comparisons, strict=True):
        bad = [difference for difference in compared.differences if not _intended(job, difference.case)]
        unintended += len(bad)
        differ = (
            str(len(bad)) if bad else f"{len(compared.differences)} intended" if compared.differences else "0"
        )
        rows.append((job.file.name, _metrics(job), str(compared.scores), str(compared.verdicts), differ))
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    for job, compared in zip(jobs, comparisons, strict=True):
        for reason in dict.fromkeys(
            filter(None, (_intended(job, difference.case) for difference in compared.differences))
        ):
            print(f"intended, {job.file.name}: {reason}.")
        for item in [
            difference for difference in compared.differences if not _intended(job, difference.case)
        ][:SHOWN]:
            print(
                f"DIFFERS, {job.file.name} {item.case}: {item.what}: adk eval {item.adk}, DevUI {item.devui}"
            )
    scores, verdicts = (
        sum(comparison.scores for comparison in comparisons),
        sum(comparison.verdicts for comparison in comparisons),
    )
    print(f"{scores:,} scores and {verdicts:,} verdicts compared, {unintended} differ.")
    return 1 if unintended or not scores else 0


def _intended(job: Job, case: str) -> str:
    return job.intended.get(case) or job.intended.get(None, "")


def _metrics(job: Job) -> str:
    return ", ".join(
        metric_label(name) + _rules(criterion) for name, criterion in job.config["criteria"].items()
    )


def _rules(criterion: Any) -> str:
    from evals_app.metrics.alignment import MatchRules  # imports models, for which Django has to be set up

    rules = MatchRules.of(criterion)
    words = [
        *([rules.match_type.lower()] if rules.match_type != "EXACT" else []),
        *(["names"] if rules.ignore_args else []),
    ]
    return f" ({', '.join(words)})" if words else ""


if __name__ == "__main__":
    sys.exit(main())
