"""Compare the contents of a model request with the events before it: what was kept, quoted and dropped. Pure.

ADK makes the contents of events, and the request does not say of which. An event is found by its text, calls and
results; an event that no content holds was dropped.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sessions_app.store import scopes
from sessions_app.store.events.content import content_parts
from sessions_app.store.events.summary import summarize
from sessions_app.store.events.superseded_events import SupersededRanges
from sessions_app.store.models import Event

QUOTE_START = "For context:"
"""Begin of the content in which ADK quotes an event of another agent."""

_OTHER_AUTHOR = re.compile(r"\[([^\]\n]+)\] ")

CONTENT_KEYS = (
    "text",
    "thought",
    "calls",
    "results",
    "media",
    "code",
    "others",
    "heard",
    "voiced",
    "compaction",
)
"""Keys of a summary that stand for content; an event without any gives nothing to a model."""

ADK_QUESTIONS = frozenset({"adk_request_credential", "adk_request_confirmation", "adk_request_input"})
"""Calls by which ADK asks the user; models are not given them."""

MAX_CANDIDATES = 8
"""Events of another agent that are compared with a content that quotes one."""


@dataclass(frozen=True, slots=True)
class KeptContent:
    """A content of a request, and the events that it was made of; none: no event holds it.

    Attributes:
        number: its position in the request, from 1.
        content: its JSON; None: not stored any more.
        summary: its summary, as that of an event.
        is_quoted: it is a message of the user in which ADK quotes an event of another agent.
    """

    number: int
    content: Any
    summary: dict[str, Any]
    events: list[Event]
    is_quoted: bool = False

    @property
    def page_summary(self) -> Mapping[str, Any]:
        """The summary for pages: of a quoted event that of what its agent wrote."""
        return self.events[0].decoded_summary if self.is_quoted and self.events else self.summary

    @property
    def is_summary(self) -> bool:
        """Tell whether it is the summary of a compaction."""
        return any(event.decoded_summary["compaction"] for event in self.events)


@dataclass(frozen=True, slots=True)
class DroppedRange:
    """Consecutive events that the model was not given, for one reason.

    Attributes:
        reason: rewound, compacted, branch, question, replaced, no_history, or unknown.
        by: seq of the rewind or compaction; 0: none.
    """

    reason: str
    by: int
    events: list[Event] = field(default_factory=list)

    @property
    def first(self) -> Event:
        """The first event."""
        return self.events[0]

    @property
    def last(self) -> Event:
        """The last event."""
        return self.events[-1]


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """The contents of a request, and the events before it that it does not have, both in order.

    Attributes:
        unread_contents: number of the first contents that are not compared.
        unread_events: number of the first events that are not compared.
    """

    kept: list[KeptContent]
    dropped: list[DroppedRange]
    unread_contents: int = 0
    unread_events: int = 0

    @property
    def dropped_count(self) -> int:
        """Number of dropped events."""
        return sum(len(dropped.events) for dropped in self.dropped)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The agent, branch and rules by which ADK chooses the events of a request.

    Attributes:
        agent: name of the agent that sent it.
        branch: its branch.
        turn_start: seq of the first event of its invocation.
        has_no_history: the agent is declared with `include_contents="none"`.
        ranges: the rewinds and compactions before the request.
        is_partial: earlier contents of the request were not read.
    """

    agent: str
    branch: str
    turn_start: int
    has_no_history: bool
    ranges: SupersededRanges
    is_partial: bool = False


def compare_history(
    contents: Sequence[tuple[int, Any]], events: Sequence[Event], context: RequestContext
) -> RequestHistory:
    """Return which events the contents of a request were made of, and which events it does not have.

    Args:
        contents: position and JSON of each content, in order; None as JSON: not stored any more.
        events: the events before the request, in order.
        context: the agent, branch and rules of the request.
    """
    finder = _EventFinder(events, context)
    kept_contents = [finder.find_events(number, content) for number, content in reversed(contents)][::-1]
    kept_seqs = {event.seq for content in kept_contents for event in content.events}
    first_kept = min(kept_seqs, default=0)
    first = first_kept if context.is_partial else 0
    # without history, a message of another agent begins the turn, too
    context = replace(context, turn_start=max(context.turn_start, first_kept))
    replaced_seqs = _find_replaced(events)
    dropped: list[DroppedRange] = []
    for event in events:
        if event.seq in kept_seqs:
            dropped.append(DroppedRange("", 0))  # ends the range before
        elif event.seq > first and _has_content(event):
            reason, by = _dropped_reason(event, context, replaced_seqs)
            if not dropped or (dropped[-1].reason, dropped[-1].by) != (reason, by):
                dropped.append(DroppedRange(reason, by))
            dropped[-1].events.append(event)
    return RequestHistory(kept_contents, [entry for entry in dropped if entry.events])


class _EventFinder:
    """Finds the events of contents, the last content first. An event is found once.

    Superseded events come last: ADK puts a compacted call back if its result came later.
    """

    def __init__(self, events: Sequence[Event], context: RequestContext) -> None:
        self.by_content: dict[str, list[Event]] = defaultdict(list)
        self.by_result: dict[str, list[Event]] = defaultdict(list)
        self.by_author: dict[str, list[Event]] = defaultdict(list)
        superseded = [event for event in events if context.ranges.supersedes(event)]
        counted = [event for event in events if not context.ranges.supersedes(event)]
        for event in (*superseded, *counted):
            summary = event.decoded_summary
            self.by_content[_content_key(_sent_summary(summary))].append(event)
            for result in summary["results"] or ():
                self.by_result[_result_key(result)].append(event)
            self.by_author[event.author].append(event)

    def find_events(self, number: int, content: Any) -> KeptContent:
        """Return a content with its events."""
        summary = summarize({"content": content}) if isinstance(content, dict) else {}
        if results := summary.get("results"):
            events = [_pop_last(self.by_result[_result_key(result)]) for result in results]
            by_seq = {event.seq: event for event in events if event}
            return KeptContent(number, content, summary, [by_seq[seq] for seq in sorted(by_seq)])
        if summary.get("text", "").startswith(QUOTE_START):
            return KeptContent(number, content, summary, self._find_quoted(content), is_quoted=True)
        event = _pop_last(self.by_content[_content_key(summary)]) if summary else None
        return KeptContent(number, content, summary, [event] if event else [])

    def _find_quoted(self, content: Mapping[str, Any]) -> list[Event]:
        texts = [str(part.get("text") or "") for part in content_parts({"content": content})]
        author = next(filter(None, map(_OTHER_AUTHOR.match, texts)), None)
        candidates = self.by_author[author.group(1)] if author else []
        text = "\n".join(texts[1:])
        for event in candidates[: -MAX_CANDIDATES - 1 : -1]:
            if _is_quoted_in(event, text):
                candidates.remove(event)
                return [event]
        return []


def _sent_summary(summary: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the summary of what requests have of an event: of a compaction its text."""
    compaction = summary.get("compaction")
    return {"text": compaction["text"]} if compaction else summary


def _content_key(summary: Mapping[str, Any]) -> str:
    """Return what a content and its event have in common: all but ids and thoughts."""
    calls = [(call["name"], call["args"]) for call in summary.get("calls") or ()]
    media = [(item["mime"], item.get("size"), item.get("uri")) for item in summary.get("media") or ()]
    spoken = summary.get("text") or summary.get("heard") or summary.get("voiced") or ""
    return scopes.dumps([spoken, calls, media, summary.get("code") or [], summary.get("others") or []])


def _result_key(result: Mapping[str, Any]) -> str:
    return scopes.dumps([result["name"], result["result"]])


def _pop_last(events: list[Event]) -> Event | None:
    return events.pop() if events else None


def _is_quoted_in(event: Event, text: str) -> bool:
    """Tell whether a text has what an event of another agent says, and the names of its tools."""
    summary = event.decoded_summary
    names = [entry["name"] for kind in ("calls", "results") for entry in summary[kind] or ()]
    message = (summary["text"] or "").strip()
    return bool(message or names) and message in text and all(f"`{name}`" in text for name in names)


def _has_content(event: Event) -> bool:
    return any(event.decoded_summary[key] for key in CONTENT_KEYS if key != "thought")


def _find_replaced(events: Sequence[Event]) -> set[int]:
    """Return the seq of each event whose results another event gave again, for the same call."""
    last_answers = {call_id: event.seq for event in events for call_id in event.decoded_summary.answer_ids}
    return {
        event.seq
        for event in events
        for call_id in event.decoded_summary.answer_ids
        if last_answers[call_id] != event.seq
    }


def _dropped_reason(event: Event, context: RequestContext, replaced_seqs: set[int]) -> tuple[str, int]:
    """Return why a request does not have an event, and the event that decided it."""
    if by := context.ranges.rewound_by(event):
        return "rewound", by
    if by := context.ranges.compacted_by(event):
        return "compacted", by
    if event.branch and context.branch and not f"{context.branch}.".startswith(f"{event.branch}."):
        return "branch", 0
    if any(name in ADK_QUESTIONS for name in _tool_names(event)):
        return "question", 0
    if event.seq in replaced_seqs:
        return "replaced", 0
    if context.has_no_history and event.seq < context.turn_start:
        return "no_history", 0
    return "unknown", 0


def _tool_names(event: Event) -> Iterator[str]:
    for kind in ("calls", "results"):
        yield from (entry["name"] for entry in event.decoded_summary[kind] or ())
