"""Goal and communication style of a simulated user, stored in the first lines of the conversation plan. Pure.

ADK's scenario has only a starting prompt, a plan and a persona. As part of the plan, goal and style reach ADK's
simulated user in any program.
"""

from __future__ import annotations

from dataclasses import dataclass

GOAL, STYLE = "Goal: ", "Communication style: "


@dataclass(frozen=True, slots=True)
class ConversationPlan:
    """Conversation plan: a line with the goal, a line with the style, then the steps."""

    goal: str = ""
    style: str = ""
    steps: str = ""

    @classmethod
    def parse(cls, text: str) -> ConversationPlan:
        """Parse a plan. Text without these lines is all steps."""
        values = {GOAL: "", STYLE: ""}
        remaining = text
        for head in (GOAL, STYLE):
            line, _, behind = remaining.partition("\n")
            if line.startswith(head):
                values[head], remaining = line.removeprefix(head), behind
        plan = cls(
            values[GOAL], values[STYLE], remaining.removeprefix("\n") if any(values.values()) else text
        )
        return plan if str(plan) == text else cls(steps=text)

    def __str__(self) -> str:
        """Return the text of the plan."""
        heads = [head + value for head, value in ((GOAL, self.goal), (STYLE, self.style)) if value]
        if not heads:
            return self.steps
        return "\n".join([*heads, "", self.steps] if self.steps else heads)
