"""What is read out of an event's wire form (camelCase JSON, as ADK's REST sends it). Pure.

`record` turns a wire event into the row that is stored; `summarise` into the bounded JSON a timeline row
shows, so that pages never parse whole events.
"""

from sessions_app.events.content import (
    ABORTED,
    PARTIAL_ANSWER,
    as_seconds,
    failed_results,
    function_calls,
    function_responses,
    is_error,
    is_failed_result,
    is_final_response,
    kind_of,
    partial_answers,
    parts_of,
    without_internals,
)
from sessions_app.events.records import EventRecord, KeyWrite, TempKey, build_record, mark_removed
from sessions_app.events.summary import CANCELLED, LIST_LIMIT, PART_ORDER, TEXT_LIMIT, shorten, summarize

__all__ = [
    "ABORTED",
    "CANCELLED",
    "LIST_LIMIT",
    "PARTIAL_ANSWER",
    "PART_ORDER",
    "TEXT_LIMIT",
    "EventRecord",
    "KeyWrite",
    "TempKey",
    "as_seconds",
    "build_record",
    "failed_results",
    "function_calls",
    "function_responses",
    "is_error",
    "is_failed_result",
    "is_final_response",
    "kind_of",
    "mark_removed",
    "partial_answers",
    "parts_of",
    "shorten",
    "summarize",
    "without_internals",
]
