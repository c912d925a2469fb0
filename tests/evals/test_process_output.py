"""Output of evaluated agents is passed on within a limit; results are complete."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from evals_app.models import EvalRun
from sessions_app.agent_processes.process_output import LIMIT_BYTES
from tests import forked_processes
from tests.evals.builders import case, evalset, turn, write
from tests.evals.echo_agent import AGENT
from tests.evals.pytest_suites import SUITE_ARGUMENTS, run_pytest, write_test
from tests.store import store_url

ROOT = Path(__file__).resolve().parents[2]

NOISY = AGENT.replace(
    "        content =",
    """        for number in range(20_000):
            print(f"{number:099}")
        os.write(2, (b"x" * 99 + b"\\n") * 20_000)
        content =""",
)
NOTE = "[DevUI] Output is limited to 1.0 MB in 10 minutes. The rest is dropped."


@pytest.mark.soak
def test_command_limits_endless_output_of_agents(store, tmp_path):
    folder = tmp_path / "noisy"
    folder.mkdir()
    (folder / "agent.py").write_text(f"import os\n{NOISY}")
    write(folder, "s.evalset.json", evalset(*[case(f"c{number}", turn("a", "a")) for number in range(3)]))

    done = forked_processes.run(
        [sys.executable, "manage.py", "run_evals", str(folder), "s", "--metrics=response_match_score"],
        cwd=ROOT,
        env={**os.environ, "DATABASE_URL": store_url()},
    )

    assert done.returncode == 0, done.stderr[-1000:]
    assert EvalRun.objects.get().passed == 3
    assert "3 of 3 passed" in done.stdout
    for printed in (done.stdout, done.stderr):
        assert NOTE in printed
        assert LIMIT_BYTES * 0.9 < len(printed) < LIMIT_BYTES * 1.1
    assert "5.0 MB of output, 50," in done.stdout


@pytest.mark.soak
def test_suite_limits_endless_output_of_agents(suite):
    (suite / "agents" / "echo" / "agent.py").write_text(f"import os\n{NOISY}")
    write_test(suite, f"def test_a():\n    assert evaluate('s', {SUITE_ARGUMENTS}, cases=['a']).passed")

    done = run_pytest(suite, "-s")

    assert done.returncode == 0, done.stdout[-1000:]
    assert NOTE in done.stderr
    assert LIMIT_BYTES * 0.9 < len(done.stderr) < LIMIT_BYTES * 1.1
