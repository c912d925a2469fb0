"""Check of variants against their agent, in a child process that loads it, before anything runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from evals_app.execution.child_processes import call_in_child
from evals_app.execution.local_runner import run_in_loop
from evals_app.variants.variant import Variant
from sessions_app.agent_processes.processes import describe_exit
from sessions_app.agents.folder import AgentsFolder
from sessions_app.store.errors import BadInput


def require_applicable(agents: AgentsFolder, app_name: str, variants: Sequence[Variant]) -> None:
    """Require that an agent can be loaded, and that variants can be applied to it.

    Raises:
        BadInput: the agent cannot be loaded, or a variant names something that it does not have.
        StoppedBySignal: SIGINT or SIGTERM stopped the child process.
    """
    code, text = call_in_child(partial(_find_fault, agents, app_name, variants))
    fault = json.loads(text) if text else {"message": f"The agent cannot be loaded: {describe_exit(code)}."}
    if fault["message"]:
        raise BadInput(fault["message"], hint=fault.get("hint", ""))


def _find_fault(agents: AgentsFolder, app_name: str, variants: Sequence[Variant]) -> str:
    """Return what is wrong as JSON; an empty message if nothing is."""
    from evals_app.execution.agent_source import find_source, load_source
    from evals_app.execution.variants import apply_variant

    try:
        agent, app = run_in_loop(load_source(find_source(agents, app_name)))
    except Exception as error:
        return json.dumps({"message": f"The agent cannot be loaded: {type(error).__name__}: {error}"})
    try:
        for variant in variants:
            apply_variant(variant, agent, app)
    except BadInput as error:
        return json.dumps({"message": error.message, "hint": error.hint})
    return json.dumps({"message": ""})
