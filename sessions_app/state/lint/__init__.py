"""Lint hints: state that may be stored in the wrong scope or form, with evidence and a remedy.

Hints are not errors: agents may have good reasons. A hint states the finding, its occurrences, and ADK's alternative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sessions_app.models import AgentSession
from sessions_app.state import history
from sessions_app.state.lint.evidence import Evidence
from sessions_app.state.lint.evidence_queries import read_evidence, scope_sizes
from sessions_app.state.lint.rules import RULES, Occurrence, Rule

__all__ = ["RULES", "Hint", "LintReport", "Occurrence", "Rule", "find_hints", "lint"]


@dataclass(frozen=True, slots=True)
class Hint:
    """A finding of a rule. `says` completes a sentence that begins with the key's name."""

    rule: Rule
    name: str
    says: str
    sights: Sequence[Occurrence]

    @property
    def remedy(self) -> str:
        """ADK's alternative."""
        return self.rule.remedy


@dataclass(frozen=True, slots=True)
class LintReport:
    """The hints for the current state of a session.

    Attributes:
        hints: in the order of the rules, and of the keys.
        sizes: total UTF-8 bytes of the values of each scope.
        unread: number of keys beyond the limit, which no rule checked.
    """

    hints: list[Hint]
    sizes: dict[str, int]
    unread: int


def lint(session: AgentSession) -> LintReport:
    """Check the current state that a session reads. The number of queries is constant."""
    owners = history.owners_at(session)
    evidence = read_evidence(session, owners)
    return LintReport(find_hints(evidence), scope_sizes(owners), evidence.unread)


def find_hints(evidence: Evidence) -> list[Hint]:
    """Return the hints of all rules. Pure."""
    return [
        Hint(rule, finding.name, finding.says, finding.occurrences)
        for rule in RULES
        for finding in rule.check(evidence)
    ]
