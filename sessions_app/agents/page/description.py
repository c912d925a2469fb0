"""Prepare an agent's description for its page: anchors, source locations, and the contexts of code. Pure.

Stored descriptions of older versions, with callbacks as plain names, are supported.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from sessions_app.store import scopes

Node = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CodeContext:
    """The context object that ADK passes to code: its class, and what can be changed through it."""

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
"""Contexts by kind. In ADK 2.13 `CallbackContext` and `ToolContext` are aliases of `Context`."""

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
"""Hooks of agents and plug-ins: the context of each, and the effect of its return value."""

INSTRUCTIONS = {
    "instruction": "Instruction",
    "static_instruction": "Static instruction",
    "global_instruction": "Global instruction",
}

SCHEMAS = {
    "input_schema": "Schema of its input",
    "output_schema": "Schema of its output",
    "state_schema": "Schema of the state",
}

SEQUENTIAL_TYPES = frozenset({"SequentialAgent", "LoopAgent"})
"""Types of agents whose sub-agents run in order."""

START_NODE = "__START__"
"""ADK's name of a workflow's start node."""


@dataclass(frozen=True, slots=True)
class SourceLocation:
    """A line of a file: `label` names it in short form, `path` for editors, `editor` as a link that opens one."""

    label: str
    path: str
    editor: str


def source_location(location: Node | None, root: str) -> SourceLocation | None:
    """Return a source location: relative to `root`, or to the package folder for libraries."""
    file = (location or {}).get("file") or ""
    if not file:
        return None
    line = int((location or {}).get("line") or 1)
    path = PurePath(file)
    short_path = str(path.relative_to(root)) if root and path.is_relative_to(root) else file
    for packages in ("/site-packages/", "/dist-packages/"):
        short_path = short_path.rpartition(packages)[2]
    slash = "" if file.startswith("/") else "/"
    address = quote(file.replace("\\", "/"), safe="/:", errors="surrogateescape")
    return SourceLocation(f"{short_path}:{line}", f"{file}:{line}", f"vscode://file{slash}{address}:{line}")


def prepare_description(description: Node, root: str = "") -> Node:
    """Return an app's description for its page.

    Every node gets an `anchor`, `instructions` [{label, text, provider, at}], `hooks` [{name, given, answer,
    functions}], `facts` (its settings and its model's), `data_schemas` [{label, schema}] and, below a sequential agent,
    its `order`. Every tool gets an `anchor`, its context as `given` and, if it cannot be called by hand, the reason as
    `refusal`. Plug-ins have hooks like agents. Each `at` is a `SourceLocation`.
    """
    maker = _DescriptionBuilder(root)
    prepared = maker.node(description)
    app = description.get("app") or {}
    if app:
        prepared["app"] = {**app, "plugins": [maker.plugin(plugin) for plugin in app.get("plugins") or []]}
    return prepared


class _DescriptionBuilder:
    def __init__(self, root: str) -> None:
        self.root = root
        self.numbers = count()

    def node(self, node: Node) -> Node:
        """Return an agent or a workflow node, with everything below it."""
        prepared = {
            **node,
            "anchor": f"agent-{next(self.numbers)}",
            "at": source_location(node.get("at"), self.root),
            "instructions": list(self._iter_instructions(node)),
            "hooks": list(self._iter_hooks(node.get("callbacks") or {})),
            "facts": {**(node.get("model_config") or {}), **(node.get("settings") or {})},
            "code_context": _code_context(node),
            "data_schemas": [
                {"label": SCHEMAS.get(name, name), "schema": schema}
                for name, schema in (node.get("schemas") or {}).items()
                if schema
            ],
        }
        for what in ("sub_agents", "nodes"):
            prepared[what] = [self.node(child) for child in node.get(what) or []]
        if node.get("type") in SEQUENTIAL_TYPES:
            for order, child in enumerate(prepared["sub_agents"], start=1):
                child["order"] = order
        prepared["tools"] = [self._describe_tool(tool) for tool in node.get("tools") or []]
        return prepared

    def plugin(self, plugin: Node | str) -> Node:
        """Return a plug-in. Older descriptions have only its class name."""
        if isinstance(plugin, str):
            return {"type": plugin, "hooks": []}
        hooks: dict[str, list[Any]] = {hook: [] for hook in plugin.get("hooks") or []}
        return {
            **plugin,
            "at": source_location(plugin.get("at"), self.root),
            "hooks": list(self._iter_hooks(hooks)),
        }

    def _describe_tool(self, tool: Node) -> Node:
        return {
            **tool,
            "anchor": f"tool-{next(self.numbers)}",
            "at": source_location(tool.get("at"), self.root),
            "code_context": CONTEXTS["tool"] if tool.get("context") else None,
            "refusal": _call_refusal(tool),
            "agent": self.node(tool["agent"]) if tool.get("agent") else None,
        }

    def _iter_instructions(self, node: Node) -> Iterator[Node]:
        for name, label in INSTRUCTIONS.items():
            text, provider = node.get(name) or "", node.get(f"{name}_provider") or ""
            if text or provider:
                yield {
                    "label": label,
                    "text": text,
                    "provider": provider,
                    "at": source_location(node.get(f"{name}_provider_at"), self.root),
                    "code_context": CONTEXTS["read-only"],
                }

    def _iter_hooks(self, callbacks: dict[str, list[Any]]) -> Iterator[Node]:
        for hook, functions in callbacks.items():
            kind, answer = HOOKS.get(hook, ("callback", ""))
            described_functions = [
                {"name": function}
                if isinstance(function, str)
                else {**function, "at": source_location(function.get("at"), self.root)}
                for function in functions
            ]
            yield {
                "name": hook,
                "code_context": CONTEXTS[kind],
                "answer": answer,
                "functions": described_functions,
            }


def _call_refusal(tool: Node) -> str:
    """Return why a person cannot call a tool by itself; empty if that is possible, or unknown."""
    if tool.get("agent"):
        return "It runs an agent, which calls models and needs a session: it cannot be called by hand."
    if tool.get("by_the_model"):
        return "The model or the server of the model carries it out: it cannot be called by hand."
    if scopes.replace_surrogates(tool["name"]) != tool["name"]:
        return "Its name has half a character, which no address can hold: it cannot be called by hand."
    return ""


def _code_context(node: Node) -> CodeContext | None:
    """Return the context of a node's own code: of a custom agent class or a workflow's function."""
    if node.get("type") == "FunctionNode":
        return CONTEXTS["node"] if node.get("context") else None
    return CONTEXTS["invocation"] if node.get("is_custom") else None
