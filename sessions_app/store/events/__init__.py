"""Read the wire form of events (camelCase JSON, as ADK's REST API sends it). Pure.

`build_record` converts a wire event to the row that is stored; `summarize` to the bounded JSON that a timeline row
shows, so that pages never parse whole events.
"""

from sessions_app.store.events.content import (
    ABORTED,
    CHANGES_BY_PERSON,
    PARTIAL_ANSWER,
    as_seconds,
    content_parts,
    failed_results,
    function_calls,
    function_responses,
    is_failed_result,
    is_final_response,
    partial_answers,
    without_internals,
)
from sessions_app.store.events.kinds import EventKind, is_error, recognize_kind
from sessions_app.store.events.records import (
    EventRecord,
    StateWrite,
    TempKeyWrite,
    build_record,
    mark_removed,
)
from sessions_app.store.events.summary import (
    CANCELLED,
    LIST_LIMIT,
    PART_ORDER,
    TEXT_LIMIT,
    shorten,
    shorten_id,
    summarize,
)

__all__ = [
    "ABORTED",
    "CANCELLED",
    "CHANGES_BY_PERSON",
    "LIST_LIMIT",
    "PARTIAL_ANSWER",
    "PART_ORDER",
    "TEXT_LIMIT",
    "EventKind",
    "EventRecord",
    "StateWrite",
    "TempKeyWrite",
    "as_seconds",
    "build_record",
    "content_parts",
    "failed_results",
    "function_calls",
    "function_responses",
    "is_error",
    "is_failed_result",
    "is_final_response",
    "mark_removed",
    "partial_answers",
    "recognize_kind",
    "shorten",
    "shorten_id",
    "summarize",
    "without_internals",
]
