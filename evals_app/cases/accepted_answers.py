"""Acceptance of an attempt's answers and tool calls as those that its case expects. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from evals_app.cases import edits, expected_steps, message_text
from evals_app.cases.expected_steps import ExpectedCall
from sessions_app.store.errors import BadInput, NotFound

Json = dict[str, Any]


def accept_actual(
    cases: list[Json],
    case_id: str,
    hint: int | None,
    actual: Sequence[Mapping[str, Any]],
    *,
    author: str,
    with_calls: bool,
) -> None:
    """Make the answers and tool calls of an attempt the expected ones of its case.

    Turns that the attempt did not reach or answer stay. Tool calls are accepted of turns that expect some; with
    `with_calls`, because the run judges them, of all turns.

    Raises:
        NotFound: no case has this id.
        BadInput: the case has no such turns.
    """
    index = edits.find_case_index(cases, case_id, hint)
    if index is None:
        raise NotFound(
            f"There is no case {case_id!r} any more.", hint="Make a case from the session instead."
        )
    turns = cases[index].get("conversation") or []
    pairs = list(zip(turns, actual, strict=False))
    if any(_user_text(turn) != _user_text(actual_turn) for turn, actual_turn in pairs):
        raise BadInput(
            f"Case {case_id!r} has other messages of the user than this run.",
            hint="Edit the case, or run it again and accept the new answer.",
        )
    if not pairs:
        raise BadInput(
            f"Case {case_id!r} has no turn that this attempt answered.",
            hint="A case with a simulated user has no expected answers.",
        )
    accepted = [_accept_turn(turn, actual_turn, author, with_calls) for turn, actual_turn in pairs]
    cases[index] = {**cases[index], "conversation": [*accepted, *turns[len(pairs) :]]}


def _user_text(turn: Mapping[str, Any]) -> str:
    return message_text.message_text(turn.get("user_content"))


def _accept_turn(turn: Json, actual: Mapping[str, Any], author: str, with_calls: bool) -> Json:
    changed = dict(turn)
    if answer := message_text.message_text(actual.get("final_response")):
        changed["final_response"] = message_text.with_text(turn.get("final_response"), answer, "model")
    steps = turn.get("intermediate_data")
    expected_calls = expected_steps.expected_calls(steps)
    if with_calls or expected_calls:
        calls = [
            ExpectedCall(call.name, call.args, _find_origin(index, call, expected_calls))
            for index, call in enumerate(expected_steps.expected_calls(actual.get("intermediate_data")))
        ]
        new_steps = expected_steps.with_steps(steps, calls, expected_steps.expected_texts(steps), author)
        if new_steps is not None:
            changed["intermediate_data"] = new_steps
    return changed


def _find_origin(index: int, call: ExpectedCall, expected_calls: Sequence[ExpectedCall]) -> int | None:
    """Return the index of an actual call if the expected call with this index is of the same tool."""
    has_same_name = index < len(expected_calls) and expected_calls[index].name == call.name
    return index if has_same_name else None
