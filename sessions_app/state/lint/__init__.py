"""Hints at state that may be kept in the wrong place or in the wrong way, each with its evidence and a remedy.

Nothing here is an error: agents may have good reasons. A hint says what was seen, where, and what ADK offers instead.
"""

from __future__ import annotations

from dataclasses import dataclass

from sessions_app.models import AgentSession
from sessions_app.state import history
from sessions_app.state.lint.evidence import Evidence
from sessions_app.state.lint.evidence_queries import read_evidence, scope_sizes
from sessions_app.state.lint.rules import ALL, Hint, Occurrence, Rule

__all__ = ["Hint", "LintReport", "Occurrence", "Rule", "find_hints", "lint"]


@dataclass(frozen=True, slots=True)
class LintReport:
    """What was found in the state as it is now.

    Attributes:
        hints: in the order of the rules, and of the keys.
        sizes: bytes of all values of each scope, in UTF-8.
        unread: keys that no rule looked at: there are too many.
    """

    hints: list[Hint]
    sizes: dict[str, int]
    unread: int


def lint(session: AgentSession) -> LintReport:
    """Look over the state that a session reads, as it is now. The number of queries depends on nothing."""
    owners = history.owners_at(session)
    evidence = read_evidence(session, owners)
    return LintReport(find_hints(evidence), scope_sizes(owners), evidence.unread)


def find_hints(evidence: Evidence) -> list[Hint]:
    """Return what the rules find. Pure."""
    return [hint for rule in ALL for hint in rule(evidence)]
