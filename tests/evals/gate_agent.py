"""An agent whose attempts wait, block, or ignore cancellation, and what waits for their statuses."""

from __future__ import annotations

import time

from django.db import connection

from evals_app.models import EvalAttempt
from tests.patience import PATIENCE_S

AGENT = """
import asyncio
import os
import re
import signal
import time
from pathlib import Path

from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.genai import types

OPEN = Path(__file__).parent / "open.txt"


class Gate(BaseAgent):
    async def _run_async_impl(self, ctx):
        said = ctx.user_content.parts[0].text
        while said == "wait" and not OPEN.exists():
            await asyncio.sleep(0.01)
        while said == "block" and not OPEN.exists():
            time.sleep(0.01)
        while said == "cling":
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                pass
        if said == "search":
            re.match("(a+)+$", "a" * 60 + "b")
        if said == "terminate":
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(3600)
        content = types.Content(role="model", parts=[types.Part(text=said)])
        yield Event(author=self.name, invocation_id=ctx.invocation_id, content=content)


root_agent = Gate(name="gate")
"""


def wait_for(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
        connection.close()  # each look sees what is committed by then


def statuses():
    return list(EvalAttempt.objects.order_by("case_index").values_list("status", flat=True))
