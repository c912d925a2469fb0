"""A description of an agent, made fit for its page: anchors, and the context that each piece of code gets. Pure.

Descriptions are kept in rows, so one that an older version wrote, with callbacks as bare names, is read as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CodeContext:
    """What code is handed when it is called: ADK's name of it, and what can be changed through it."""

    name: str
    changes: str


CONTEXTS = {
    "read-only": CodeContext("ReadonlyContext", "changes nothing"),
    "callback": CodeContext("CallbackContext", "may change state and artifacts"),
    "tool": CodeContext(
        "ToolContext", "may change state, artifacts and actions, and ask for a confirmation or a sign-in"
    ),
    "node": CodeContext("Context", "may change state, artifacts and the route"),
    "invocation": CodeContext(
        "InvocationContext", "has the session and every service; state changes by the events it yields"
    ),
}
"""Contexts by kind. In ADK 2.13 `CallbackContext` and `ToolContext` are names of one class, `Context`."""

HOOKS = {
    "on_user_message_callback": ("invocation", "what it returns replaces the user's message"),
    "before_run_callback": ("invocation", "content it returns is the answer, and nothing runs"),
    "on_event_callback": ("invocation", "an event it returns replaces the event"),
    "after_run_callback": ("invocation", "what it returns is not looked at"),
    "on_run_error_callback": ("invocation", "what it returns is not looked at"),
    "before_agent_callback": ("callback", "content it returns is the answer, and the agent does not run"),
    "after_agent_callback": ("callback", "content it returns is one more answer"),
    "on_agent_error_callback": ("callback", "what it returns is not looked at"),
    "before_model_callback": (
        "callback",
        "may change the request; a response it returns is taken, and the model is not asked",
    ),
    "after_model_callback": ("callback", "a response it returns replaces the model's"),
    "on_model_error_callback": ("callback", "a response it returns stands in for the error"),
    "before_tool_callback": (
        "tool",
        "may change the arguments; a result it returns is taken, and the tool is not called",
    ),
    "after_tool_callback": ("tool", "a result it returns replaces the tool's"),
    "on_tool_error_callback": ("tool", "a result it returns stands in for the error"),
}
"""Hooks of agents and plug-ins: the context each gets, and what its answer does."""

INSTRUCTIONS = {
    "instruction": "Instruction",
    "static_instruction": "Static instruction",
    "global_instruction": "Global instruction",
}

SEQUENTIAL_TYPES = frozenset({"SequentialAgent", "LoopAgent"})
"""Agents whose sub-agents run one after the other."""

START_NODE = "__START__"
"""How ADK names the node that a workflow begins at."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file: `shown` as short as it can be said, `path` as an editor takes it, `editor` as a link to one."""

    shown: str
    path: str
    editor: str


def source_location(at: Node | None, root: str) -> SourceLocation | None:
    """Return a place as the page shows it: below `root` relative to it, in a library by its package."""
    file = (at or {}).get("file") or ""
    if not file:
        return None
    line = int((at or {}).get("line") or 1)
    path = PurePath(file)
    shown = str(path.relative_to(root)) if root and path.is_relative_to(root) else file
    for packages in ("/site-packages/", "/dist-packages/"):
        shown = shown.rpartition(packages)[2]
    slash = "" if file.startswith("/") else "/"
    address = quote(file.replace("\\", "/"), safe="/:", errors="surrogateescape")
    return SourceLocation(f"{shown}:{line}", f"{file}:{line}", f"vscode://file{slash}{address}:{line}")


def prepare_description(description: Node, root: str = "") -> Node:
    """Return a description of an app for its page.

    Every node gets an `anchor`, `instructions` [{label, text, provider, at}], `hooks` [{name, context, answer,
    functions}], `facts` (its settings and its model's) and, below one that runs them in turn, its `order`; every tool
    gets an `anchor` and its context as `given`. Plug-ins have hooks like agents. Each `at` is a `Place`.
    """
    maker = _DescriptionBuilder(root)
    shown = maker.node(description)
    app = description.get("app") or {}
    if app:
        shown["app"] = {**app, "plugins": [maker.plugin(plugin) for plugin in app.get("plugins") or []]}
    return shown


class _DescriptionBuilder:
    """Makes one description fit; numbers what it meets."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.numbers = count()

    def node(self, node: Node) -> Node:
        """Return an agent or a node with all that is below it."""
        shown = {
            **node,
            "anchor": f"agent-{next(self.numbers)}",
            "at": source_location(node.get("at"), self.root),
            "instructions": list(self._instructions(node)),
            "hooks": list(self._hooks(node.get("callbacks") or {})),
            "facts": {**(node.get("model_config") or {}), **(node.get("settings") or {})},
            "given": _context_of(node),
        }
        for what in ("sub_agents", "nodes"):
            shown[what] = [self.node(child) for child in node.get(what) or []]
        if node.get("type") in SEQUENTIAL_TYPES:
            for order, child in enumerate(shown["sub_agents"], start=1):
                child["order"] = order
        shown["tools"] = [self._tool(tool) for tool in node.get("tools") or []]
        return shown

    def plugin(self, plugin: Node | str) -> Node:
        """Return a plug-in, which older descriptions have by the name of its class."""
        if isinstance(plugin, str):
            return {"type": plugin, "hooks": []}
        hooks: dict[str, list[Any]] = {hook: [] for hook in plugin.get("hooks") or []}
        return {
            **plugin,
            "at": source_location(plugin.get("at"), self.root),
            "hooks": list(self._hooks(hooks)),
        }

    def _tool(self, tool: Node) -> Node:
        return {
            **tool,
            "anchor": f"tool-{next(self.numbers)}",
            "at": source_location(tool.get("at"), self.root),
            "given": CONTEXTS["tool"] if tool.get("context") else None,
            "agent": self.node(tool["agent"]) if tool.get("agent") else None,
        }

    def _instructions(self, node: Node) -> Iterator[Node]:
        for name, label in INSTRUCTIONS.items():
            text, provider = node.get(name) or "", node.get(f"{name}_provider") or ""
            if text or provider:
                yield {
                    "label": label,
                    "text": text,
                    "provider": provider,
                    "at": source_location(node.get(f"{name}_provider_at"), self.root),
                    "given": CONTEXTS["read-only"],
                }

    def _hooks(self, callbacks: dict[str, list[Any]]) -> Iterator[Node]:
        for hook, functions in callbacks.items():
            kind, answer = HOOKS.get(hook, ("callback", ""))
            named = [
                {"name": one}
                if isinstance(one, str)
                else {**one, "at": source_location(one.get("at"), self.root)}
                for one in functions
            ]
            yield {"name": hook, "given": CONTEXTS[kind], "answer": answer, "functions": named}


def _context_of(node: Node) -> CodeContext | None:
    """Return the context that a node's own code gets: an agent class of one's own, or a function of a workflow."""
    if node.get("type") == "FunctionNode":
        return CONTEXTS["node"] if node.get("context") else None
    return CONTEXTS["invocation"] if node.get("is_custom") else None
