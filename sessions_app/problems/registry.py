"""The registry of problem detectors, and the problems they report."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import islice

from sessions_app.plugins import FAILURES, PROBLEMS, import_modules, load_plugins, objects_in, require_texts
from sessions_app.problems.evidence import Evidence
from sessions_app.scopes import clean_error

log = logging.getLogger(__name__)

MAX_TEXT = 400
MAX_LINKS = 8
MAX_CODE = 64
MAX_PROBLEMS = 10_000
"""Problems that a detector may report of an invocation."""

OWN_DETECTORS = "sessions_app.problems.detectors"
FAILED = "detector-failed"


class Severity(StrEnum):
    """How bad a problem is. Notes are listed, but neither counted nor shown as warnings."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Link:
    """A piece of evidence.

    Attributes:
        kind: event (target: its seq), request (the key of a model call), trace (its key), run (its id).
        target: what it leads to.
        label: its words; empty: those of its kind.
    """

    kind: str
    target: str | int
    label: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A fact that a detector found. Without a `seq` it is about the invocation as a whole."""

    text: str
    seq: int = 0
    agent: str = ""
    links: Sequence[Link] = ()

    def __post_init__(self) -> None:
        """Check the types.

        Raises:
            TypeError: a field has another type.
        """
        require_texts(self, "text", "agent")
        if not isinstance(self.seq, int) or not all(isinstance(link, Link) for link in self.links):
            raise TypeError(f"seq or links of {type(self).__name__} have another type: {self.seq!r}")


Check = Callable[[Evidence], Iterable[Problem]]


@dataclass(frozen=True, slots=True)
class Detector:
    """A detector of problems.

    Attributes:
        code: its name in searches and the API.
        repeats_error: its texts are errors that an event or a run shows itself, so the timeline shows only the title.
        check: the function that finds problems.
    """

    code: str
    title: str
    remedy: str
    severity: Severity
    check: Check
    repeats_error: bool = False

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


def detector(
    code: str,
    title: str,
    *,
    remedy: str,
    severity: Severity = Severity.WARNING,
    repeats_error: bool = False,
) -> Callable[[Check], Detector]:
    """Make a detector of the decorated function."""
    return lambda check: Detector(code, title, remedy, severity, check, repeats_error)


@cache
def all_detectors() -> dict[str, Detector]:
    """Return DevUI's detectors, then those of installed packages, by code. The first detector of a code wins."""
    by_code: dict[str, Detector] = {}
    for source in (*import_modules(OWN_DETECTORS), *load_plugins(PROBLEMS)):
        for each in objects_in(source, Detector):
            if by_code.setdefault(each.code, each) is not each:
                log.error(
                    "The problem detector %r exists already: another of this code is omitted.", each.code
                )
    return by_code


def detector_of(code: str) -> Detector:
    """Return the detector of a stored code; if its package is gone, one that has only the code."""
    unknown = Detector(code, code.replace("-", " "), "", Severity.WARNING, lambda evidence: ())
    return all_detectors().get(code) or (FAILURE if code == FAILED else unknown)


FAILURE = Detector(
    FAILED,
    "a detector failed",
    "Report it to the author of the detector; the server's log has the details. Other detectors are not affected.",
    Severity.NOTE,
    lambda evidence: (),
)


def detect(evidence: Evidence) -> Iterator[tuple[Detector, Problem]]:
    """Yield the problems that all detectors find. A detector that raises is logged and reported as a note."""
    for each in all_detectors().values():
        try:
            problems = [_checked(problem) for problem in islice(each.check(evidence), MAX_PROBLEMS)]
        except FAILURES as error:
            log.exception("The problem detector %r failed.", each.code)
            problems, each = (
                [Problem(f"The check {each.code} raised {type(error).__name__}: {error}")],
                FAILURE,
            )
        for problem in problems:
            yield each, problem


def _checked(problem: object) -> Problem:
    """Return what a detector yielded, if it is a problem.

    Raises:
        TypeError: it is none.
    """
    if not isinstance(problem, Problem):
        raise TypeError(f"A detector yields Problem objects, not {type(problem).__name__}.")
    return problem


def quote(text: str, limit: int = 200) -> str:
    """Return a text of an agent, model or tool for a sentence: one line, bounded, without credentials."""
    line = " ".join(clean_error(text[: limit * 4]).split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
