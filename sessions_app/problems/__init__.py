"""Problems of sessions: facts about what went wrong, with evidence and a remedy.

A detector is a function to problems from the evidence of its scope: one invocation, or the state that a session reads.
The background indexer runs all detectors after appends and stores the problems (`session_checks`); pages, search and
API read them (`problem_queries`).

An installed package adds a detector by an entry point of the group `devui.problems`, which names a detector made by
`@detector` or a module with detectors. `examples/plugin/` has one.
"""

from sessions_app.problems.evidence import Evidence
from sessions_app.problems.registry import (
    Detector,
    DetectorScope,
    Link,
    Problem,
    Severity,
    all_detectors,
    detector,
    links_to_writes,
)
from sessions_app.problems.state_evidence import StateEvidence

__all__ = [
    "Detector",
    "DetectorScope",
    "Evidence",
    "Link",
    "Problem",
    "Severity",
    "StateEvidence",
    "all_detectors",
    "detector",
    "links_to_writes",
]
