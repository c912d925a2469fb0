"""Check of variants against their agent, in a child process that loads it, before anything runs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

from evals_app.execution.child_processes import call_in_child
from evals_app.execution.local_runner import run_in_loop
from evals_app.variants.model_variants import make_model_variants
from evals_app.variants.variant import Variant, require_distinct_variants
from sessions_app.agent_processes.processes import describe_exit
from sessions_app.agents.folder import AgentsFolder
from sessions_app.store.errors import BadInput, DevUIError


def prepare_variants(
    agents: AgentsFolder, app_name: str, variants: Sequence[Variant], models: Sequence[str], scope: str
) -> list[Variant]:
    """Return variants, and one for each model, after the agent was loaded and they were applied to it.

    Args:
        models: names of models.
        scope: which agents get a model, a key of `SCOPES`.

    Raises:
        BadInput: the agent cannot be loaded, a variant names something that it does not have, or two are alike.
        StoppedBySignal: SIGINT or SIGTERM stopped the child process.
    """
    code, text = call_in_child(partial(_check_variants, agents, app_name, variants, models, scope))
    answer = json.loads(text) if text else {"message": f"The agent cannot be loaded: {describe_exit(code)}."}
    if "message" in answer:
        raise BadInput(answer["message"], hint=answer.get("hint", ""))
    return [Variant.from_json(variant) for variant in answer["variants"]]


def _check_variants(
    agents: AgentsFolder, app_name: str, variants: Sequence[Variant], models: Sequence[str], scope: str
) -> str:
    """Return the variants as JSON, or what is wrong with them."""
    from evals_app.execution.agent_source import find_source, load_source
    from evals_app.execution.variants import apply_variant, list_agent_models

    try:
        agent, app = run_in_loop(load_source(find_source(agents, app_name)))
    except Exception as error:
        return json.dumps({"message": f"The agent cannot be loaded: {type(error).__name__}: {error}"})
    try:
        if models:
            variants = [*variants, *make_model_variants(models, list_agent_models(agent), scope)]
        require_distinct_variants(variants)
        for variant in variants:
            apply_variant(variant, agent, app)
    except DevUIError as error:
        return json.dumps({"message": error.message, "hint": error.hint})
    return json.dumps({"variants": [variant.as_json() for variant in variants]})
