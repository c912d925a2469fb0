"""The inspector of an event."""

from __future__ import annotations

import pytest

from sessions_app.lookup import find_event
from sessions_app.timeline import inspector
from sessions_app.timeline.inspector import Inspection, Partner, inspect_event
from tests.pages.html import Element
from tests.timeline.story import START, Story


def links_to_more(page: Element) -> list[Element]:
    """Return the links to more changed keys; the board's own link to more keys is not among them."""
    links = [link for link in page.all("a") if link.text == "Show more keys"]
    return [link for link in links if "keys=all" not in link.attrs["href"]]


def inspect(story: Story, seq: int) -> Inspection:
    session = story.session
    return inspect_event(session, find_event(session, seq=seq))


def test_a_call_and_its_result_lead_to_each_other(story):
    story.calls("look", "c1")
    story.calls("wait", "c2", waiting=True)
    story.answers("look", "c1")
    story.asks("and?")
    story.answers("wait", "c2", author="user")
    assert inspect(story, 1).partners == [Partner(3, 2.0)]
    assert inspect(story, 3).partners == [Partner(1, 2.0)]
    assert inspect(story, 2).partners == [Partner(5, 3.0)]
    [(part, partner)] = inspect(story, 5).placed_parts
    assert (part.name, partner) == ("wait", Partner(2, 3.0))


def test_unanswered_call_has_no_partner(story):
    story.calls("look", "c1")
    assert inspect(story, 1).partners == [None]


def test_latency_counts_from_the_call_or_the_previous_event(story):
    story.calls("look", "c1")
    story.says("meanwhile")
    story.answers("look", "c1")
    assert (inspect(story, 2).elapsed_seconds, inspect(story, 2).is_answer) == (1.0, False)
    assert (inspect(story, 3).elapsed_seconds, inspect(story, 3).is_answer) == (2.0, True)


def test_long_old_and_new_values_are_diffed_by_line(story):
    story.says("a", delta={"plan": ["walk"] * 40, "n": 1})
    seq = story.says("b", delta={"plan": [*["walk"] * 39, "ride"], "n": 2})
    lines = {change.change.key: change.lines for change in inspect(story, seq).changes}
    assert lines["n"] == []
    assert [line.text.strip() for line in lines["plan"] if line.mark == "added"] == ['"ride"']


def test_values_of_megabytes_show_their_beginning(story):
    story.says("a", delta={"t": "x" * 30_000})
    [change] = inspect(story, story.says("b", delta={"t": "y" * 30_000})).changes
    assert {line.mark for line in change.lines} == {"removed", "added", "skipped"}
    assert len(change.change.new) == inspector.VALUE_LIMIT


def test_an_event_that_wrote_very_many_keys_shows_some_and_counts_all(story, get):
    seq = story.says("a", delta={f"k{number:03}": number for number in range(205)})
    inspection = inspect(story, seq)
    assert [change.change.key for change in inspection.changes] == [f"k{number:03}" for number in range(40)]
    assert inspection.changes_count == 205
    page = get(f"/sessions/id/{story.session.pk}/?seq={seq}")
    assert "165 more keys" in page.text
    assert len(page.one("ul", css="delta-list").all("li")) == 40
    [more] = links_to_more(page)
    page = get(f"/sessions/id/{story.session.pk}/{more.attrs['href']}")
    assert len(page.one("ul", css="delta-list").all("li")) == 200
    assert "5 more keys" in page.text
    assert links_to_more(page) == []


def test_the_page_of_an_event_that_wrote_very_many_keys_stays_light(story, get):
    for number in range(60):
        story.says("a", delta={f"k{number}": number, "user:k": number, "app:k": number})
    for round_ in range(2):
        keys = ((scope, number) for scope in ("", "user:", "app:") for number in range(700))
        seq = story.says("b", delta={f"{scope}m{number}": round_ + number for scope, number in keys})
    page = get(f"/sessions/id/{story.session.pk}/?seq={seq}&tab=delta")
    assert len(page.all()) < 4_000


def test_compaction_names_its_events(story):
    for number in range(4):
        story.says(f"n{number}")
    span = {"startTimestamp": START + 2, "endTimestamp": START + 3, "compactedContent": message("two things")}
    inspection = inspect(story, story.add(actions={"compaction": span}))
    assert inspection.item.covers == (2, 3)
    assert [part.value for part in inspection.compaction.parts] == ["two things"]


@pytest.mark.parametrize("span", [{"startTimestamp": 1.0, "endTimestamp": 2.0}, {}, {"startTimestamp": "x"}])
def test_a_compaction_of_nothing_that_this_session_has_covers_nothing(story, span):
    story.says("a")
    inspection = inspect(story, story.add(actions={"compaction": {**span, "compactedContent": message("s")}}))
    assert inspection.item.covers is None
    assert inspection.compaction.parts[0].value == "s"


def test_a_rewind_names_the_first_event_it_takes_back(story):
    story.says("a")
    story.invocation = "i2"
    story.says("b")
    story.invocation = "i3"
    assert inspect(story, story.add(actions={"rewindBeforeInvocationId": "i2"})).rewinds_to == 2
    assert inspect(story, story.add(actions={"rewindBeforeInvocationId": "gone"})).rewinds_to == 0


def test_saved_artifacts_are_things_the_event_does(story):
    inspection = inspect(story, story.says("x", actions={"artifactDelta": {"a.txt": 3}, "escalate": True}))
    assert inspection.saved_versions == {"a.txt": 3}
    assert inspection.actions_count == 2


def test_the_number_of_queries_does_not_grow_with_the_session(story, django_assert_max_num_queries):
    for number in range(30):
        story.calls("look", f"c{number}")
        story.answers("look", f"c{number}")
    with django_assert_max_num_queries(15):
        inspect(story, 60)


def message(text: str) -> dict[str, object]:
    return {"role": "model", "parts": [{"text": text}]}
