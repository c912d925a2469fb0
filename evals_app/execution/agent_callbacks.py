"""Callbacks of agents, called by plugins that answer in place of a model or a tool: ADK then calls none itself."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from google.adk.agents.callback_context import CallbackContext

from evals_app.execution import _adk


async def run_agent_callbacks(context: CallbackContext, callbacks: str, arguments: Mapping[str, Any]) -> Any:
    """Run the callbacks in an attribute of the agent until one returns a result, as ADK does."""
    for callback in getattr(context.get_invocation_context().agent, callbacks, ()):
        result = _adk.invoke_callback(callback, **arguments)
        if inspect.isawaitable(result):
            result = await result
        if result is not None:
            return result
    return None
