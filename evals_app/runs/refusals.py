"""Errors of changes to a run."""

from __future__ import annotations

from sessions_app.errors import DevUIError


class EvalRunActive(DevUIError):
    """The eval run has not ended."""

    status = 409
    code = "eval_run_active"


class HasChanged(DevUIError):
    """The agent's code, its models or ADK changed since the run began."""

    status = 409
    code = "eval_run_changed"
