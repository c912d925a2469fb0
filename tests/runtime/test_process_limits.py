"""Limits that the system enforces on the processes of agents."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from evals_app.models import EvalAttempt
from sessions_app.store.models import Run
from tests import forked_processes
from tests.evals.builders import case, evalset, turn, write
from tests.evals.run_evals_command import environment, run_evals_argv
from tests.runtime.conftest import read_events, read_run

ROOT = Path(__file__).resolve().parents[2]
MEMORY_MB = 4_000
"""More than a runtime reserves: its address space counts, not only the memory that it uses."""


async def test_agent_that_exceeds_memory_fails_alone(supervise, monkeypatch):
    monkeypatch.setenv("DEVUI_AGENT_MEMORY_MB", str(MEMORY_MB))
    async with supervise() as stage:
        session = await stage.session("trouble")
        failed = await stage.run(session, f'call fill_memory {{"megabytes": {MEMORY_MB}}}')
        assert (failed.status, failed.error_type) == (Run.Status.FAILED, "MemoryError")
        done = await stage.run(session, 'call fill_memory {"megabytes": 1}')
        assert done.status == Run.Status.DONE
        assert done.runtime_id == failed.runtime_id, "the process goes on"


@pytest.mark.soak
async def test_agent_that_uses_up_processor_time_is_ended_with_the_reason(supervise, monkeypatch):
    monkeypatch.setenv("DEVUI_AGENT_CPU_S", "8")
    async with supervise() as stage:
        run = await stage.run(await stage.session("trouble"), 'call burn {"seconds": 30}')
        assert run.status == Run.Status.CRASHED
        assert "SIGXCPU: it used up its processor time, DEVUI_AGENT_CPU_S" in run.error


async def test_agent_has_limits_of_files_and_processes_and_no_variables_of_the_web_process(
    supervise, monkeypatch
):
    monkeypatch.setenv("DEVUI_AGENT_OPEN_FILES", "300")
    monkeypatch.setenv("DEVUI_AGENT_PROCESSES", "200")
    monkeypatch.setenv("DEVUI_SECRET_KEY", "signs cookies")
    monkeypatch.setenv("DEVUI_USERS", "1")
    monkeypatch.setenv("DEVUI_USER_HEADER", "X-Forwarded-User")  # refused where there are no users
    async with supervise() as stage:
        session = await stage.session("trouble")
        run = await read_run(await stage.run(session, "call show_process {}"))
        assert run.status == Run.Status.DONE
        [result] = [
            part["functionResponse"]["response"]
            for event in await read_events(session)
            for part in json.loads(event.data)["content"]["parts"]
            if "functionResponse" in part
        ]
    assert result["open files"] == [300, 300]
    assert result["processes"] == [200, 200]
    assert "DEVUI_AGENT_OPEN_FILES" in result["variables"]
    assert not {"DEVUI_SECRET_KEY", "DEVUI_USERS", "DEVUI_USER_HEADER"} & set(result["variables"])


@pytest.mark.soak
def test_eval_attempt_that_exceeds_memory_is_an_error(store, agents_dir):
    greedy = case("greedy", turn(f'call fill_memory {{"megabytes": {MEMORY_MB}}}', "filled"))
    modest = case("modest", turn("say hi", "hi"))
    file = write(agents_dir / "trouble", "memory.evalset.json", evalset(greedy, modest))
    limited = {**environment(), "DEVUI_AGENT_MEMORY_MB": str(MEMORY_MB)}
    ended = forked_processes.run(run_evals_argv(agents_dir / "trouble", file), cwd=ROOT, env=limited)
    attempts = {attempt.case_id: attempt for attempt in EvalAttempt.objects.all()}
    assert ended.returncode == 1, ended.stderr
    assert attempts["greedy"].error_type == "MemoryError"
    assert attempts["modest"].status == EvalAttempt.Status.PASSED


def test_lower_limit_of_the_server_is_kept():
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
        "from django.conf import settings; settings.configure(DEVUI_AGENT_OPEN_FILES=200)\n"
        "from sessions_app.agent_processes.process_limits import apply_limits; apply_limits()\n"
        "print(resource.getrlimit(resource.RLIMIT_NOFILE))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "(100, 100)"
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] != 100, "only that process has the limit"
