"""Read model of a playground run: each answer beside the recorded one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evals_app.metrics.alignment import CallPair, align
from evals_app.models import PlaygroundAnswer, PlaygroundRun
from evals_app.playground.columns import RequestColumn, read_columns
from evals_app.playground.runs import answer_call
from evals_app.runs.replay.comparison import RequestDifference, describe_difference
from evals_app.runs.replay.request_diff import compare_requests
from sessions_app.presentation.text_diff import DiffPiece, compare_texts
from sessions_app.store.models import ModelCall

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AnswerContent:
    """The content of an answer of a model, with the texts of its responses joined.

    Attributes:
        text: without thoughts.
        thoughts: texts that the model marked as thoughts.
        calls: tool calls as `{name, args}`.
        finish_reason: of the last response; empty if it has none.
        error: code and message of an error that the model responded with; empty if there is none.
    """

    text: str
    thoughts: str
    calls: list[Json]
    finish_reason: str
    error: str

    @property
    def is_empty(self) -> bool:
        """Tell whether there is neither text nor a thought nor a call."""
        return not (self.text or self.thoughts or self.calls)


@dataclass(frozen=True, slots=True)
class ComparedText:
    """The recorded text and that of an answer, in pieces of which some differ."""

    recorded: list[DiffPiece]
    answer: list[DiffPiece]

    @property
    def is_same(self) -> bool:
        """Tell whether both texts are equal."""
        return not any(piece.differs for piece in (*self.recorded, *self.answer))


@dataclass(frozen=True, slots=True)
class ComparedAnswer:
    """An answer beside the recorded one.

    Attributes:
        call: unsaved model call with its tokens and times.
        text, thoughts: compared with the recorded ones when the answer is done; until then without differences.
        calls: pairs of recorded and new tool calls; empty until the answer is done.
    """

    row: PlaygroundAnswer
    call: ModelCall
    content: AnswerContent
    text: ComparedText
    thoughts: ComparedText
    calls: list[CallPair]

    @property
    def is_active(self) -> bool:
        """Tell whether the answer is queued or running."""
        return self.row.status in PlaygroundAnswer.ACTIVE

    @property
    def is_same(self) -> bool:
        """Tell whether text and calls are those of the recorded answer."""
        return self.text.is_same and all(pair.fit == "same" for pair in self.calls)


@dataclass(frozen=True, slots=True)
class AnsweredColumn:
    """A column with its answers. `difference`: how its request differs from the recorded one; None if it does not."""

    position: int
    column: RequestColumn
    difference: RequestDifference | None
    answers: list[ComparedAnswer]

    @property
    def is_active(self) -> bool:
        """Tell whether an answer is queued or running."""
        return any(answer.is_active for answer in self.answers)


@dataclass(frozen=True, slots=True)
class PlaygroundResult:
    """The recorded answer and the columns of a run."""

    recorded: AnswerContent
    columns: list[AnsweredColumn]

    @property
    def is_active(self) -> bool:
        """Tell whether an answer is queued or running."""
        return any(column.is_active for column in self.columns)


def read_result(run: PlaygroundRun, recorded: Mapping[str, Any]) -> PlaygroundResult:
    """Return the answers of a run beside the recorded one. One query.

    Args:
        recorded: request and responses of the call, as `traces.model_calls.call_json` returns them.
    """
    recorded_content = read_content(recorded["responses"])
    rows = list(run.answers.order_by("column", "repetition"))
    return PlaygroundResult(
        recorded_content,
        [
            AnsweredColumn(
                position,
                column,
                _compare_request(recorded["request"], column),
                [_compare_answer(recorded_content, row) for row in rows if row.column == position],
            )
            for position, column in enumerate(read_columns(run.columns))
        ],
    )


def read_content(responses: Sequence[Mapping[str, Any]]) -> AnswerContent:
    """Return what a model answered in these responses."""
    parts = [
        part
        for response in responses
        for part in (response.get("content") or {}).get("parts") or []
        if isinstance(part, dict)
    ]
    texts = [part for part in parts if isinstance(part.get("text"), str)]
    calls = [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
    last = responses[-1] if responses else {}
    error = [str(last[name]) for name in ("error_code", "error_message") if last.get(name)]
    return AnswerContent(
        text="".join(part["text"] for part in texts if not part.get("thought")),
        thoughts="".join(part["text"] for part in texts if part.get("thought")),
        calls=[{"name": call.get("name") or "", "args": call.get("args") or {}} for call in calls],
        finish_reason=str(last.get("finish_reason") or ""),
        error=" ".join(error),
    )


def _compare_answer(recorded: AnswerContent, row: PlaygroundAnswer) -> ComparedAnswer:
    content = read_content(json.loads(row.response))
    is_done = row.status == PlaygroundAnswer.Status.DONE
    return ComparedAnswer(
        row,
        answer_call(row),
        content,
        _compare_text(recorded.text, content.text, is_done),
        _compare_text(recorded.thoughts, content.thoughts, is_done),
        align(recorded.calls, content.calls) if is_done else [],
    )


def _compare_text(recorded: str, text: str, is_done: bool) -> ComparedText:
    """Compare texts. An answer that is not done has no differences: every word that is still to come would be one."""
    if not is_done or recorded == text:
        return ComparedText([DiffPiece(recorded, False)], [DiffPiece(text, False)])
    return ComparedText(*compare_texts(recorded, text))


def _compare_request(recorded: Json, column: RequestColumn) -> RequestDifference | None:
    difference = compare_requests(recorded, column.request_json())
    if not difference:
        return None
    # A replay says in which turn and call a request differs; here there is only one.
    return describe_difference({**difference, "turn": 0, "agent": "", "call": 0})
