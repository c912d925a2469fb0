"""Lint hints: state that may be stored in the wrong scope or form, with evidence and a remedy.

Hints are not errors: agents may have good reasons. A hint states the finding, its occurrences, and ADK's alternative.

An installed package adds a rule by an entry point of the group `devui.lint_rules`, which names a rule made by `@rule`
or a module with rules. `examples/plugin/` has one.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from sessions_app.plugins import FAILURES, LINT_RULES, Registry, require_texts
from sessions_app.state.lint import rules
from sessions_app.state.lint.evidence import Evidence, KeyEvidence
from sessions_app.state.lint.evidence_queries import read_evidence, scope_sizes
from sessions_app.state.lint.rules import Finding, Occurrence, Rule, rule, write_occurrences
from sessions_app.store.models import AgentSession
from sessions_app.store.scopes import replace_surrogates
from sessions_app.store.state import history as history

__all__ = [
    "Evidence",
    "Finding",
    "Hint",
    "KeyEvidence",
    "LintReport",
    "Occurrence",
    "Rule",
    "all_rules",
    "lint",
    "rule",
    "write_occurrences",
]

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hint:
    """A finding of a rule. `says` completes a sentence that begins with the key's name; no name: the rule failed."""

    rule: Rule
    name: str
    says: str
    occurrences: Sequence[Occurrence] = ()


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
    hints = [hint for lint_rule in all_rules() for hint in _rule_hints(lint_rule, evidence)]
    return LintReport(hints, scope_sizes(owners), evidence.unread)


_RULES = Registry(Rule, LINT_RULES, lambda: (rules,))


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return DevUI's rules, then those of installed packages. The first rule of a name wins."""
    return tuple(_RULES.by_name(lambda rule: rule.name).values())


def _rule_hints(rule: Rule, evidence: Evidence) -> list[Hint]:
    """Return the hints of a rule; if it raises, a hint that says so."""
    try:
        hints = [
            Hint(rule, finding.name, finding.says, tuple(finding.occurrences))
            for finding in rule.check(evidence)
        ]
        for hint in hints:
            for occurrence in hint.occurrences:
                require_texts(occurrence, "text", "session_id")
        return hints
    except FAILURES as error:
        log.exception("The lint rule %r failed.", rule.name)
        failed = replace(rule, label=f"{rule.label}: the rule failed", remedy=FAILURE_REMEDY)
        message = replace_surrogates(f"The check raised {type(error).__name__}: {error}")
        return [Hint(failed, "", message[:MAX_FAILURE_TEXT])]


FAILURE_REMEDY = (
    "Report it to the author of the rule; the server's log has the details. Other rules are not affected."
)
MAX_FAILURE_TEXT = 300
