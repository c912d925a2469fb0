"""Comparison of two sessions: common events, later turns, and differing states."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from sessions_app.branches import session_comparison as comparing
from sessions_app.branches.fork import NewFork, fork
from sessions_app.store.models import AgentSession, Event
from sessions_app.store.sessions import lineage, writes
from tests.sessions.branches.rows import tell_three_invocations
from tests.timeline.story import Story

pytestmark = pytest.mark.usefixtures("store")


class Branch(Story):
    """A fork that the story goes on in."""

    def __init__(self, session: AgentSession) -> None:
        self.key = session.key
        self.pk, self.told, self.invocation = session.pk, 1000, "f1"


def branch(story: Story, seq: int) -> Branch:
    return Branch(fork(story.pk, NewFork(seq=seq)))


def turn_seqs(page: comparing.TurnPage) -> list[tuple[list[int], list[int]]]:
    def seqs(group) -> list[int]:
        return [item.event.seq for item in group.items] if group else []

    return [(seqs(turn.left), seqs(turn.right)) for turn in page.turns]


def turns(left: Story, right: Story) -> comparing.TurnPage:
    common = lineage.count_common_events(left.session, right.session)
    return comparing.read_turns(left.session, right.session, common, common)


def test_fork_shares_copied_events_with_its_original():
    story = tell_three_invocations()
    other = branch(story, 5)
    assert lineage.count_common_events(story.session, other.session) == 5
    assert lineage.count_common_events(other.session, story.session) == 5


def test_two_forks_share_their_common_events():
    story = tell_three_invocations()
    short, long = branch(story, 2), branch(story, 6)
    short.asks("else")
    assert lineage.count_common_events(short.session, long.session) == 2
    assert lineage.count_common_events(long.session, short.session) == 2


def test_a_session_without_another_event_is_shared_whole():
    story = tell_three_invocations()
    other = branch(story, 8)
    assert lineage.count_common_events(story.session, other.session) == 8
    assert turns(story, other).turns == []
    assert lineage.count_common_events(story.session, story.session) == 8


def test_unrelated_sessions_share_no_events_unless_ids_are_equal():
    story, stranger = tell_three_invocations(), Story("stranger")
    stranger.told = 50
    stranger.asks("hi")
    assert lineage.count_common_events(story.session, stranger.session) == 0
    twin = Story("twin")
    twin.asks("one")
    twin.says("1")
    twin.told = 77
    twin.says("else")
    assert lineage.count_common_events(story.session, twin.session) == 2


def test_turns_are_aligned_side_by_side():
    story = tell_three_invocations()
    other = branch(story, 2)
    other.asks("other two")
    other.says("2b")
    assert turn_seqs(turns(story, other)) == [([3, 4, 5, 6], [3, 4]), ([7, 8], [])]


def test_rest_of_a_turn_is_alone_if_the_other_side_starts_a_new_one():
    story = tell_three_invocations()
    other = branch(story, 4)
    other.asks("other")
    assert turn_seqs(turns(story, other)) == [([5, 6], []), ([7, 8], [5])]


def test_turns_with_equal_text_are_side_by_side():
    left, right = Story("left"), Story("right")
    for story, messages in (
        (left, ["Hi", "Pack for Oslo?"]),
        (right, ["Hi", "In Rome?", "Pack for Oslo?", "Bye"]),
    ):
        for number, message in enumerate(messages):
            story.invocation = f"i{number}"
            story.asks(message)
    assert turn_seqs(comparing.read_turns(left.session, right.session, 0, 0)) == [
        ([1], [1]),
        ([], [2]),
        ([2], [3]),
        ([], [4]),
    ]


def test_pages_are_bounded_and_continue():
    story = Story()
    story.asks("start")
    other = branch(story, 1)
    for number in range(100):
        story.invocation, other.invocation = f"a{number}", f"b{number}"
        story.asks("x")
        story.says("y")
        other.asks("x")
    seqs, pages = [], 0
    left_after = right_after = lineage.count_common_events(story.session, other.session)
    while True:
        page = comparing.read_turns(story.session, other.session, left_after, right_after)
        seqs += turn_seqs(page)
        pages += 1
        left_after, right_after = page.left.next, page.right.next
        if not page.more:
            break
    assert pages > 2
    assert seqs == [([2 * n + 2, 2 * n + 3], [n + 2]) for n in range(100)]


def test_turn_longer_than_a_page_continues_without_shifting_other_side():
    story = Story()
    story.asks("start")
    other = branch(story, 1)
    story.invocation = "long"
    for _ in range(comparing.PAGE + 10):
        story.says("x")
    story.invocation = "last"
    story.says("end")
    other.says("short")
    other.invocation = "f2"
    other.says("second")
    first = comparing.read_turns(story.session, other.session, 1, 1)
    assert [(len(left), right) for left, right in turn_seqs(first)] == [(comparing.PAGE, [2])]
    second = comparing.read_turns(story.session, other.session, first.left.next, first.right.next)
    assert [(len(left), right) for left, right in turn_seqs(second)] == [(10, []), (1, [3])]
    assert not second.more


def test_states_differ_by_key_and_equal_keys_are_counted():
    story = tell_three_invocations()
    other = branch(story, 2)
    writes.edit_state(other.key, {"b": "else", "mine": None})
    comparison = comparing.state_difference(story.session, other.session)
    values_by_key = {p.name: (p.left and p.left.public, p.right and p.right.public) for p in comparison.keys}
    assert values_by_key == {
        "b": ("2", '"else"'),
        "c": ("9", None),
        "seed": ("2", "1"),
        "mine": (None, "null"),
    }
    assert comparison.same == 4


def test_states_can_be_compared_at_any_two_events():
    story = tell_three_invocations()
    other = branch(story, 5)
    at = Event.objects.get(session_id=other.pk, seq=2)
    assert comparing.state_difference(story.session, other.session, story.event(2), at).keys == []
    comparison = comparing.state_difference(story.session, other.session, story.event(5), at)
    assert [pair.name for pair in comparison.keys] == ["b", "c", "user:tier", "app:news"]


def test_a_credential_that_differs_is_named_and_not_shown():
    left, right = (
        Story(name, {"cred": {"authType": "apiKey", "apiKey": name}}) for name in ("left", "right")
    )
    [pair] = comparing.state_difference(left.session, right.session).keys
    assert pair.left is not None
    assert pair.right is not None
    assert pair.left.public == pair.right.public == '{"authType":"apiKey"}'


def test_the_number_of_queries_does_not_depend_on_the_length():
    def queries(length: int) -> int:
        story = Story(f"s{length}")
        for number in range(length):
            story.asks(f"{number}")
        other = branch(story, length)
        for number in range(length):
            story.says("x", delta={f"k{number}": 1})
            other.says("x", delta={f"k{number}": 2, f"user:k{number}": 1})
        with CaptureQueriesContext(connection) as captured:
            turns(story, other)
            comparing.state_difference(story.session, other.session)
        return len(captured)

    assert queries(40) == queries(4) <= 43
