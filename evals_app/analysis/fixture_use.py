"""Use of the fixtures of tools: which answered a call of an attempt, and which answered none of a run. Read-only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evals_app.cases import version_contents
from evals_app.files.fixtures import CASE, MOCK, SourcedToolFixtures
from evals_app.models import REPEAT_SOURCES, EvalAttempt, EvalRun
from evals_app.runs.replay.policy import ReplayPolicy


class FixtureKey(NamedTuple):
    """Identity of a fixture in a run: its tool and number, and the position of its case; None: the evalset's."""

    tool: str
    number: int
    case_index: int | None

    @property
    def name(self) -> str:
        """The fixture in words, without its case."""
        return f"the mock of {self.tool}" if self.number == MOCK else f"fixture {self.number} of {self.tool}"


@dataclass(frozen=True)
class RunFixtures:
    """Fixtures of a run.

    Attributes:
        policy: what answers the calls that no fixture fits: live, recorded or fail.
        unused: the fixtures that are unused, in words; empty while that is not known.
    """

    policy: str
    unused: Sequence[str]


def read_run_fixtures(run: EvalRun) -> RunFixtures | None:
    """Return the fixtures of a run; None if its evalset has none."""
    if not any(version_contents.read_fixtures(run.version_id, run.version.digest)):
        return None
    is_known = run.status == EvalRun.Status.DONE and run.source not in REPEAT_SOURCES
    return RunFixtures(ReplayPolicy.of(run.policy).tools, _find_unused(run) if is_known else ())


def _find_unused(run: EvalRun) -> list[str]:
    attempts = run.attempts.exclude(status=EvalAttempt.Status.CANCELLED).order_by("case_index")
    case_ids: dict[int, str] = {}
    used: set[FixtureKey] = set()
    for index, case_id, text in attempts.values_list("case_index", "case_id", "fixture_answers"):
        case_ids[index] = case_id
        used.update(
            FixtureKey(answer["tool"], answer["number"], index if answer["source"] == CASE else None)
            for answer in json.loads(text)
        )
    return [
        f"{key.name} in the {'evalset' if key.case_index is None else f'case {case_ids[key.case_index]!r}'}"
        for key in _iter_keys(run, case_ids)
        if key not in used
    ]


def _iter_keys(run: EvalRun, case_ids: dict[int, str]) -> Iterator[FixtureKey]:
    """Yield the fixtures of the cases that ran; those of the evalset only if all of its cases did."""
    version = run.version_id, run.version.digest
    by_case = version_contents.read_fixtures(*version)
    if len(case_ids) == len(by_case):
        yield from _list_keys(version_contents.read_shared_fixtures(*version), None)
    for index in case_ids:
        yield from _list_keys(
            [tool_fixtures for tool_fixtures in by_case[index] if tool_fixtures.source == CASE], index
        )


def _list_keys(fixtures: Sequence[SourcedToolFixtures], case_index: int | None) -> Iterator[FixtureKey]:
    for tool_fixtures in fixtures:
        yield from (FixtureKey(tool_fixtures.tool, number, case_index) for number in tool_fixtures.numbers)


def name_answering_fixture(attempt: EvalAttempt, call_id: str) -> str:
    """Return the fixture that answered a call of an attempt, in words; "" if none did."""
    for answer in json.loads(attempt.fixture_answers):
        if call_id and answer["call"] == call_id:
            name = "mock" if answer["number"] == MOCK else f"fixture {answer['number']}"
            return f"{name} of the {answer['source']}"
    return ""
