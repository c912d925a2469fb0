"""Titles of turns: the number of the user's message in the session, and its first words."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence

from sessions_app.store.events.conditions import IS_USER_MESSAGE, is_user_message
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.short_texts import truncate
from sessions_app.timeline.groups import InvocationGroup
from sessions_app.timeline.items import TimelineItem

TITLE_LENGTH = 100
"""Characters of a message in a title."""

MAX_NUMBERED = 10_000
"""User messages that are numbered; turns after them have a title without a number."""


def name_turns(session: AgentSession, groups: Sequence[InvocationGroup], events: Mapping[int, Event]) -> None:
    """Set the titles of groups. `events` has their first events, by seq. One query."""
    first_seqs = [_first_seq(group) for group in groups]
    messages = Event.objects.filter(IS_USER_MESSAGE, session=session, seq__lte=max(first_seqs))
    seqs = list(messages.order_by("seq").values_list("seq", flat=True)[: MAX_NUMBERED + 1])
    for group, seq in zip(groups, first_seqs, strict=True):
        event = events.get(seq)
        if event is None or not is_user_message(event):
            group.title = _other_title(group)
            continue
        number = bisect_right(seqs, seq)
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
