"""Where the recording of an attempt comes from: the session that is replayed, or an attempt of an earlier run."""

from __future__ import annotations

from evals_app.engine.replay import recording
from evals_app.engine.replay.matching import NotRecorded
from evals_app.engine.replay.plugin import Replay
from evals_app.engine.replay.recording import Recording
from evals_app.models import EvalAttempt
from evals_app.replays import Policy
from sessions_app.models import AgentSession


def replay_of(policy: Policy, attempt: EvalAttempt) -> Replay | None:
    """Return the plug-in that replays an attempt; None: everything in it is live.

    Raises:
        NotRecorded: there is nothing to replay it from.
    """
    return Replay(policy, _recording(policy, attempt)) if policy.active else None


def _recording(policy: Policy, attempt: EvalAttempt) -> Recording | None:
    session = _session(policy, attempt)
    if session is not None:
        return recording.read(session)
    if not policy.needs_recording:
        return None
    where = f"Run {policy.run}" if policy.run else f"Session {policy.session}"
    raise NotRecorded(
        f"{where} has no recording of the case {attempt.case_id!r}.",
        "Its session was deleted, or that run did not have the case. Choose another run, or let it be live.",
    )


def _session(policy: Policy, attempt: EvalAttempt) -> AgentSession | None:
    """Return the session; of several repetitions the same one, else the first that there is."""
    if policy.session is not None:
        return AgentSession.objects.filter(pk=policy.session).first()
    if not policy.run:
        return None
    kept = EvalAttempt.objects.filter(run_id=policy.run, case_id=attempt.case_id).exclude(session=None)
    found = list(kept.select_related("session").order_by("case_index", "repetition"))
    same = (one.session for one in found if one.repetition == attempt.repetition)
    return next(same, found[0].session if found else None)
