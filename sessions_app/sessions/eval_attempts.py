"""Registry of finders of the eval attempt that a session belongs to, which the app of evals adds.

Registering a finder does not load the models.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sessions_app.store.models import AgentSession


@dataclass(frozen=True, slots=True)
class AttemptLink:
    """The eval attempt of a session.

    Attributes:
        url: address of its page.
        case_id: its case.
        variant: name of the variant of the agent that it ran; empty: the agent as it is in its files.
        variant_hash: hash of what the variant changes.
    """

    url: str
    case_id: str
    variant: str = ""
    variant_hash: str = ""


FindAttempt = Callable[["AgentSession"], AttemptLink | None]

attempt_finders: list[FindAttempt] = []
"""Filled when the apps are ready. Each takes one query."""


def find_attempt(session: AgentSession) -> AttemptLink | None:
    """Return the eval attempt of a session; None if it has none, or its run was deleted."""
    from sessions_app.store import realms  # it loads the models

    if not session.realm.startswith(realms.ATTEMPT):
        return None
    return next((link for find in attempt_finders if (link := find(session))), None)
