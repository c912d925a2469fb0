"""Agents that wait for the file in `WAITING_FOR`. So a test decides how long their runs are."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tests.evals.builders import case, evalset, turn, write

MODEL = """
import asyncio, os, pathlib, time
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_response import LlmResponse
from google.genai import types

FILE = pathlib.Path(os.environ["WAITING_FOR"])

def sleep():
    while not FILE.exists():
        time.sleep(0.05)

class Waiting(BaseLlm):
    model: str = "waiting"
    blocks: bool = False

    async def generate_content_async(self, llm_request, stream=False):
        while not FILE.exists():
            if self.blocks:
                sleep()
            await asyncio.sleep(0.05)
            if stream:
                yield LlmResponse(content=content("word "), partial=True)
        yield LlmResponse(content=content("done"))

def content(text):
    return types.Content(role="model", parts=[types.Part(text=text)])
"""
AGENT = """
import waiting
from google.adk.agents import LlmAgent
{loads}
root_agent = LlmAgent(name="{name}", model=waiting.Waiting(blocks={blocks}))
"""
ALL = SLEEPER, STREAMER, LOADER, JUDGED = "sleeper", "streamer", "loader", "judged"


def write_agents(folder: Path, names: Iterable[str] = ALL) -> Path:
    """Write agents that wait for the file in `WAITING_FOR`: in a blocking call, streaming, and while they load."""
    folder.mkdir()
    write(folder, "waiting.py", MODEL)
    for name in names:
        loads = "waiting.sleep()" if name == LOADER else ""
        write(folder / name, "agent.py", AGENT.format(name=name, blocks=name == SLEEPER, loads=loads))
    cases = [case(f"c{number}", turn("wait", "done")) for number in range(3)]
    write(folder / JUDGED, "wait.evalset.json", evalset(*cases, eval_set_id="wait"))
    return folder
