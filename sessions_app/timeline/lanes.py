"""Lanes: one per agent of an invocation, with a line from its first event to its last. Pure.

Lanes are numbered by first appearance in the whole invocation, not only in the window, so every window draws an agent
at the same position. Branches are not used: after a parallel agent ADK keeps the branch of its last child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sessions_app.store.models import Event

MAX_LANES = 8
"""Maximum number of lanes; further agents share the last one."""

STEP = 7
"""Pixels between two lanes."""

DOT = 14
"""Pixels from the top of an event to the dot in its lane."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """An agent of an invocation, with the seqs of its first and last event."""

    author: str
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class LaneLine:
    """Segment of a lane beside an event; `from_dot` and `until_dot`: it starts or ends at the event's dot."""

    number: int
    x: float
    from_dot: bool = False
    until_dot: bool = False

    @property
    def y1(self) -> str:
        """Top of the segment."""
        return str(DOT) if self.from_dot else "0"

    @property
    def y2(self) -> str:
        """Bottom of the segment."""
        return str(DOT) if self.until_dot else "100%"


@dataclass(frozen=True, slots=True)
class Lanes:
    """Lanes drawn beside an event.

    Attributes:
        number: the lane of its author, from 1; 0 for the user.
        count: number of lanes of the invocation.
        lines: the author's segment and those of agents with events before and after.
        link: SVG path from the lane of the previous agent; empty if the agent does not change.
        is_transfer: the previous agent transferred to this one.
    """

    number: int
    count: int
    lines: list[LaneLine]
    link: str = ""
    is_transfer: bool = False

    @property
    def x(self) -> float:
        """Horizontal position of the dot."""
        return _lane_x(self.number)

    @property
    def y(self) -> int:
        """Vertical position of the dot."""
        return DOT

    @property
    def width(self) -> int:
        """Width of all lanes in pixels."""
        return self.count * STEP

    @property
    def arrow(self) -> str:
        """Arrow head of a transfer, above the dot, as points of an SVG polygon."""
        x, tip = _lane_x(self.number), DOT - 4
        return f"{x - 3},{tip - 5} {x + 3},{tip - 5} {x},{tip}"


def lanes_at(
    event: Event, speakers: Sequence[Speaker], before: Event | None = None, *, transfers: bool
) -> Lanes | None:
    """Return the lanes beside an event; None if the invocation has a single agent.

    Args:
        event: the event.
        speakers: the agents of the invocation, by first appearance.
        before: the previous event, of any invocation.
        transfers: the previous event transfers to another agent.
    """
    if len(speakers) < 2:
        return None
    numbers = {speaker.author: min(n, MAX_LANES) for n, speaker in enumerate(speakers, start=1)}
    number = numbers.get(event.author, 0)
    alive = [candidate for candidate in speakers if candidate.first_seq < event.seq < candidate.last_seq]
    passing = {numbers[candidate.author] for candidate in alive} - {number}
    lines = [LaneLine(other, _lane_x(other)) for other in sorted(passing)]
    own_speaker = next((candidate for candidate in speakers if candidate.author == event.author), None)
    if own_speaker:
        lines.append(_own_line(event, own_speaker, number, speakers, is_alone=not passing))
    came_from = _previous_lane(event, before, numbers)
    is_new = own_speaker is not None and event.seq == own_speaker.first_seq
    if not came_from or came_from == number or not (is_new or transfers):
        return Lanes(number, min(len(speakers), MAX_LANES), lines)
    link = _curve_path(_lane_x(came_from), _lane_x(number))
    return Lanes(number, min(len(speakers), MAX_LANES), lines, link, transfers)


def _own_line(
    event: Event, own_speaker: Speaker, number: int, speakers: Sequence[Speaker], *, is_alone: bool
) -> LaneLine:
    """Return the author's segment. At the agent's last event it continues if no other lane does."""
    goes_on = max(speaker.last_seq for speaker in speakers) > event.seq
    is_last = event.seq == own_speaker.last_seq and not (goes_on and is_alone)
    return LaneLine(number, _lane_x(number), from_dot=event.seq == own_speaker.first_seq, until_dot=is_last)


def _previous_lane(event: Event, before: Event | None, numbers: dict[str, int]) -> int:
    if before is None or before.invocation_id != event.invocation_id:
        return 0
    return numbers.get(before.author, 0)


def _curve_path(start: float, end: float) -> str:
    bend = DOT / 2
    return f"M{start} 0C{start} {bend} {end} {bend - 2} {end} {DOT - 4}"


def _lane_x(number: int) -> float:
    return (number - 0.5) * STEP
