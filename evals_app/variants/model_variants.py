"""Variants that give agents another model, made from the names of models. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from evals_app.variants.variant import Variant
from evals_app.variants.variant_files import parse_content
from sessions_app.store.errors import BadInput

ROOT, ALL = "root", "all"
SCOPES = {ROOT: "the root agent, and those that take its model", ALL: "all agents with a model of their own"}
"""The agents that get the model of a variant."""


class AgentModel(NamedTuple):
    """An agent and its own model; empty: it has none, or takes that of its parent."""

    agent: str
    model: str


def make_model_variants(models: Sequence[str], agents: Sequence[AgentModel], scope: str) -> list[Variant]:
    """Return a variant for each model.

    Args:
        agents: the root agent first.
        scope: a key of `SCOPES`.

    Raises:
        BadInput: none of the agents has a model.
        BadFile: a name cannot be that of a variant.
    """
    candidates = agents[:1] if scope == ROOT else agents
    names = [agent for agent, model in candidates if model]
    if not names:
        subject = f"The root agent {agents[0].agent!r}" if scope == ROOT and agents else "The app"
        raise BadInput(
            f"{subject} has no model of its own, which a variant could replace.",
            hint="Give the model to all agents, or name the agent in a variant."
            if scope == ROOT
            else "Name the agent in a variant.",
        )
    return [
        parse_content(
            {"name": model, "agents": {name: {"model": model} for name in names}}, f"model {model!r}"
        )
        for model in models
    ]
