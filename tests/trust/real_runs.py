"""Real runs of the command line with an agent that fails at random, without any change between runs."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from pathlib import Path

from tests import forked_processes

AGENT = """
import random
from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.genai import types

SOURCE = random.Random({seed})


class Sometimes(BaseAgent):
    async def _run_async_impl(self, ctx):
        answer = "yes" if SOURCE.random() < {rate} else "no"
        content = types.Content(role="model", parts=[types.Part(text=answer)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Sometimes(name="sometimes")
"""
CASES, REPETITIONS, RATE = 20, 2, 0.5
PATIENCE_S = 1_800
"""Seconds for one run: 2 on an idle machine, but imports take minutes where many processes share a processor."""


def count_false_alarms(runs: int, *, same_code: bool) -> tuple[int, int]:
    """Run an unchanged agent against its previous run; return how often the gate failed, of how many comparisons.

    Args:
        same_code: the agent's files stay as they are, and its failures come from a seed in the environment; otherwise
            a comment in its file changes before each run.
    """
    with tempfile.TemporaryDirectory() as folder:
        agent = Path(folder, "sometimes")
        agent.mkdir()
        cases = [_case(number) for number in range(CASES)]
        document = {"eval_set_id": "yes", "eval_cases": cases}
        (agent / "yes.evalset.json").write_text(json.dumps(document))
        codes = [_run(agent, folder, number, same_code) for number in range(runs + 1)]
        assert codes[0] == 0, "the first run has nothing to compare with"
        assert set(codes) <= {0, 1}, f"a run could not run: {codes}"
        return codes[1:].count(1), runs


def _case(number: int) -> dict[str, object]:
    turn = {
        "user_content": {"role": "user", "parts": [{"text": "go"}]},
        "final_response": {"role": "model", "parts": [{"text": "yes"}]},
    }
    return {"eval_id": f"case {number}", "conversation": [turn]}


def _run(agent: Path, folder: str, number: int, same_code: bool) -> int:
    seed = "__import__('os').environ['TRUST_SEED']"
    comment = "" if same_code else f"# version {number}\n"
    (agent / "agent.py").write_text(comment + AGENT.format(seed=seed, rate=RATE))
    command = [sys.executable, "manage.py", "run_evals", str(agent), "yes", f"--num-runs={REPETITIONS}"]
    command += ["--metrics=response_match_score", "--criteria=response_match_score=1", "--baseline=previous"]
    command += ["--fail-on=regression", "--allow-no-baseline"]
    environment = {
        **os.environ,
        "DATABASE_URL": f"sqlite:///{folder}/store.sqlite3",
        "DEVUI_DATA_DIR": folder,
        "TRUST_SEED": str(random.Random(f"trust {number}").random()),
    }
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return forked_processes.run(command, PATIENCE_S, env=environment).returncode
