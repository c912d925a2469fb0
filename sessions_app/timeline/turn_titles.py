"""Titles of turns: the number of the user's message in the session, and its first words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from django.db.models import QuerySet, Value

from sessions_app.store.events.conditions import IS_USER_MESSAGE, is_user_message
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.short_texts import truncate
from sessions_app.timeline.groups import InvocationGroup
from sessions_app.timeline.items import TimelineItem

TITLE_LENGTH = 100
"""Characters of a message in a title."""

MAX_NUMBERED = 10_000
"""User messages that are numbered; turns after them have a title without a number."""


def message_rows(session: AgentSession, last_seq: int) -> QuerySet[Event, tuple[int, str]]:
    """Return the read of the seqs of the user's messages up to an event, in the first column."""
    messages = Event.objects.filter(IS_USER_MESSAGE, session=session, seq__lte=last_seq).order_by("seq")
    return messages.values_list("seq", Value(""))[: MAX_NUMBERED + 1]


def name_turns(
    groups: Sequence[InvocationGroup], events: Mapping[int, Event], message_seqs: Sequence[int]
) -> None:
    """Set the titles of groups.

    Args:
        groups: the groups.
        events: their first events, by seq.
        message_seqs: the seqs of the user's messages up to the last event, sorted.
    """
    for group in groups:
        seq = _first_seq(group)
        event = events.get(seq)
        if event is None or not is_user_message(event):
            group.title = _other_title(group)
            continue
        number = bisect_right(message_seqs, seq)
        words = _first_words(event)
        group.title = f"Turn {number} · {words}" if number <= MAX_NUMBERED else words


def _first_seq(group: InvocationGroup) -> int:
    return group.totals.first_seq if group.totals else group.items[0].event.seq


def _first_words(event: Event) -> str:
    summary = event.decoded_summary
    words = " ".join(str(summary["text"] or summary["heard"] or "").split())
    return truncate(words, TITLE_LENGTH) or ("files" if summary["media"] else "no text")


def _other_title(group: InvocationGroup) -> str:
    """Return a title for an invocation that no message of the user began."""
    first = group.items[0]
    signals = first.summary["signals"] or {}
    if "rewindBeforeInvocationId" in signals:
        return "Rewind"
    if "compaction" in signals:
        return "Summary"
    if first.is_user and first.summary.answer_ids:
        return "Answer"
    return "State change" if _only_changes_state(group.items) else f"By {first.event.author or 'no author'}"


def _only_changes_state(items: Sequence[TimelineItem]) -> bool:
    changes_state = any(item.changes or item.summary["delta"] for item in items)
    return changes_state and all(item.is_quiet for item in items)
