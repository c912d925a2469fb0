"""Lanes: one for each agent of an invocation."""

from __future__ import annotations

from sessions_app.timeline import event_window as windows
from sessions_app.timeline.items import TimelineItem
from sessions_app.timeline.lanes import DOT, MAX_LANES, Lanes
from sessions_app.timeline.timeline_reader import read_timeline
from tests.timeline.session_page import session_path
from tests.timeline.story import Story


def drawn(story: Story, first: int = 1) -> dict[int, Lanes | None]:
    session = story.session
    items: list[TimelineItem] = [
        item
        for group in read_timeline(session, windows.after(session, first - 1)).groups
        for item in group.items
    ]
    return {item.event.seq: item.lanes for item in items}


def numbers(lanes: Lanes | None) -> list[int]:
    """Return the lanes with a line beside an event."""
    assert lanes
    return [line.number for line in lanes.lines]


def test_single_agent_needs_no_lane(story):
    story.asks("go")
    story.says("one")
    story.says("two")
    assert set(drawn(story).values()) == {None}


def test_lanes_are_in_order_of_first_appearance(story):
    story.asks("go")
    story.says("a", author="planner")
    story.says("b", author="writer")
    story.says("c", author="planner")
    lanes = drawn(story)
    assert {seq: lane.number for seq, lane in lanes.items() if lane} == {1: 0, 2: 1, 3: 2, 4: 1}
    assert {lane.count for lane in lanes.values() if lane} == {2}


def test_a_line_runs_from_the_first_event_of_an_agent_to_its_last(story):
    story.says("a", author="left")
    story.says("b", author="right")
    story.says("c", author="left")
    story.says("d", author="right")
    lanes = drawn(story)
    assert [numbers(lanes[seq]) for seq in (1, 2, 3, 4)] == [[1], [1, 2], [2, 1], [2]]
    own = {seq: lane.lines[-1] for seq, lane in lanes.items() if lane}
    assert [(line.from_dot, line.until_dot) for line in own.values()] == [
        (True, False),
        (True, False),
        (False, True),
        (False, True),
    ]
    assert (own[1].y1, own[1].y2, own[4].y1, own[4].y2) == (str(DOT), "100%", "0", str(DOT))


def test_agents_sharing_the_last_lane_are_counted(story, get):
    for number in range(MAX_LANES):
        story.says("hi", author=f"agent{number}")
    assert "in one lane" not in get(session_path(story)).one("ol", id="events").text
    for number in range(3):
        story.says("hi", author=f"late{number}")
    assert f"{MAX_LANES + 3} agents, 4 in one lane" in get(session_path(story)).one("ol", id="events").text


def test_window_uses_the_lanes_of_the_whole_invocation(story):
    for author in ("one", "two", "three", "one"):
        story.says("x", author=author)
    assert drawn(story)[4].number == drawn(story, 4)[4].number == 1
    assert drawn(story, 3)[3].number == 3


def test_transfer_is_an_arrow_and_succession_is_not(story):
    story.says("a", author="root")
    story.says("b", author="first")
    story.add({"text": "c"}, author="first", actions={"transferToAgent": "root"})
    story.says("d", author="root")
    lanes = drawn(story)
    assert [bool(lanes[seq].link) for seq in (1, 2, 3, 4)] == [False, True, False, True]
    assert [lanes[seq].is_transfer for seq in (2, 4)] == [False, True]
    assert lanes[4].arrow


def test_an_arrow_comes_also_from_before_the_window(story):
    story.add({"text": "c"}, author="first", actions={"transferToAgent": "root"})
    story.says("d", author="root")
    assert drawn(story, 2)[2].is_transfer


def test_arrows_do_not_cross_invocations(story):
    story.says("a", author="left")
    story.says("b", author="right")
    story.invocation = "i2"
    story.says("c", author="left")
    story.says("d", author="right")
    lanes = drawn(story)
    assert [bool(lanes[seq].link) for seq in (1, 2, 3, 4)] == [False, True, False, True]


def test_lanes_pass_beside_a_result_far_from_its_call(story):
    story.add({"functionCall": {"id": "c1", "name": "f", "args": {}}}, author="left")
    story.says("meanwhile", author="right")
    story.answers("f", "c1", author="left")
    story.says("later", author="right")
    assert numbers(drawn(story)[3]) == [2, 1]


def test_many_agents_share_the_last_lane(story):
    for number in range(MAX_LANES + 4):
        story.says("x", author=f"agent {number}")
    lanes = drawn(story)
    assert lanes[MAX_LANES + 4].number == lanes[MAX_LANES + 4].count == MAX_LANES
    assert lanes[1].width == lanes[MAX_LANES + 4].width
