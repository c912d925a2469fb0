"""Tools that read. Each is a request to DevUI's API, or a few; its docstring is the description that models read."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Any, Literal

from pydantic import Field

from devui.mcp.answers import make_answer, piece_text
from devui.mcp.api_client import api_client
from devui.mcp.errors import RefusedCall
from evals_app.runs.replay.request_diff import compare_requests
from sessions_app.presentation.visible_text import escape_json
from sessions_app.store.ids import RowKey
from sessions_app.store.redaction import redact_texts

MAX_KEY = 2**63 - 1
EVENT_PIECE = 20_000
"""Characters of an event's JSON in one answer."""

SessionNumber = Annotated[
    int, Field(ge=1, le=MAX_KEY, description="Number of the session: `key` in search_sessions.")
]
Seq = Annotated[int, Field(ge=0, le=MAX_KEY)]
RunId = Annotated[
    str, Field(pattern=r"^[\w-]{1,64}$", description="Id of an eval run: `id` in list_eval_runs.")
]
AttemptNumber = Annotated[
    int, Field(ge=1, le=MAX_KEY, description="Number of the attempt: `id` in list_attempts.")
]
Limit = Annotated[int, Field(ge=1, le=50)]
Cursor = Annotated[
    str, Field(max_length=500, description="`next_cursor` of the answer before; empty: the beginning.")
]
Name = Annotated[str, Field(max_length=500)]


async def search_sessions(
    query: Annotated[str, Field(max_length=2_000)] = "",
    app: Name = "",
    limit: Limit = 20,
    cursor: Cursor = "",
) -> str:
    """Find sessions (conversations with agents), newest first.

    `query` is DevUI's search language: words of the conversation, `"a phrase"`, and terms such as `tool:get_weather`,
    `is:error`, `problem:tool-error`, `error:quota`, `log:timeout`, `tier = gold` (state), `updated:<2h`. Empty: all
    sessions. Each result has the `key` by which other tools name the session.
    """
    page = await api_client().get("/sessions", q=query, app=app, limit=limit, before=cursor)
    return await make_answer(page["sessions"], link=api_client().link("sessions"), cursor=page["next"])


async def read_events(session: SessionNumber, after: Seq = 0, limit: Limit = 20) -> str:
    """Read the events of a session in order: messages, tool calls and results, state changes.

    `after` is the number (`seq`) of an event: the events after it are returned. Continue with `after=next_cursor`.
    Long texts are cut: read_event has a whole event.
    """
    page = await api_client().get(f"/sessions/{session}/events", after=after, limit=limit)
    cursor = page["cursor"] if page["more"] else None
    return await make_answer(page["events"], link=session_link(session, after + 1), cursor=cursor)


async def read_event(session: SessionNumber, seq: RowKey, offset: Seq = 0) -> str:
    """Read one event in full, as JSON text in pieces. Continue with `offset=next_cursor` until there is none."""
    page = await api_client().get(f"/sessions/{session}/events", after=seq - 1, limit=1)
    event = next((row for row in page["events"] if row["seq"] == seq), None)
    if event is None:
        raise RefusedCall(f"Session {session} has no event {seq}.", hint="read_events lists its events.")
    text = escape_json(json.dumps(redact_texts(event), ensure_ascii=False))
    end = offset + EVENT_PIECE
    return piece_text(
        text[offset:end],
        total=len(text),
        link=session_link(session, seq),
        cursor=end if end < len(text) else None,
    )


async def read_state(
    session: SessionNumber,
    at: Annotated[str, Field(max_length=200, description="Number or id of an event.")] = "",
) -> str:
    """Read the state of a session after an event, by scope; without `at`, the current state."""
    state = await api_client().get(f"/sessions/{session}/state", at=at)
    return await make_answer(state, link=session_link(session, at))


async def find_key_writers(
    session: SessionNumber, key: Name, before: Seq | None = None, limit: Limit = 20
) -> str:
    """List who wrote a state key and when, newest first: the event, and the tool, callback or agent that set it.

    `key` has its prefix: `tier`, `user:name`, `app:limit`. Use it to find what overwrote a value.
    """
    history = await api_client().get(
        f"/sessions/{session}/state/history", key=key, limit=limit, before=before
    )
    for change in history["changes"]:
        change["value"] = redact_texts(change["value"], key)
    return await make_answer(history, link=session_link(session), cursor=history["next"])


async def list_model_calls(
    session: SessionNumber, event: Name = "", limit: Limit = 20, cursor: Cursor = ""
) -> str:
    """List the calls of models in a session, newest first: agent, model, tokens, duration, errors, and events.

    `event` is the number or id of an event: only the call that produced it.
    """
    page = await api_client().get(f"/sessions/{session}/model-calls", event=event, limit=limit, before=cursor)
    return await make_answer(page["items"], link=session_link(session), cursor=page["next"])


async def read_model_call(session: SessionNumber, call: RowKey) -> str:
    """Read what a model was sent (instruction, history, tools, settings) and what it answered."""
    whole = await api_client().get(f"/sessions/{session}/model-calls/{call}")
    return await make_answer(whole, link=api_client().link("model-call", pk=session, call=call))


async def compare_model_requests(
    session: SessionNumber,
    call: RowKey,
    other_call: RowKey | None = None,
    other_session: SessionNumber | None = None,
) -> str:
    """Show how the request of a model call differs from another: instruction, history, tools, settings, model.

    Without `other_call`, it is compared with the previous call of the same agent. `recorded` is the other call, `now`
    this one.
    """
    this = await api_client().get(f"/sessions/{session}/model-calls/{call}")
    other_key = other_call or this["before"]
    if other_key is None:
        raise RefusedCall(
            f"Model call {call} is the first of its agent.", hint="Name another one as `other_call`."
        )
    other = await api_client().get(f"/sessions/{other_session or session}/model-calls/{other_key}")
    differences = await asyncio.to_thread(compare_requests, other["request"], this["request"])
    return await make_answer(
        {"other_call": other_key, "differences": differences},
        link=api_client().link("model-call", pk=session, call=call),
    )


async def read_problems(session: SessionNumber) -> str:
    """List what went wrong in a session, and hints about its state, each with evidence and a remedy."""
    return await make_answer(
        await api_client().get(f"/sessions/{session}/problems"), link=session_link(session)
    )


async def read_log(
    session: SessionNumber,
    invocation: Annotated[str, Field(max_length=500, description="`invocationId` of an event.")],
    level: Literal["", "debug", "info", "warning", "error", "critical"] = "",
    after: Seq = 0,
) -> str:
    """Read the log records and printed lines of an invocation, oldest first, from the lowest `level` on."""
    trace = await _find_trace(session, invocation)
    page = await api_client().get(f"/traces/{trace}/log", level=level, after=after)
    return await make_answer(page["items"], link=session_link(session), cursor=page["next"])


async def list_evalsets(app: Name = "") -> str:
    """List the evalsets (files of eval cases) of an app, or of all apps, with their cases and problems."""
    evalsets = await api_client().get("/evals/evalsets", app=app)
    return await make_answer(evalsets, link=api_client().link("evals"))


async def list_eval_runs(app: Name = "", evalset: Name = "", limit: Limit = 20, cursor: Cursor = "") -> str:
    """List runs of evalsets, newest first: status, counts, code version, models, variant."""
    page = await api_client().get("/evals/runs", app=app, evalset=evalset, limit=limit, before=cursor)
    return await make_answer(page["runs"], link=api_client().link("evals"), cursor=page["next"])


async def read_eval_run(run: RunId) -> str:
    """Read an eval run: what it executes, its status and its counts. `status` is `done` when it has ended."""
    return await make_answer(await api_client().get(f"/evals/runs/{run}"), link=run_link(run))


async def list_attempts(
    run: RunId,
    status: Literal["", "passed", "failed", "error", "incomplete", "cancelled", "running", "pending"] = "",
    limit: Limit = 20,
    after: Seq = 0,
) -> str:
    """List the attempts of an eval run (one per case and repetition), in file order: case, status, cause, error.

    `explain_attempt` has the details of one.
    """
    page = await api_client().get(f"/evals/runs/{run}/attempts", status=status, limit=limit, after=after)
    return await make_answer(page["attempts"], link=run_link(run), cursor=page["next"])


async def explain_attempt(attempt: AttemptNumber) -> str:
    """Explain why an eval attempt failed: the expected case, what the agent did, each metric with its reason, and the
    problems found in its session.

    Next, use read_events and find_key_writers with its `session`.
    """
    facts = await api_client().get(f"/evals/attempts/{attempt}")
    session = facts["session"]
    problems = await api_client().get(f"/sessions/{session}/problems") if session else None
    link = run_link(facts["run"], f"attempt={attempt}")
    return await make_answer({**facts, "problems": problems}, link=link)


async def compare_eval_runs(
    run: RunId,
    against: Annotated[
        str, Field(max_length=64, description="Id of a run, `baseline` or `previous`.")
    ] = "previous",
) -> str:
    """Compare an eval run with an earlier one of its evalset: a verdict on each case and on the run, with statistics.

    Use it to tell whether a change is better: differences that chance explains are named as such.
    """
    facts = await api_client().get(f"/evals/runs/{run}/compare", **{"with": against})
    return await make_answer(facts, link=api_client().link("eval-run-compare", run_id=run))


async def draft_case(
    session: SessionNumber,
    first: Annotated[
        str, Field(max_length=500, description="`invocationId` of the first turn; empty: all.")
    ] = "",
    last: Annotated[
        str, Field(max_length=500, description="`invocationId` of the last turn; empty: all.")
    ] = "",
) -> str:
    """Draft an eval case of a session or of some of its turns, without saving it.

    What the agent answered is what the case expects: correct `final_response` where the answer was wrong.
    """
    draft = await api_client().get("/evals/cases/draft", session=session, first=first, last=last)
    return await make_answer(draft, link=api_client().link("eval-record", f"session={session}"))


def session_link(session: int, seq: object = "") -> str:
    """Return the URL of a session's page, at an event if one is given."""
    return api_client().link("session-by-pk", f"seq={seq}" if str(seq).isdecimal() else "", pk=session)


def run_link(run: str, query: str = "") -> str:
    """Return the URL of an eval run's page."""
    return api_client().link("eval-run", query, run_id=run)


async def _find_trace(session: int, invocation: str) -> int:
    """Return the key of the trace of an invocation.

    Raises:
        RefusedCall: the newest traces of the session have none of it.
    """
    page: dict[str, Any] = await api_client().get("/traces", session=session, limit=200)
    keys = [trace["id"] for trace in page["items"] if trace["invocation_id"] == invocation]
    if not keys:
        raise RefusedCall(
            f"Session {session} has no recorded trace of the invocation {invocation!r}.",
            hint="Take `invocationId` from an event of read_events.",
        )
    return int(keys[0])


READ_TOOLS = (
    search_sessions,
    read_events,
    read_event,
    read_state,
    find_key_writers,
    list_model_calls,
    read_model_call,
    compare_model_requests,
    read_problems,
    read_log,
    list_evalsets,
    list_eval_runs,
    read_eval_run,
    list_attempts,
    explain_attempt,
    compare_eval_runs,
    draft_case,
)
