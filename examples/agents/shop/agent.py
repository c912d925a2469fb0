"""A shop's help desk with a bug on purpose: it forgets who is a gold member.

| say | and see |
|---|---|
| "My email is ada@example.com" | a tool that writes the keys `customer` and `tier` |
| "What does delivery cost?" | a wrong answer: Ada is a gold member and pays nothing |

The page "Why this answer" of the wrong answer names the key and the callback that has overwritten it.
"""

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.tools.tool_context import ToolContext
from scripted_model import Reply, Rule, ScriptedLlm, Turn, call

CUSTOMERS = {"ada@example.com": ("Ada", "gold"), "ben@example.com": ("Ben", "standard")}

INSTRUCTION = """\
You are the help desk of a shop. Delivery costs 5 euros and is free for gold members.

customer: {customer?}
tier: {tier?}
"""


def find_customer(email: str, tool_context: ToolContext) -> dict[str, str]:
    """Find a customer by email address, and remember who asks."""
    if email.lower() not in CUSTOMERS:
        return {"status": "not found"}
    name, tier = CUSTOMERS[email.lower()]
    tool_context.state["customer"] = name
    tool_context.state["tier"] = tier
    return {"status": "found", "name": name, "tier": tier}


def set_defaults(callback_context: CallbackContext) -> None:
    """Give a new session its default tier."""
    callback_context.state["tier"] = "standard"  # the bug: in every turn, not only in a new session


def greet(turn: Turn) -> Reply:
    """Greet the customer whom the tool has found."""
    if turn.result["status"] != "found":
        return "I know nobody with this address."
    return "Hello {name}, I have found your account. You are a {tier} member.".format(**turn.result)


def quote(turn: Turn) -> Reply:
    """Say what delivery costs for the tier in the instruction."""
    if turn.facts["tier"] == "gold":
        return "Delivery is free for you."
    return f"Delivery costs 5 euros for {turn.facts['tier']} members."


RULES = [
    Rule(after="find_customer", reply=greet),
    Rule(r"e-?mail\D* is (?P<email>\S+@\S+\w)", lambda turn: call("find_customer", email=turn["email"])),
    Rule(r"deliver", quote),
    Rule(reply="Tell me your email address, then ask me what delivery costs."),
]

root_agent = LlmAgent(
    name="shop",
    description="Answers questions of customers about delivery.",
    model=ScriptedLlm(rules=RULES),
    instruction=INSTRUCTION,
    tools=[find_customer],
    before_agent_callback=set_defaults,
)
