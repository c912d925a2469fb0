"""Checkpoint and restore: each step of the pipeline records itself in the state key `checkpoint`.

`"checkpoint": {"done": ["planner", "research"], "stop_after": ""}`
"""

from typing import Any

from google.adk.agents.callback_context import CallbackContext
from google.adk.tools.tool_context import ToolContext
from google.genai import types


def start_report(topic: str, stop_after: str, tool_context: ToolContext) -> dict[str, str]:
    """Open a new report. stop_after names the last step to run; empty means to the end."""
    state = tool_context.state
    state["topic"] = topic
    state["feedback"] = None  # state has no delete: None is how a key is emptied
    state["checkpoint"] = {"done": [], "stop_after": stop_after}
    state["user:reports"] = state.get("user:reports", 0) + 1
    return {"topic": topic}


def continue_report(tool_context: ToolContext) -> dict[str, object]:
    """Let the pipeline go on from its checkpoint."""
    checkpoint = tool_context.state.get("checkpoint")
    if not checkpoint or "publisher" in checkpoint["done"]:
        return {"error": "There is no unfinished report."}
    tool_context.state["checkpoint"] = {**checkpoint, "stop_after": ""}
    return {"done": checkpoint["done"]}


def skip_done_step(callback_context: CallbackContext) -> types.Content | None:
    """Callback before a step: skip it if it is done, or if the report is paused."""
    checkpoint, step = callback_context.state["checkpoint"], callback_context.agent_name
    if step in checkpoint["done"]:
        return _note(f"{step}: kept from the checkpoint.")
    if checkpoint["stop_after"] in checkpoint["done"]:
        return _note(f"{step}: paused. Say 'continue'.")
    return None


def save_step(callback_context: CallbackContext) -> None:
    """Callback after a step: record it as done."""
    checkpoint = callback_context.state["checkpoint"]
    done = [*checkpoint["done"], callback_context.agent_name]
    callback_context.state["checkpoint"] = {**checkpoint, "done": done}


def _note(text: str) -> types.Content:
    """Return a thought: plain text would replace the value that the step has stored under its `output_key`."""
    return types.Content(role="model", parts=[types.Part(text=text, thought=True)])


STEP: dict[str, Any] = {"before_agent_callback": skip_done_step, "after_agent_callback": save_step}
