"""Who speaks when: a lane for each agent of an invocation, with a line from its first event to its last. Pure.

Lanes are numbered by who speaks first, over the whole invocation and not only what a page shows of it, so every window
draws an agent in the same place. Branches are no lanes: after a parallel agent ADK keeps the branch of its last child.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sessions_app.models import Event

MAX_LANES = 8
"""Agents with a lane of their own; the rest share the last one."""

STEP = 7
"""Pixels between two lanes."""

DOT = 14
"""Pixels from the top of an event to the dot in its lane."""


@dataclass(frozen=True, slots=True)
class Speaker:
    """An agent in an invocation: the seqs of the first and the last event of its own."""

    author: str
    first_seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class LaneLine:
    """A piece of a lane beside an event; `until_dot` and `from_dot` end it at the event's own dot."""

    number: int
    x: float
    from_dot: bool = False
    until_dot: bool = False

    @property
    def y1(self) -> str:
        """Where it begins."""
        return str(DOT) if self.from_dot else "0"

    @property
    def y2(self) -> str:
        """Where it ends."""
        return str(DOT) if self.until_dot else "100%"


@dataclass(frozen=True, slots=True)
class Lanes:
    """What is drawn beside an event.

    Attributes:
        number: the lane of its author, from 1; 0: a user's event has none.
        count: the lanes of its invocation.
        lines: its own and those of agents that speak before and after it.
        link: the way from the lane of who spoke before, as an SVG path; empty when nobody hands over.
        is_transfer: that agent transferred to this one.
    """

    number: int
    count: int
    lines: list[LaneLine]
    link: str = ""
    is_transfer: bool = False

    @property
    def x(self) -> float:
        """Where the dot is."""
        return _x(self.number)

    @property
    def y(self) -> int:
        """How far down the dot is."""
        return DOT

    @property
    def width(self) -> int:
        """Width of all lanes in pixels."""
        return self.count * STEP

    @property
    def arrow(self) -> str:
        """The head of a transfer's arrow, as the points of an SVG polygon, just above the dot."""
        x, tip = _x(self.number), DOT - 4
        return f"{x - 3},{tip - 5} {x + 3},{tip - 5} {x},{tip}"


def lanes_at(
    event: Event, speakers: Sequence[Speaker], before: Event | None = None, *, transfers: bool, at: int = 0
) -> Lanes | None:
    """Return what is drawn beside an event, None in an invocation of a single agent.

    Args:
        event: the event.
        speakers: the agents of its invocation, in the order in which they first speak.
        before: the event before it, of any invocation.
        transfers: that event transfers to another agent.
        at: seq of the event beside which this one is shown, when it answers its call.
    """
    if len(speakers) < 2:
        return None
    numbers = {speaker.author: min(n, MAX_LANES) for n, speaker in enumerate(speakers, start=1)}
    number = numbers.get(event.author, 0)
    alive = [each for each in speakers if each.first_seq < (at or event.seq) < each.last_seq]
    passing = {numbers[each.author] for each in alive} - {number}
    lines = [LaneLine(other, _x(other)) for other in sorted(passing)]
    own = next((each for each in speakers if each.author == event.author), None)
    if own:
        lines.append(_own_line(event, own, number, speakers, is_alone=not passing))
    came_from = _previous_lane(event, before, numbers)
    is_new = own is not None and event.seq == own.first_seq
    if not came_from or came_from == number or not (is_new or transfers):
        return Lanes(number, min(len(speakers), MAX_LANES), lines)
    link = _path(_x(came_from), _x(number))
    return Lanes(number, min(len(speakers), MAX_LANES), lines, link, transfers)


def _own_line(
    event: Event, own: Speaker, number: int, speakers: Sequence[Speaker], *, is_alone: bool
) -> LaneLine:
    """Return the author's own line. Its last event is followed by that of whoever goes on."""
    goes_on = max(each.last_seq for each in speakers) > event.seq
    is_last = event.seq == own.last_seq and not (goes_on and is_alone)
    return LaneLine(number, _x(number), from_dot=event.seq == own.first_seq, until_dot=is_last)


def _previous_lane(event: Event, before: Event | None, numbers: dict[str, int]) -> int:
    if before is None or before.invocation_id != event.invocation_id:
        return 0
    return numbers.get(before.author, 0)


def _path(start: float, end: float) -> str:
    bend = DOT / 2
    return f"M{start} 0C{start} {bend} {end} {bend - 2} {end} {DOT - 4}"


def _x(number: int) -> float:
    return (number - 0.5) * STEP
