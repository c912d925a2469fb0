"""An agent whose tools do what tools that are called by hand may do."""

import asyncio
import logging
import os
import sys

from acting import Acting
from google.adk.agents import LlmAgent
from google.adk.tools import AgentTool, FunctionTool, LongRunningFunctionTool, google_search
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.base_toolset import BaseToolset
from google.adk.tools.tool_context import ToolContext
from google.genai import types

log = logging.getLogger("handy")


async def book(city: str, nights: int, breakfast: bool = False, tool_context: ToolContext = None) -> dict:
    """Book a room: writes state, saves a file, logs and prints."""
    tool_context.state["city"] = city
    tool_context.state["user:nights"] = nights
    await tool_context.save_artifact("booking.txt", types.Part(text=f"{city}, {nights}"))
    log.warning("books %s", city)
    print(f"printed {city}")
    return {"city": city, "nights": nights, "breakfast": breakfast, "was": tool_context.state.get("last")}


def fail(reason: str) -> None:
    """Raise an error."""
    log.warning("about to fail")
    raise ValueError(f"{reason}: token=s3cr3t-value")


async def hang() -> None:
    """Wait for ever."""
    print("waits")
    await asyncio.Event().wait()


async def ignore_cancellation() -> None:
    """Go on after a cancellation."""
    for _ in range(60):
        try:
            await asyncio.sleep(0.2)
        except asyncio.CancelledError:
            print("goes on")


def add_to_cart(item: str, tool_context: ToolContext) -> None:
    """Change a value of the state in place."""
    tool_context.state["cart"].append(item)


async def await_cancelled() -> None:
    """Wait for something that was cancelled."""
    task = asyncio.create_task(asyncio.sleep(9))
    task.cancel()
    await task


def leave() -> None:
    """Call sys.exit."""
    sys.exit(4)


def die() -> None:
    """End the process."""
    os._exit(3)


def answer_much() -> str:
    """Return a text of 1 MB."""
    return "x" * 1_000_000


def answer_html() -> dict:
    """Return HTML."""
    return {"<b>key</b>": "<script>alert(1)</script><img src=x onerror=alert(2)>"}


def count_up(last: int):
    """Yield numbers."""
    yield from range(last)


def confirm(amount: int) -> str:
    """Pay, after a confirmation."""
    return f"paid {amount}"


def wait_for_person(question: str) -> dict:
    """Ask a person."""
    return {"status": "pending", "question": question}


class BrokenTool(BaseTool):
    """A tool whose declaration raises."""

    def _get_declaration(self) -> types.FunctionDeclaration:
        raise TypeError("no schema")


class OddTool(BaseTool):
    """A tool with a schema that no JSON schema is."""

    def _get_declaration(self) -> types.FunctionDeclaration:
        schema = {"type": "object", "properties": {"a": 1, "b": {"$ref": "#/gone"}}, "required": "a"}
        return types.FunctionDeclaration(name=self.name, parameters_json_schema=schema)

    async def run_async(self, *, args: dict, tool_context: ToolContext) -> dict:
        return args


def roll(sides: int) -> int:
    """Return the number of sides."""
    return sides


class Dice(BaseToolset):
    """A toolset, as those of MCP and OpenAPI are."""

    async def get_tools(self, readonly_context=None) -> list[BaseTool]:
        return [FunctionTool(roll)]


class Lost(BaseToolset):
    """A toolset whose server cannot be reached."""

    async def get_tools(self, readonly_context=None) -> list[BaseTool]:
        raise ConnectionError("no server")


helper = LlmAgent(name="helper", model=Acting(), tools=[fail])
answering_agent = LlmAgent(name="asked", description="Answers.", model=Acting())

root_agent = LlmAgent(
    name="handy",
    model=Acting(),
    tools=[
        *(
            book,
            fail,
            hang,
            ignore_cancellation,
            add_to_cart,
            await_cancelled,
            leave,
            die,
            answer_much,
            answer_html,
            count_up,
        ),
        FunctionTool(confirm, require_confirmation=True),
        LongRunningFunctionTool(wait_for_person),
        BrokenTool(name="broken", description="Cannot declare itself."),
        OddTool(name="odd", description="Has an odd schema."),
        AgentTool(answering_agent),
        google_search,
        Dice(tool_name_prefix="dice"),
        Lost(),
    ],
    sub_agents=[helper],
)
