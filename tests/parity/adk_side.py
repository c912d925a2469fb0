"""Runs `adk eval` in the environment that has google-adk[eval], and prints its results as JSON.

    python adk_side.py JOBS.json RESULTS.json

JOBS: [{agent_dir, file, config, whole}], of one agent. RESULTS: for each, [{case, verdict, metrics}], or
{"crashed": why}. Knows nothing of DevUI.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from google.adk.cli.cli_tools_click import main as adk

Json = dict[str, Any]
VERDICTS = {1: "passed", 2: "failed", 3: "not_evaluated", 4: "informational"}


def run(job: Json) -> list[Json] | Json:
    """Run a job, case by case: `adk eval` keeps the state of a user from case to case."""
    file = Path(job["file"])
    os.chdir(file.parent)  # of a file with a folder before its name `adk eval` cannot store the results
    cases = [""] if job["whole"] else [f":{case}" for case in ids_of(file)]
    items: list[Json] = []
    for case in cases:
        results = once(Path(job["agent_dir"]), f"{file.name}{case}", job["config"])
        if isinstance(results, dict):
            return results
        items += results
    return items


def ids_of(file: Path) -> list[str]:
    """Return the ids of a file's cases, in any of ADK's forms."""
    read = json.loads(file.read_text(encoding="utf-8"))
    if isinstance(read, list):
        return [item["name"] for item in read]
    return [case["eval_id"] for case in read["eval_cases"]]


def once(agent_dir: Path, file: str, config: str) -> list[Json] | Json:
    """Run `adk eval` once and read the results that it wrote."""
    history = agent_dir / ".adk" / "eval_history"
    shutil.rmtree(history, ignore_errors=True)
    output = io.StringIO()
    arguments = ["eval", str(agent_dir), file, "--config_file_path", config, "--log_level", "ERROR"]
    try:
        with contextlib.redirect_stdout(output):
            adk(arguments, standalone_mode=False)
    except SystemExit:
        pass
    except Exception as error:
        return {"crashed": f"{type(error).__name__}: {error}"}
    results = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(history.glob("*.json"))]
    return [case_of(result_json) for result in results for result_json in result["eval_case_results"]]


def case_of(result: Json) -> Json:
    """Return what `adk eval` says of a case: its verdict and its scores, as a whole and turn by turn."""
    metrics = [score_of(metric_result, None) for metric_result in result["overall_eval_metric_results"]]
    for turn, invocation in enumerate(result["eval_metric_result_per_invocation"], start=1):
        metrics += [score_of(metric_result, turn) for metric_result in invocation["eval_metric_results"]]
    return {"case": result["eval_id"], "verdict": VERDICTS[result["final_eval_status"]], "metrics": metrics}


def score_of(result: Json, turn: int | None) -> Json:
    """Return one score."""
    return {
        "metric": result["metric_name"],
        "turn": turn,
        "score": result.get("score"),
        "status": VERDICTS[result["eval_status"]],
    }


if __name__ == "__main__":
    jobs = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    Path(sys.argv[2]).write_text(json.dumps([run(job) for job in jobs]), encoding="utf-8")
