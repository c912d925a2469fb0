import asyncio
import os
import resource
import subprocess
import sys
import threading
import time

from acting import Acting
from google.adk.agents import LlmAgent
from google.adk.tools.tool_context import ToolContext


def print_much() -> str:
    """Print a line without end, bytes that are no text, and many lines."""
    print("x" * 200_000, end="")
    sys.stdout.buffer.write(b"\xff\xfe\x00\n")
    for n in range(2_000):
        print(n, file=sys.stderr)
    return "printed"


def flood() -> str:
    """Print 60 MB: lines, a line without end, bytes that are no text, and lines on the error stream."""
    for n in range(200_000):
        print(f"{n:099}")
    sys.stdout.write("x" * 20_000_000)
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\xff\x00" * 5_000_000)
    sys.stdout.buffer.flush()
    for n in range(100_000):
        print(f"{n:099}", file=sys.stderr)
    return "printed"


def fork() -> str:
    """Fork; the copy lives on for a while."""
    pid = os.fork()
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    return str(pid)


def come_back() -> str:
    """Fork; the copy goes on as if it were the runtime."""
    pid = os.fork()
    return "parent" if pid else "copy"


def leave_behind() -> str:
    """Start a program that outlives the call."""
    return str(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]).pid)


def hard_exit() -> None:
    """End the process."""
    os._exit(3)


def soft_exit() -> None:
    """Raise SystemExit."""
    sys.exit(4)


def fail_badly() -> None:
    """Raise what is no Exception."""
    raise BaseExceptionGroup("two at once", [ZeroDivisionError("one"), GeneratorExit("two")])


def close_descriptors() -> str:
    """Close all descriptors, as libraries do that make daemons: the process's socket is one."""
    os.closerange(3, 400)
    return "closed"


async def block_later() -> str:
    """Block the event loop for ever, a moment after the run has ended."""
    asyncio.get_running_loop().call_later(0.5, _block)
    return "soon"


def _block() -> None:
    print("blocks")
    time.sleep(100_000)


def fill_memory(megabytes: int) -> int:
    """Hold this much memory for a moment."""
    return len(bytearray(megabytes * 1024 * 1024))


def burn(seconds: int) -> str:
    """Use the processor."""
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass
    return "burnt"


def show_process() -> dict:
    """Return limits and variables of the process."""
    return {
        "open files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "processes": resource.getrlimit(resource.RLIMIT_NPROC),
        "variables": sorted(name for name in os.environ if name.startswith("DEVUI_")),
    }


def fail() -> None:
    """Raise an error of its own."""
    raise ZeroDivisionError("nothing to share")


class Overloaded(Exception):
    """As client libraries tell it: with the status that the API names."""

    status = "RESOURCE_EXHAUSTED"


def fail_overloaded() -> None:
    """Raise an error that names a status."""
    raise Overloaded("429: try later")


def fail_with_key() -> None:
    """Raise an error that quotes credentials, as client libraries do."""
    key = "AIzaSyD-" + "0123456789abcdefghijklmnopqrs"
    raise PermissionError(f"429: quota of {key} is used up (https://models.test/v1?token=s3cr3t-value)")


def fail_in_half() -> None:
    """Raise an error with half of a character."""
    raise ValueError("half \ud83d")


def leave_thread() -> None:
    """Start a thread that never ends."""
    threading.Thread(target=threading.Event().wait).start()


def nest(levels: int) -> dict:
    """Return a dict in a dict in a dict …"""
    value: dict = {"leaf": 1}
    for _ in range(levels):
        value = {"in": value}
    return value


def answer_half() -> dict:
    """Answer with half of a character."""
    return {"text": "half \ud83d"}


def answer_object() -> dict:
    """Answer with what is no JSON."""
    return {"object": object(), "set": {1}, "number": float("nan"), "bytes": b"\xff\x00"}


def answer_deep() -> dict:
    """Answer with more levels than pydantic writes."""
    return nest(300)


def write_half(tool_context: ToolContext) -> str:
    """Write half of a character to the state, as key and as value."""
    tool_context.state["half \ud83d"] = "half \ud83d"
    return "written"


def write_object(tool_context: ToolContext) -> str:
    """Write what is no JSON to the state."""
    tool_context.state.update({"object": object(), "number": float("nan"), "bytes": b"\xff\x00"})
    return "written"


def write_deep(tool_context: ToolContext) -> str:
    """Write more levels to the state than pydantic writes."""
    tool_context.state["deep"] = nest(300)
    return "written"


FAILING = [fail, fail_overloaded, fail_badly, fail_in_half, fail_with_key]
HOSTILE = [answer_half, answer_object, answer_deep, write_half, write_object, write_deep]

root_agent = LlmAgent(
    name="trouble",
    model=Acting(),
    tools=[
        print_much,
        flood,
        fork,
        come_back,
        leave_behind,
        leave_thread,
        hard_exit,
        close_descriptors,
        block_later,
        soft_exit,
        fill_memory,
        burn,
        show_process,
        *FAILING,
        *HOSTILE,
    ],
)
