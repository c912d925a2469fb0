"""An office assistant: tools that wait for people, cost money, keep files, remember, are slow, or fail.

| say | and see |
|---|---|
| "Request leave for 3 days" | a long-running tool: pending until somebody answers |
| "Pay 120 to Acme" | a tool that runs only after a confirmation |
| "Take a note: ..." | an artifact, one version more each time |
| "What did we say about ...?" | memory of earlier sessions |
| "Take 5 seconds" | a slow tool, to be cancelled |
| "Break it" | a tool that raises |
"""

import asyncio

from google.adk.agents import LlmAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.apps import App
from google.adk.plugins.save_files_as_artifacts_plugin import SaveFilesAsArtifactsPlugin
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.load_memory_tool import LoadMemoryResponse, load_memory_tool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from scripted_model import Reply, Rule, ScriptedLlm, Turn, call

MINUTES = "minutes.md"
MAX_WAIT = 600


def request_leave(days: int, tool_context: ToolContext) -> dict[str, object]:
    """Ask the manager for days off. The answer comes later."""
    ticket = tool_context.state.get("tickets", 0) + 1
    tool_context.state["tickets"] = ticket
    return {"status": "pending", "ticket": ticket, "days": days}


def pay(amount: float, to: str, tool_context: ToolContext) -> dict[str, object]:
    """Pay an invoice. Runs only when the user has confirmed it."""
    state = tool_context.state
    state["payments"] = [*state.get("payments", []), {"to": to, "amount": amount}]
    state["app:paid"] = state.get("app:paid", 0) + amount
    return {"status": "paid", "to": to, "amount": amount}


async def take_note(text: str, tool_context: ToolContext) -> dict[str, object]:
    """Add a line to the minutes of this session."""
    minutes = await tool_context.load_artifact(MINUTES)
    before = minutes.text if minutes and minutes.text else "# Minutes\n\n"
    version = await tool_context.save_artifact(MINUTES, types.Part(text=f"{before}- {text}\n"))
    tool_context.state["notes"] = tool_context.state.get("notes", 0) + 1
    return {"file": MINUTES, "version": version}


async def wait(seconds: float) -> dict[str, float]:
    """Wait without doing anything."""
    await asyncio.sleep(min(seconds, MAX_WAIT))
    return {"waited": seconds}


def restart_printer() -> None:
    """Restart the printer."""
    raise RuntimeError("The printer on floor 7 does not answer.")


async def hand_over_to_memory(callback_context: CallbackContext) -> None:
    """After every answer: let later sessions of this user recall this one."""
    await callback_context.add_session_to_memory()


def leave(turn: Turn) -> Reply:
    """Report the status of a request that another person decides."""
    status = turn.result.get("status", "answered")
    if status == "pending":
        return "Ticket {ticket}: {days} days of leave, pending.".format(**turn.result)
    return f"Your leave is {status}."


def paid(turn: Turn) -> Reply:
    """Report whether the payment was made."""
    return "I did not pay." if "error" in turn.result else "I paid {amount} to {to}.".format(**turn.result)


def recall(turn: Turn) -> Reply:
    """Quote the first memory of the topic that is not this question itself."""
    memories = LoadMemoryResponse.model_validate(turn.result["result"])
    texts = [part.text or "" for memory in memories.memories for part in memory.content.parts or []]
    quotes = [text for text in texts if turn["topic"].lower() in text.lower() and text != turn.text]
    return f'I remember: "{quotes[0]}"' if quotes else f"I remember nothing about {turn['topic']}."


TOPIC = r"say about (the |our )?(?P<topic>[\w ]+)"

RULES = [
    Rule(after="request_leave", reply=leave),
    Rule(after="pay", reply=paid),
    Rule(after="take_note", reply=lambda turn: "Noted in {file}, version {version}.".format(**turn.result)),
    Rule(after="wait", reply=lambda turn: "I waited {waited} s.".format(**turn.result)),
    Rule(TOPIC, after="load_memory", reply=recall),
    Rule(r"leave for (?P<days>\d+)", lambda turn: call("request_leave", days=int(turn["days"]))),
    Rule(
        r"pay (?P<amount>\d+)\D* to (?P<to>\w+)",
        lambda turn: call("pay", amount=int(turn["amount"]), to=turn["to"]),
    ),
    Rule(r"note: (?P<text>.+)", lambda turn: call("take_note", text=turn["text"])),
    Rule(r"take (?P<seconds>\d+) sec", lambda turn: call("wait", seconds=int(turn["seconds"]))),
    Rule(TOPIC, lambda turn: call("load_memory", query=turn["topic"])),
    Rule(r'Uploaded Artifact: "(?P<file>.+?)"', lambda turn: f"I keep {turn['file']} with this session."),
    Rule(r"break it|printer", lambda turn: call("restart_printer")),
    Rule(reply="I can request leave, pay, take notes, remember, wait, and break."),
]

root_agent = LlmAgent(
    name="office",
    description="Requests, payments, notes and memory.",
    model=ScriptedLlm(rules=RULES),
    instruction="Help with the work of an office. Never pay without a confirmation.",
    tools=[
        LongRunningFunctionTool(request_leave),
        FunctionTool(pay, require_confirmation=True),
        take_note,
        load_memory_tool,
        wait,
        restart_printer,
    ],
    after_agent_callback=hand_over_to_memory,
)

app = App(name="office", root_agent=root_agent, plugins=[SaveFilesAsArtifactsPlugin()])
