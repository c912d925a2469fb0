"""Lookup of the recording that an attempt replays: a session, or an attempt of an earlier run."""

from __future__ import annotations

from evals_app.engine.replay import recording
from evals_app.engine.replay.plugin import ReplayPlugin
from evals_app.engine.replay.recording import Recording
from evals_app.engine.replay.tool_results import NotRecorded
from evals_app.models import EvalAttempt
from evals_app.runs.replay.policy import ReplayPolicy
from evals_app.runs.replay.recorded_runs import recorded_session


def create_replay(policy: ReplayPolicy, attempt: EvalAttempt) -> ReplayPlugin | None:
    """Return the plugin that replays an attempt; None if everything is live.

    Raises:
        NotRecorded: the recording does not exist.
    """
    return ReplayPlugin(policy, _find_recording(policy, attempt)) if policy.active else None


def _find_recording(policy: ReplayPolicy, attempt: EvalAttempt) -> Recording | None:
    session = recorded_session(policy, attempt.case_id, attempt.repetition)
    if session is not None:
        return recording.read_recording(session)
    if not policy.needs_recording:
        return None
    where = f"Run {policy.run}" if policy.run else f"Session {policy.session}"
    raise NotRecorded(
        f"{where} has no recording of the case {attempt.case_id!r}.",
        "Its session was deleted, or that run did not have the case. Choose another run, or let it be live.",
    )
