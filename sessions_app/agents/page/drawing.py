"""Layout of an app's agents as a drawing: boxes in columns, with the root on the left, and connections. Pure.

A box is one column to the right of its last predecessor. Rows follow a walk from the root, so the connections of a
tree never cross. Connections that lead back, such as loops of a workflow, are drawn above the boxes.
"""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sessions_app.agents.page.description import START_NODE, Node

WIDTH, HEIGHT = 140, 38
"""Size of the box of an agent in pixels; the template places the texts in it."""

SMALL_HEIGHT = 26
COLUMN, ROW = WIDTH + 28, HEIGHT + 10
MARGIN = 10
LOOP_HEIGHT, BACK_X = 34, 40
"""Height of a backward connection above its boxes, and the offset at which it ends."""


SHAPES = {"agent": "Agent", "tool": "Tool", "start": "Start"}

ROUTED_COLUMN = WIDTH + 70
"""Width of a column with room for route labels before it."""

MAX_BOXES = 120
MAX_STEPS = 4
"""Positions of a box in the path that are drawn; the text below the drawing has all."""

MAX_TOOLS = 6
"""Tools of each agent that are drawn if the agents have more than `FEW_TOOLS`; those that are agents always are."""

FEW_TOOLS = 20
"""Tools of all agents together up to which all are drawn."""


@dataclass(slots=True)
class Box:
    """An agent, a tool, or the start of a workflow.

    Attributes:
        anchor: id of the element with its details; empty: none.
        steps: its positions in the path of the shown invocation.
        on_path: it or something below it took part in the shown invocation.
        x: its left edge.
    """

    shape: str
    name: str
    note: str = ""
    anchor: str = ""
    steps: Sequence[int] = ()
    on_path: bool = False
    column: int = 0
    row: float = 0.0
    x: int = 0

    @property
    def height(self) -> int:
        """Its height."""
        return HEIGHT if self.shape == "agent" else SMALL_HEIGHT

    @property
    def middle(self) -> float:
        """The y coordinate of its connections."""
        return round(MARGIN + self.row * ROW + HEIGHT / 2, 1)

    @property
    def y(self) -> float:
        """Its upper edge."""
        return self.middle - self.height / 2

    @property
    def label(self) -> str:
        """Its full name and role, for screen readers."""
        word = "step" if len(self.steps) == 1 else "steps"
        step = f", {word} {self.step_text}" if self.steps else ", called" if self.is_called else ""
        return f"{SHAPES[self.shape]} {self.name}{step}"

    @property
    def step_text(self) -> str:
        """Its first positions in the path."""
        first_steps = ", ".join(str(step) for step in self.steps[:MAX_STEPS])
        return f"{first_steps}, …" if len(self.steps) > MAX_STEPS else first_steps

    @property
    def step_width(self) -> int:
        """Width of the mark with its positions."""
        return max(16, 7 * len(self.step_text) + 4)

    @property
    def steps_x(self) -> int:
        """Left edge of the mark, which ends just beyond the box."""
        return WIDTH + 8 - self.step_width

    @property
    def steps_middle(self) -> float:
        """Horizontal middle of the mark."""
        return self.steps_x + self.step_width / 2

    @property
    def is_called(self) -> bool:
        """Tell whether it is a tool that the shown invocation called."""
        return self.shape == "tool" and self.on_path


@dataclass(slots=True)
class Connection:
    """A connection between two boxes. One in a workflow has an arrow and a route."""

    start: Box
    end: Box
    is_flow: bool = False
    route: str = ""
    leads_back: bool = False

    @property
    def on_path(self) -> bool:
        """Tell whether the shown invocation took it."""
        if self.is_flow and self.start.steps and self.end.steps:
            return self.leads_back == (self.start.steps[0] >= self.end.steps[0])
        return self.start.on_path and self.end.on_path and not self.leads_back

    @property
    def d(self) -> str:
        """The SVG path."""
        a, b = self.start, self.end
        if self.leads_back:
            x1, x2, top = a.x + WIDTH / 2, b.x + BACK_X, min(a.y, b.y) - LOOP_HEIGHT
            return f"M{x1} {a.y}C{x1} {top} {x2} {top} {x2} {b.y}"
        x1, x2 = a.x + WIDTH, b.x
        bend = min((x2 - x1) / 2, 40)
        return f"M{x1} {a.middle}C{x1 + bend} {a.middle} {x2 - bend} {b.middle} {x2} {b.middle}"

    @property
    def arrow(self) -> str:
        """The corners of its arrowhead."""
        b = self.end
        if self.leads_back:
            x, y = b.x + BACK_X, b.y
            return f"{x},{y} {x - 4},{y - 7} {x + 4},{y - 7}"
        return f"{b.x},{b.middle} {b.x - 7},{b.middle - 4} {b.x - 7},{b.middle + 4}"

    @property
    def label_at(self) -> tuple[float, float]:
        """The position of its route label."""
        if self.leads_back:
            return self.start.x + WIDTH / 2 - 8, min(self.start.y, self.end.y) - 4
        return self.end.x - 9, self.end.middle - 6


@dataclass(slots=True)
class Drawing:
    """The drawing. `omitted_count`: boxes left out; `omitted_tool_count`: tools that `all_tools` would draw."""

    boxes: list[Box] = field(default_factory=list)
    lines: list[Connection] = field(default_factory=list)
    omitted_count: int = 0
    omitted_tool_count: int = 0

    @property
    def width(self) -> int:
        """In pixels."""
        return max((box.x for box in self.boxes), default=0) + WIDTH + MARGIN

    @property
    def height(self) -> float:
        """In pixels."""
        return max((box.middle for box in self.boxes), default=0.0) + HEIGHT / 2 + MARGIN


def draw(
    tree: Node,
    speakers: Sequence[str] = (),
    called: Mapping[str, set[str]] | None = None,
    *,
    all_tools: bool = False,
) -> Drawing:
    """Return the drawing of a prepared description.

    `speakers` names the agents and nodes in the path of the shown invocation, in order; `called` the tools that each
    of them called. `all_tools` draws all tools up to `MAX_BOXES` boxes, even if they are many.
    """
    steps: dict[str, list[int]] = defaultdict(list)
    for step, name in enumerate(speakers, start=1):
        steps[name].append(step)
    max_tools = MAX_BOXES if all_tools or _count_tools(tree) <= FEW_TOOLS else MAX_TOOLS
    pen = _DrawingBuilder(steps, called or {}, max_tools)
    pen.node(tree)
    _assign_positions(pen.drawing)
    return pen.drawing


class _DrawingBuilder:
    def __init__(
        self, steps: Mapping[str, Sequence[int]], called: Mapping[str, set[str]], max_tools: int
    ) -> None:
        self.drawing = Drawing()
        self.max_tools = max_tools
        self.steps = steps
        self.called = called

    def node(self, node: Node, above: Box | None = None) -> Box | None:
        """Draw an agent and everything below it; None if the drawing is full."""
        is_start = node.get("name") == START_NODE
        box = self._add_box(
            Box(
                "start" if is_start else "agent",
                node.get("name") or "",
                "" if is_start else _box_note(node),
                node.get("anchor") or "",
                () if is_start else self.steps.get(node.get("name") or "", ()),
            ),
            above,
        )
        if box is None:
            return None
        tools = node.get("tools") or []
        drawn_tools = self._select_tools(node.get("name") or "", tools)
        below = [self._draw_tool(tool, box) for tool in drawn_tools]
        below += [self.node(child, box) for child in node.get("sub_agents") or []]
        self.drawing.omitted_count += len(tools) - len(drawn_tools)
        self.drawing.omitted_tool_count += len(tools) - len(drawn_tools)
        below += self._draw_workflow(node, box)
        box.on_path = bool(box.steps) or any(child.on_path for child in below if child)
        return box

    def _select_tools(self, agent: str, tools: Sequence[Node]) -> list[Node]:
        """Return the tools of an agent to draw: all agents, and up to the limit called tools before others."""
        if len(tools) <= self.max_tools:
            return list(tools)
        called = self.called.get(agent, ())
        ranks = [0 if tool.get("agent") else 1 if tool.get("name") in called else 2 for tool in tools]
        by_rank = sorted(range(len(tools)), key=ranks.__getitem__)
        drawn_indexes = by_rank[: max(self.max_tools, ranks.count(0))]
        return [tools[index] for index in sorted(drawn_indexes)]

    def _draw_tool(self, tool: Node, above: Box) -> Box | None:
        name = tool.get("name") or ""
        is_called = bool(above.steps) and name in self.called.get(above.name, ())
        box = self._add_box(Box("tool", name, "", tool.get("anchor") or "", on_path=is_called), above)
        if box is not None and tool.get("agent"):
            inner = self.node(tool["agent"], box)
            box.on_path = box.on_path or bool(inner and inner.on_path)
        return box

    def _draw_workflow(self, node: Node, box: Box) -> list[Box | None]:
        led_to = {edge.get("to") for edge in node.get("edges") or []}
        drawn = {}
        for child in node.get("nodes") or []:
            is_entry = child.get("name") not in led_to
            drawn[child.get("name")] = self.node(child, box if is_entry else None)
        for edge in node.get("edges") or []:
            start, end = drawn.get(edge.get("from")), drawn.get(edge.get("to"))
            if start and end:
                self.drawing.lines.append(Connection(start, end, True, _route_label(edge.get("route"))))
        starts = [line for line in self.drawing.lines if line.is_flow and line.start.shape == "start"]
        for line in starts:
            line.start.on_path = line.start.on_path or line.end.on_path
        return list(drawn.values())

    def _add_box(self, box: Box, above: Box | None) -> Box | None:
        if len(self.drawing.boxes) >= MAX_BOXES:
            self.drawing.omitted_count += 1
            return None
        self.drawing.boxes.append(box)
        if above is not None:
            self.drawing.lines.append(Connection(above, box))
        return box


def _count_tools(node: Node) -> int:
    """Return the number of tools of an agent and of all agents below it."""
    tools = node.get("tools") or []
    below = [*(node.get("sub_agents") or []), *(node.get("nodes") or [])]
    below += [tool["agent"] for tool in tools if tool.get("agent")]
    return len(tools) + sum(_count_tools(child) for child in below)


def _box_note(node: Node) -> str:
    order = f"{node['order']}." if node.get("order") else ""
    rounds = f"{node['max_iterations']}×" if node.get("max_iterations") else ""
    return " ".join(filter(None, (order, rounds, node.get("type") or "")))


def _route_label(route: Any) -> str:
    if isinstance(route, list):
        return ", ".join(_route_label(alternative) for alternative in route)
    return "" if route is None else str(route)


def _assign_positions(drawing: Drawing) -> None:
    lines = defaultdict(list)
    for line in drawing.lines:
        lines[id(line.start)].append(line)
    rows = iter(range(len(drawing.boxes)))
    finished: list[Box] = []
    state: dict[int, int] = {}

    def walk(box: Box) -> None:
        state[id(box)] = 1
        below = []
        for line in lines[id(box)]:
            visit_state = state.get(id(line.end))
            line.leads_back = visit_state == 1
            if visit_state is None:
                walk(line.end)
                below.append(line.end.row)
        box.row = (below[0] + below[-1]) / 2 if below else next(rows)
        state[id(box)] = 2
        finished.append(box)

    for box in drawing.boxes:
        if id(box) not in state:
            walk(box)
    if any(line.leads_back for line in drawing.lines):
        for box in drawing.boxes:
            box.row += LOOP_HEIGHT / ROW
    for box in reversed(finished):
        for line in lines[id(box)]:
            if not line.leads_back:
                line.end.column = max(line.end.column, box.column + 1)
    routed = {line.end.column for line in drawing.lines if line.route and not line.leads_back}
    for box in drawing.boxes:
        wide = sum(column <= box.column for column in routed)
        box.x = MARGIN + wide * ROUTED_COLUMN + (box.column - wide) * COLUMN


def truncate_to_cells(text: str, cells: int) -> str:
    """Truncate a text to a number of columns of a fixed-width font; wide East Asian characters take two."""
    used = 0
    for index, character in enumerate(text):
        used += 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if used > cells:
            return text[: max(index - 1, 0)] + "…"
    return text
