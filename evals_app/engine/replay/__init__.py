"""A recording given again: tools that are not called, models that are not asked, and what differs from then.

`recording` reads what a stored session did, `matching` finds what belongs to a call, `differences` lays a request
beside the recorded one, and `plugin` is the plug-in of ADK that does it in an attempt.
"""

from __future__ import annotations

from evals_app.engine.replay.plugin import ReplayPlugin
from evals_app.engine.replay.recording_lookup import create_replay
from evals_app.engine.replay.tool_results import NotRecorded

__all__ = ["NotRecorded", "ReplayPlugin", "create_replay"]
