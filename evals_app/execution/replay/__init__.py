"""Replay of a recording in an attempt: tool results and model answers, and differences from the recorded requests."""

from evals_app.execution.replay.plugin import ReplayPlugin, create_replay
from evals_app.execution.replay.tool_results import NotRecorded

__all__ = ["NotRecorded", "ReplayPlugin", "create_replay"]
