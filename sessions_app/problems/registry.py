"""The registry of problem detectors, and the problems they report."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice
from typing import Any

from sessions_app.plugins import FAILURES, PROBLEMS, Registry, import_modules, require_texts
from sessions_app.problems.state_evidence import KeyWriteEvidence
from sessions_app.store.scopes import clean_error, replace_surrogates
from sessions_app.store.short_texts import truncate

log = logging.getLogger(__name__)

MAX_TEXT = 400
MAX_LINKS = 8
MAX_CODE = 64
MAX_PROBLEMS = 10_000
"""Problems that a detector may report of an invocation, or of the state."""

CALL_LABEL = "call"
"""Label of a link to the call of a tool. This event does not show the tool's error."""

OWN_DETECTORS = "sessions_app.problems.detectors"
DETECTOR_FAILED = "detector-failed"


class Severity(StrEnum):
    """Severity of a problem. Notes are only listed: lists and the timeline neither count nor show them."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class DetectorScope(StrEnum):
    """Subject of a detector: an invocation, or the current state that a session reads."""

    INVOCATION = "invocation"
    STATE = "state"


@dataclass(frozen=True, slots=True)
class Link:
    """A link to a piece of evidence.

    Attributes:
        kind: event, nested (an event inside a nested run), request, trace, run or log.
        target: seq of the event, or of the session's event with the nested run; key of the model call, trace or log
            record; or id of the run. The event 0 is the session as a whole.
        label: text of the link; empty: the kind.
        session: key of another session that has the event; 0: it is this session, or deleted.
        session_id: id of the other session.
    """

    kind: str
    target: str | int
    label: str = ""
    session: int = 0
    session_id: str = ""

    def __post_init__(self) -> None:
        """Check the types.

        Raises:
            TypeError: a field has another type.
        """
        require_texts(self, "kind", "label", "session_id")
        if not isinstance(self.target, str | int) or not isinstance(self.session, int):
            raise TypeError(f"target or session of Link have another type: {self.target!r}, {self.session!r}")


@dataclass(frozen=True, slots=True)
class Problem:
    """A fact about an invocation, or about the state. Without a `seq` it is about the invocation as a whole.

    `key` is the state key that it is about, with its prefix; the text completes a sentence that begins with it.
    """

    text: str
    seq: int = 0
    agent: str = ""
    links: Sequence[Link] = ()
    key: str = ""

    def __post_init__(self) -> None:
        """Check the types.

        Raises:
            TypeError: a field has another type.
        """
        require_texts(self, "text", "agent", "key")
        if not isinstance(self.seq, int) or not all(isinstance(link, Link) for link in self.links):
            raise TypeError(f"seq or links of {type(self).__name__} have another type: {self.seq!r}")


Check = Callable[[Any], Iterable[Problem]]
"""A function from the evidence of its scope: `Evidence` of an invocation, or `StateEvidence`."""


@dataclass(frozen=True, slots=True)
class Detector:
    """A detector of problems.

    Attributes:
        code: its name in searches and the API.
        remedy: what the user can do about the problem.
        check: the function that yields problems.
        repeats_error: the timeline shows the text already, as the error of an event or a run, and adds only the title.
        scope: what it checks.
    """

    code: str
    title: str
    remedy: str
    severity: Severity
    check: Check
    repeats_error: bool = False
    scope: DetectorScope = DetectorScope.INVOCATION

    def __post_init__(self) -> None:
        """Check the types.

        Raises:
            TypeError: a field has another type.
            ValueError: the code has other characters than lower-case letters, digits and hyphens, or is too long.
        """
        require_texts(self, "code", "title", "remedy")
        if not re.fullmatch(r"[a-z0-9-]+", self.code) or len(self.code) > MAX_CODE:
            raise ValueError(f"The code of a problem is made of a-z, 0-9 and hyphens, not {self.code!r}.")
        Severity(self.severity)
        DetectorScope(self.scope)


def detector(
    code: str,
    title: str,
    *,
    remedy: str,
    severity: Severity = Severity.WARNING,
    repeats_error: bool = False,
    scope: DetectorScope = DetectorScope.INVOCATION,
) -> Callable[[Check], Detector]:
    """Make a detector of the decorated function."""
    return lambda check: Detector(code, title, remedy, severity, check, repeats_error, scope)


_DETECTORS = Registry(Detector, PROBLEMS, lambda: import_modules(OWN_DETECTORS))


@cache
def all_detectors() -> dict[str, Detector]:
    """Return DevUI's detectors, then those of installed packages, by code. The first detector of a code wins."""
    return _DETECTORS.by_name(lambda detector: detector.code)


def find_detector(code: str) -> Detector:
    """Return the detector of a stored code; if it is not installed any more, one that has only the code."""
    unknown = Detector(code, code.replace("-", " ").capitalize(), "", Severity.WARNING, lambda evidence: ())
    return all_detectors().get(code) or (_FAILED_DETECTOR if code == DETECTOR_FAILED else unknown)


_FAILED_DETECTOR = Detector(
    DETECTOR_FAILED,
    "Detector failed",
    "Report it to the author of the detector; the server's log has the details. Other detectors are not affected.",
    Severity.NOTE,
    lambda evidence: (),
)


def detect(scope: DetectorScope, evidence: Any) -> Iterator[tuple[Detector, Problem]]:
    """Yield the problems that all detectors of a scope find. A detector that raises is logged and reported as a note.

    Args:
        scope: what is checked.
        evidence: the evidence of that scope, see `Check`.
    """
    for detector in all_detectors().values():
        if detector.scope is not scope:
            continue
        try:
            problems = [_require_problem(item) for item in islice(detector.check(evidence), MAX_PROBLEMS)]
        except FAILURES as error:
            log.exception("The problem detector %r failed.", detector.code)
            text = f"The detector {detector.code} raised {type(error).__name__}: {error}"
            problems, detector = [Problem(replace_surrogates(text))], _FAILED_DETECTOR
        for problem in problems:
            yield detector, problem


def _require_problem(item: object) -> Problem:
    """Return an item that a detector yielded.

    Raises:
        TypeError: the item is not a problem.
    """
    if not isinstance(item, Problem):
        raise TypeError(f"A detector yields Problem objects, not {type(item).__name__}.")
    return item


def links_to_writes(writes: Iterable[KeyWriteEvidence]) -> list[Link]:
    """Return links to writes of a state key."""
    return [Link("event", write.seq, "written", write.session_pk or 0, write.session_id) for write in writes]


def quote(text: str, limit: int = 200) -> str:
    """Return a text of an agent, model or tool for use in a sentence: one short line without credentials."""
    return truncate(" ".join(clean_error(text[: limit * 4]).split()), limit)
