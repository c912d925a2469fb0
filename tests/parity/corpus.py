"""Evalsets of both sides: those of the examples, and cases for edges of the metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.evals.builders import case, evalset, text

Json = dict[str, Any]

EXAMPLES = Path(__file__).parents[2] / "examples"

APART = "`adk eval` keeps one user's state for all cases of a file; here each attempt has its own"
RAISES = "an agent that raised: FAILED without scores in `adk eval`, an error with its traceback here"
UNRUN = "a metric that could not run is passed over by `adk eval`; here its case is incomplete, never passed"

UNREAD = "a rubric or sentence without a verdict is left out by `adk eval`; here its case is incomplete"


@dataclass(frozen=True)
class Job:
    """One evalset, how it is judged, and on which cases both sides are meant to differ (None: all), and why.

    Attributes:
        whole: `adk eval` runs the file at once, as a person would; else case by case, for it keeps the state of a
            user from case to case.
    """

    agent: str
    file: Path
    config: Json
    intended: dict[str | None, str] = field(default_factory=dict)
    num_runs: int = 1
    whole: bool = True


def jobs(folder: Path) -> list[Job]:
    """Write the files that both sides read into a folder, and return what there is to run."""
    return [*_examples(folder), *_generated_jobs(folder)]


DEFAULT = {"criteria": {"tool_trajectory_avg_score": 1.0, "response_match_score": 0.8}}


def _examples(folder: Path) -> Iterator[Job]:
    agents = EXAMPLES / "agents"
    writer = json.loads((agents / "writer" / "test_config.json").read_text())
    raises = {None: RAISES}
    for agent, name, config, intended in (
        ("weather", "lookups.evalset.json", DEFAULT, {}),
        ("weather", "one_fails_on_purpose.evalset.json", DEFAULT, {}),
        ("team", "reports.evalset.yaml", DEFAULT, {}),
        ("writer", "notes.evalset.json", writer, {}),
        ("writer", "styles.test.json", writer, {}),
        ("office", "desk.evalset.json", DEFAULT, {}),
        ("office", "raises_on_purpose.evalset.json", DEFAULT, raises),
    ):
        file = agents / agent / name
        if file.suffix == ".yaml":  # which `adk eval` does not read
            read = yaml.safe_load(file.read_text(encoding="utf-8"))
            file = _write(folder, file.name.replace(".yaml", ".json"), read)
        yield Job(agent, file, config, dict(intended), whole=False)
    for place in ("judged", "scenarios"):
        config = json.loads((EXAMPLES / place / "test_config.json").read_text())
        yield Job("weather", next((EXAMPLES / place).glob("*.evalset.json")), config, whole=False)


MATCHES: dict[str, Json] = {
    "exact": {},
    "in_order": {"match_type": "IN_ORDER"},
    "any_order": {"match_type": "ANY_ORDER"},
    "exact_names": {"ignore_args": True},
    "in_order_names": {"match_type": "in order", "ignore_args": True},
    "any_order_names": {"matchType": 2, "ignoreArgs": True},
}
"""The rules of the tool trajectory, in the spellings that ADK reads."""


def _generated_jobs(folder: Path) -> Iterator[Job]:
    calls = _write(folder, "calls.evalset.json", evalset(*_calls(), eval_set_id="calls"))
    for name, rules in MATCHES.items():
        runs = 3 if name == "exact" else 1
        yield Job(
            "parrot",
            calls,
            {"criteria": {"tool_trajectory_avg_score": {"threshold": 0.5, **rules}}},
            num_runs=runs,
        )
    answers = _write(folder, "answers.evalset.json", evalset(*_answers(), eval_set_id="answers"))
    yield Job("parrot", answers, {"criteria": {"response_match_score": 0.5}})
    yield Job(
        "parrot", answers, {"criteria": {"response_match_score": 1.0, "tool_trajectory_avg_score": 0.0}}
    )
    talks = _write(folder, "talks.evalset.json", evalset(*_talks(), eval_set_id="talks"))
    yield Job("parrot", talks, DEFAULT)
    yield Job(
        "parrot",
        talks,
        {"criteria": {"tool_trajectory_avg_score": 0.5, "response_match_score": 0.5}},
        num_runs=2,
    )
    judged = {"threshold": 0.5, "judge_model_options": {"judge_model": "offline-judge", "num_samples": 2}}
    yield Job("parrot", answers, {"criteria": {"final_response_match_v2": judged}})
    breaks = _write(
        folder, "breaks.evalset.json", evalset(_text_case("raises", {"raise": "on purpose"}, "never"))
    )
    yield Job("parrot", breaks, DEFAULT, {None: RAISES})
    unrun = {"criteria": {"response_match_score": 0.5, "rubric_based_final_response_quality_v1": judged}}
    fine = _write(folder, "fine.evalset.json", evalset(_text_case("fine", {"say": "fine"}, "fine")))
    yield Job("parrot", fine, unrun, {None: UNRUN})
    forgetful = {**judged, "judge_model_options": {"judge_model": "forgetful-judge", "num_samples": 1}}
    rubrics = [
        {"rubric_id": name, "rubric_content": {"text_property": f"It says “{name}”."}}
        for name in ("fine", "well")
    ]
    unread = {
        "rubric_based_multi_turn_trajectory_quality_v1": {**forgetful, "rubrics": rubrics},
        "hallucinations_v1": forgetful,
    }
    two = _write(
        folder, "two.evalset.json", evalset(_text_case("two", {"say": "Fine. Well."}, "Fine. Well."))
    )
    yield Job("parrot", two, {"criteria": unread}, {None: UNREAD})
    counts = [_text_case(f"count_{number}", {"count": True}, "number 1") for number in (1, 2, 3)]
    shared = _write(folder, "counts.evalset.json", evalset(*counts, eval_set_id="counts"))
    yield Job("parrot", shared, {"criteria": {"response_match_score": 1.0}}, {None: APART})


A, A2, B, C = ("f", {"x": 1}), ("f", {"x": 2}), ("g", {}), ("h", {"deep": {"list": [1, {"k": "é 東京"}]}})
LISTS = {
    "none": [],
    "a": [A],
    "a_other": [A2],
    "b": [B],
    "ab": [A, B],
    "ba": [B, A],
    "aa": [A, A],
    "abc": [A, B, C],
    "acb": [A, C, B],
    "float": [("f", {"x": 1.0})],
    "text": [("f", {"x": "1"})],
    "null": [("f", {"x": None})],
    "more": [("f", {"x": 1, "y": 2})],
    "unicode": [("東京", {"città": "Zürich 🌧"})],
}
"""Tool calls, each list expected of each."""


def _calls() -> Iterator[Json]:
    for name, expected in LISTS.items():
        for got, actual in LISTS.items():
            yield _text_case(f"{name}__{got}", {"calls": actual, "say": "ok"}, "ok", expected)
    yield _text_case("nothing_said_of_tools", {"calls": [A], "say": "ok"}, "ok", None)


SAID = {
    "same": ("It is sunny in Paris.", "It is sunny in Paris."),
    "part": ("It is sunny in Paris.", "sunny Paris"),
    "longer": ("Paris", "It is sunny in Paris, and so it stays all day."),
    "case": ("PARIS IS SUNNY", "paris is sunny"),
    "stem": ("The runner was running", "The runners run"),
    "other": ("Yes.", "No!"),
    "signs": ("…", "?!"),
    "space": ("  a  b\n\nc ", "a b c"),
    "digits": ("24 °C, 1,000.5", "24 C 1000.5"),
    "accents": ("Zürich café naïve", "Zurich cafe naive"),
    "japanese": ("東京は雨です。", "東京は雨です。"),
    "korean": ("서울은 맑음", "서울은 흐림"),
    "mixed": ("東京 is rainy", "東京 is sunny"),
    "emoji": ("🌧 rain", "🌧 sun"),
    "right_to_left": ("مرحبا بالعالم", "مرحبا بالعالم"),
    "repeated": ("a a a a", "a"),
    "lines": ("one\ntwo\nthree", "three\ntwo\none"),
    "long": ("word " * 400, "word " * 399 + "end"),
}
"""Expected and actual answers."""


def _answers() -> Iterator[Json]:
    for name, (expected, actual) in SAID.items():
        yield _text_case(name, {"say": actual}, expected)
    yield _text_case("nothing_expected", {"say": "something"}, None)
    yield _text_case("empty_expected", {"say": "something"}, "")


def _talks() -> Iterator[Json]:
    first = _turn({"calls": [A], "say": "It is sunny."}, "It is sunny.", [A])
    second = _turn({"calls": [A2], "say": "It rains."}, "It snows.", [A])
    third = _turn({"say": "Goodbye."}, None, None)
    yield case("both_right", first, first)
    yield case("one_wrong", first, second)
    yield case("wrong_then_right", second, first)
    yield case("three", first, second, third)
    yield case("seeded", first, session_input={"app_name": "x", "user_id": "u", "state": {"user:n": 4}})
    yield case("日本語", first)


def _text_case(name: str, fields: Json, expected: str | None, calls: list[Any] | None = None) -> Json:
    return case(name, _turn(fields, expected, calls))


def _turn(fields: Json, expected: str | None, calls: list[Any] | None = None) -> Json:
    turn: Json = {"user_content": text(json.dumps(fields, ensure_ascii=False))}
    if expected is not None:
        turn["final_response"] = text(expected, "model")
    if calls is not None:
        turn["intermediate_data"] = {"tool_uses": [{"name": name, "args": args} for name, args in calls]}
    return turn


def _write(folder: Path, name: str, document: Any) -> Path:
    path = folder / name
    path.write_text(json.dumps(document, ensure_ascii=False, indent=1), encoding="utf-8")
    return path
