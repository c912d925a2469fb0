"""Agents of folders and modules by name. The name in a module is read in a child process, which imports the module."""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path

from evals_app.execution.child_processes import call_in_child
from evals_app.execution.local_runner import run_in_loop
from evals_app.runs.folder_orders import agent_at
from sessions_app.agent_processes.processes import describe_exit
from sessions_app.agents.agent_module import AgentModule, find_module
from sessions_app.agents.folder import AgentsFolder
from sessions_app.store.errors import BadInput


def find_agent(agent_dir: Path) -> tuple[AgentsFolder, str]:
    """Return the agents folder and the name of the agent in a folder or module.

    Raises:
        BadInput: there is no agent.
    """
    if ":" not in agent_dir.name or agent_dir.exists():
        return agent_at(agent_dir)
    sys.path.insert(0, os.getcwd())
    module = find_module(str(agent_dir))
    app_name = find_app_name(module)
    return module.for_app(app_name), app_name


def find_app_name(module: AgentModule) -> str:
    """Return the name of the app or agent in a module.

    Raises:
        BadInput: the agent cannot be loaded.
        StoppedBySignal: SIGINT or SIGTERM stopped the child process.
    """
    code, text = call_in_child(partial(_load_name, module))
    answer = json.loads(text or "{}")
    if "name" not in answer:
        raise BadInput(
            f"The agent {module.reference} cannot be loaded: {answer.get('error') or describe_exit(code)}.",
            hint="Name an agent, an App, or a factory without parameters.",
        )
    return str(answer["name"])


def _load_name(module: AgentModule) -> str:
    from evals_app.execution.agent_source import read_app_name

    try:
        return json.dumps({"name": run_in_loop(read_app_name(module))})
    except Exception as error:
        return json.dumps({"error": f"{type(error).__name__}: {error}"})
