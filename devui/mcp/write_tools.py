"""Tools that run agents or write files, offered only by a server with `--write` or DEVUI_MCP_WRITE=1."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import Field

from devui.mcp.answers import make_answer
from devui.mcp.api_client import api_client
from devui.mcp.errors import RefusedCall
from devui.mcp.read_tools import Name, SessionNumber, run_link, session_link
from sessions_app.store.models import Run

POLL_S = 0.5
MAX_WAIT_S = 120

USER = "mcp"
"""User of the sessions that clients start."""

MAX_AGE_S = 0.001
"""Age up to which the API would continue a session instead of starting a new one."""

CaseIds = Annotated[Sequence[Name], Field(max_length=500, description="Ids of cases; empty: all.")]


async def send_message(
    text: Annotated[str, Field(min_length=1, max_length=100_000)],
    session: SessionNumber | None = None,
    app: Name = "",
    wait_seconds: Annotated[int, Field(ge=0, le=MAX_WAIT_S)] = 60,
) -> str:
    """Send a message to an agent and return the events that follow: in an existing session, or in a new one of an app.

    If the run has not ended after `wait_seconds`, read_events shows how it goes on.
    """
    key = session or await _start_session(app)
    run = await api_client().post("/runs", {"session": key, "message": text})
    until = time.monotonic() + wait_seconds
    while run["status"] in Run.ACTIVE and time.monotonic() < until:
        await asyncio.sleep(POLL_S)
        run = await api_client().get(f"/runs/{run['id']}")
    first = run["first_seq"] or 0
    page = await api_client().get(f"/sessions/{key}/events", after=first, limit=50)
    facts = {name: run[name] for name in ("id", "status", "error_type", "error")}
    cursor = page["cursor"] if page["more"] else None
    return await make_answer(
        {"session": key, "run": facts, "events": page["events"]},
        link=session_link(key, first + 1),
        cursor=cursor,
    )


async def run_evalset(
    app: Name,
    evalset: Name,
    cases: CaseIds = (),
    repetitions: Annotated[int, Field(ge=1, le=20)] = 1,
) -> str:
    """Run an evalset, or some of its cases, with the current code of the agent. Models may cost money.

    Returns at once: read_eval_run tells when it has ended, then use list_attempts and compare_eval_runs.
    """
    return await _order_run({"app": app, "evalset": evalset, "cases": [*cases], "num_runs": repetitions})


async def try_variant(
    app: Name,
    evalset: Name,
    changes: Annotated[
        dict[str, dict[str, Any]],
        Field(description='New values by agent and field: {"shop": {"instruction": "…"}}.'),
    ],
    name: Annotated[str, Field(min_length=1, max_length=60)] = "variant",
    cases: CaseIds = (),
    repetitions: Annotated[int, Field(ge=1, le=20)] = 1,
) -> str:
    """Run an evalset with a changed agent beside the original, without a change of its files.

    Fields are those of ADK's agents, such as `instruction` and `model`. `variants` of the answer has the id of the
    variant's run: pass it to compare_eval_runs with `against` the original's run.
    """
    variant = {"name": name, "agents": changes}
    order = {"app": app, "evalset": evalset, "cases": [*cases], "num_runs": repetitions}
    return await _order_run({**order, "variants": [variant]})


async def make_case(
    app: Name,
    evalset: Name,
    case: Annotated[dict[str, Any], Field(description="The case, as draft_case returns it, corrected.")],
) -> str:
    """Add an eval case to the file of an evalset. Draft it with draft_case, and correct what is expected."""
    saved = await api_client().post("/evals/cases", {"app": app, "evalset": evalset, "case": case})
    link = api_client().link("evalset", app_name=app, evalset_id=evalset)
    return await make_answer(saved, link=link)


async def _order_run(order: dict[str, Any]) -> str:
    run = await api_client().post("/evals/runs", order)
    return await make_answer(run, link=run_link(run["id"]))


async def _start_session(app: str) -> int:
    """Start a session of an app and return its key.

    Raises:
        RefusedCall: no app is named.
    """
    if not app:
        raise RefusedCall(
            "Neither a session nor an app is named.", hint="Pass `session`, or `app` for a new one."
        )
    active = await api_client().post("/sessions/active", {"app": app, "user": USER, "ttl": MAX_AGE_S})
    return int(active["session"]["key"])


WRITE_TOOLS = (send_message, run_evalset, try_variant, make_case)
