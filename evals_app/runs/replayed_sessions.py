"""Replay of a session: a run of the session's user messages, in a realm of its own."""

from __future__ import annotations

import time
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from evals_app.cases import session_cases
from evals_app.cases.session_cases import CaseOptions
from evals_app.files.library import mark_gone, mirror
from evals_app.metrics import config as configs
from evals_app.models import EvalRun, EvalSetVersion
from evals_app.runs import run_orders
from evals_app.runs.replay.policy import ReplayPolicy
from evals_app.runs.writes import runs
from sessions_app import prices
from sessions_app.store import realms, scopes
from sessions_app.store.errors import BadInput
from sessions_app.store.models import AgentSession

REPLAY_EVALSET_ID = "replays of sessions"
"""Id of each app's evalset of replayed sessions. It has no file."""

NO_FILE = "session"
"""Form of an evalset without a file, made from sessions."""

REPLAY_DESCRIPTION = (
    "Sessions replayed from their pages. No file is behind them:"
    " each run keeps the conversation that it repeats."
)


def order_replay(
    session: AgentSession,
    conversation: Sequence[dict[str, Any]],
    models: str,
    tools: str,
    run_id: str = "",
    *,
    num_runs: int = 1,
    person: str = "",
) -> EvalRun:
    """Create a pending run of the user messages of a session, from its initial state. An empty `run_id` is generated.

    The messages are repeated `num_runs` times. The recorded tool calls, answers and final state are the expected ones.
    `conversation` is the result of `cases.session_cases.fetch_conversation`, `person` the name of the person who orders
    it; empty: unknown.

    Raises:
        BadInput: the policy or the number is invalid, or the session has no user message or belongs to a nested run.
    """
    realms.refuse_nested(session)
    run_orders.check_repetitions(num_runs)
    policy = ReplayPolicy.chosen(models, tools, session=session.pk)
    turns = session_cases.find_turns(session)
    if not turns:
        raise BadInput("Nothing was said in this session yet.", hint="Talk to the agent first.")
    options = CaseOptions(keys=None)
    case = session_cases.build_case(session, turns, conversation, session.session_id, options)
    case["creation_timestamp"] = time.time()  # each replay has a version of its own
    config = configs.add_automatic_metrics(configs.default_config(), [case])
    order = runs.NewEvalRun(
        _store_version(session.app_name, case),
        [(0, case["eval_id"])],
        config=config.data,
        config_source=config.source,
        num_runs=num_runs,
        parallelism=min(num_runs, run_orders.DEFAULT_PARALLELISM),
        policy=policy.as_json(),
        prices=prices.current_prices().as_json(),
        source="replay",
        person=person,
    )
    return runs.create_run(order, run_id)


def _store_version(app_name: str, case: dict[str, Any]) -> EvalSetVersion:
    """Store the evalset of replays with this one case; return its version."""
    content = {"eval_set_id": REPLAY_EVALSET_ID, "eval_cases": [case]}
    digest = sha256(scopes.dumps(content).encode(errors="replace")).hexdigest()
    columns = {
        "path": REPLAY_EVALSET_ID,
        "form": NO_FILE,
        "name": "Replays of sessions",
        "description": REPLAY_DESCRIPTION,
        "digest": digest,
    }
    evalset = mirror(app_name, REPLAY_EVALSET_ID, columns, content, origin="session")
    mark_gone([evalset.pk])  # it is on no list: each replay is found by its session and its run
    return evalset.versions.get(digest=digest)
