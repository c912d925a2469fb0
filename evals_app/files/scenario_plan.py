"""What a simulated user wants and how they speak, at the head of the plan that they follow. Pure.

ADK's scenario has a starting prompt, a plan and a persona. A goal and a communication style stand in the plan as its
first lines, so that ADK's simulated user reads them and a file made here runs anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

GOAL, STYLE = "Goal: ", "Communication style: "


@dataclass(frozen=True, slots=True)
class ConversationPlan:
    """A conversation plan: one line says the goal, one the communication style, the rest how it goes."""

    goal: str = ""
    style: str = ""
    steps: str = ""

    @classmethod
    def parse(cls, text: str) -> ConversationPlan:
        """Return the parts of a plan; one that does not begin with them is all steps."""
        values = {GOAL: "", STYLE: ""}
        rest = text
        for head in (GOAL, STYLE):
            line, _, behind = rest.partition("\n")
            if line.startswith(head):
                values[head], rest = line.removeprefix(head), behind
        whole = cls(values[GOAL], values[STYLE], rest.removeprefix("\n") if any(values.values()) else text)
        return whole if str(whole) == text else cls(steps=text)

    def __str__(self) -> str:
        """Return the plan as the simulated user reads it."""
        heads = [head + value for head, value in ((GOAL, self.goal), (STYLE, self.style)) if value]
        if not heads:
            return self.steps
        return "\n".join([*heads, "", self.steps] if self.steps else heads)
