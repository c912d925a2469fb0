"""Descriptions of workflow agents."""

from __future__ import annotations

from typing import Any


def describe_workflow(*edges: tuple[str, str]) -> dict[str, Any]:
    """Return the description of a workflow with these edges."""
    names = dict.fromkeys(name for edge in edges for name in edge)
    return {
        "name": "flow",
        "type": "Workflow",
        "nodes": [{"name": name, "type": "FunctionNode"} for name in names],
        "edges": [{"from": start, "to": end, "route": None} for start, end in edges],
    }
