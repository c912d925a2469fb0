"""ADK's agents whose sub-agents run in order. ADK has deprecated them: a release without them must still run here."""

from __future__ import annotations

from google.adk.agents.base_agent import BaseAgent

LOOP_AGENTS: tuple[type[BaseAgent], ...] = ()
"""`LoopAgent`, which repeats its sub-agents; empty if ADK has it no more."""

SEQUENCE_AGENTS: tuple[type[BaseAgent], ...] = ()
"""All agents whose sub-agents run in order; empty if ADK has them no more."""

try:
    from google.adk.agents.loop_agent import LoopAgent
    from google.adk.agents.sequential_agent import SequentialAgent
except ImportError:
    pass
else:
    LOOP_AGENTS = (LoopAgent,)
    SEQUENCE_AGENTS = (LoopAgent, SequentialAgent)
