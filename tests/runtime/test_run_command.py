"""`devui run` and `devui new`: an agent on the command line."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from google.adk.agents import LlmAgent
from google.adk.cli.utils.agent_loader import AgentLoader

from tests import forked_processes
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
AGENTS = ROOT / "examples/agents"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The environment of a process with a store of its own."""
    own = {
        "DATABASE_URL": f"sqlite:///{tmp_path / 'store.sqlite3'}",
        "DEVUI_DATA_DIR": str(tmp_path / "data"),
    }
    return {**os.environ, **own, "PYTHONPATH": str(ROOT), "DJANGO_SETTINGS_MODULE": "devui.settings"}


def devui(environment: dict[str, str], *arguments: object) -> subprocess.CompletedProcess[str]:
    """Call `devui` and return what it printed."""
    command = [sys.executable, "-m", "devui", *map(str, arguments)]
    process = forked_processes.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    output, errors = process.communicate(timeout=PATIENCE_S)
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def read_store(environment: dict[str, str], query: str) -> list[tuple[str, ...]]:
    """Return rows of the store."""
    with closing(sqlite3.connect(environment["DATABASE_URL"].removeprefix("sqlite:///"))) as store:
        return store.execute(query).fetchall()


def test_answer_is_printed_and_a_session_continued(environment):
    first = devui(environment, "run", AGENTS / "shop", "My email is ada@example.com", "--session", "s1")
    assert (first.returncode, first.stdout) == (
        0,
        "Hello Ada, I have found your account. You are a gold member.\n",
    )
    second = devui(
        environment, "run", AGENTS / "shop", "What does delivery cost?", "--session", "s1", "--jsonl"
    )
    events = [json.loads(line) for line in second.stdout.splitlines()]
    assert [event["author"] for event in events] == ["user", "shop", "shop"]
    assert events[1]["actions"]["stateDelta"] == {"tier": "standard"}
    assert events[2]["content"]["parts"][0]["text"] == "Delivery costs 5 euros for standard members."


def test_new_session_has_the_initial_state_of_the_agent(environment):
    answered = devui(environment, "run", AGENTS / "writer", "Hello", "--jsonl")
    assert answered.returncode == 0, answered.stderr
    seeded = read_store(environment, "SELECT key FROM sessions_app_statechange WHERE seq = 0")
    initial = json.loads((AGENTS / "writer/initial_state.json").read_text())
    assert {key for (key,) in seeded} == {key.removeprefix("app:") for key in initial}


def test_failed_run_is_reported_with_its_error(environment):
    failed = devui(environment, "run", AGENTS / "office", "Break it")
    assert (failed.returncode, failed.stdout) == (1, "")
    assert "RuntimeError: The printer on floor 7 does not answer." in failed.stderr.splitlines()[-1]


def test_agent_that_waits_for_an_answer_says_where_to_give_it(environment):
    waiting = devui(environment, "run", AGENTS / "office", "Request leave for 3 days")
    assert waiting.returncode == 0
    assert "waits for an answer" in waiting.stderr


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((AGENTS, "Hello"), "is not the folder of one agent"),
        (("/no/such/agent", "Hello"), "/no/such/agent"),
        ((AGENTS / "shop", "Hello", "--session", "a\nb" * 600), ""),
        ((AGENTS / "shop", ""), "The message is empty"),
    ],
)
def test_what_cannot_start_ends_with_status_2(environment, arguments, reason):
    refused = devui(environment, "run", *arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert reason in refused.stderr
    assert "Traceback" not in refused.stderr


def test_interrupted_run_is_cancelled(environment):
    command = [sys.executable, "-m", "devui", "run", str(AGENTS / "office"), "Take 20 seconds", "--jsonl"]
    process = forked_processes.Popen(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert json.loads(process.stdout.readline())["author"] == "user"
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert read_store(environment, "SELECT status FROM sessions_app_run") == [("cancelled",)]


def test_error_cannot_control_the_terminal(environment, tmp_path):
    agent = tmp_path / "agents/rude"
    agent.mkdir(parents=True)
    (agent / "agent.py").write_text(
        "from google.adk.agents import LlmAgent\n"
        "def refuse(callback_context):\n    raise ValueError('\\x1b]0;owned\\x07')\n"
        "root_agent = LlmAgent(name='rude', before_agent_callback=refuse)\n"
    )
    failed = devui(environment, "run", agent, "Hello")
    assert failed.returncode == 1
    assert "owned" in failed.stderr
    assert "\x1b]0;" not in failed.stderr


def test_new_agent_loads_in_adk_and_fails_for_want_of_a_key_only(environment, tmp_path):
    created = devui(environment, "new", tmp_path / "agents/first_agent")
    assert created.returncode == 0, created.stderr
    assert "devui run" in created.stdout
    agent = AgentLoader(str(tmp_path / "agents")).load_agent("first_agent")
    assert isinstance(agent, LlmAgent)
    assert (agent.name, agent.model) == ("first_agent", "")
    assert (tmp_path / "agents/first_agent/.gitignore").read_text() == ".env\n"
    without_key = {**environment, "GOOGLE_API_KEY": "", "GEMINI_API_KEY": ""}
    failed = devui(without_key, "run", tmp_path / "agents/first_agent", "Hello")
    assert "API key" in failed.stderr


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        *(
            (name, "is not a name for an agent")
            for name in ("user", "1st", "with-hyphen", "with.dot", "ünï", "class")
        ),
        ("json", "is a module of Python"),
    ],
)
def test_name_that_adk_cannot_use_is_refused(environment, tmp_path, name, reason):
    refused = devui(environment, "new", tmp_path / name)
    assert refused.returncode == 2
    assert reason in refused.stderr
    assert not (tmp_path / name).exists()


def test_existing_folder_is_not_touched(environment, tmp_path):
    (tmp_path / "mine").mkdir()
    refused = devui(environment, "new", tmp_path / "mine")
    assert refused.returncode == 2
    assert "exists already" in refused.stderr
    assert list((tmp_path / "mine").iterdir()) == []


def test_commands_of_the_guide_of_runs_do_what_it_says(environment, tmp_path):
    page = (ROOT / "docs/console.md").read_text(encoding="utf-8")
    [block] = [text for text in re.findall(r"```sh\n(.*?)```", page, re.DOTALL) if "manage.py run" in text]
    commands = [shlex.split(line, comments=True)[2:] for line in block.splitlines()]
    asked, followed, made = commands
    assert "gold member" in devui(environment, *asked).stdout
    lines = devui(environment, *followed).stdout.splitlines()
    assert json.loads(lines[-1])["content"]["role"] == "model"
    assert devui(environment, *made[:-1], tmp_path / made[-1]).returncode == 0
