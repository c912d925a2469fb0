"""Two events side by side."""

from __future__ import annotations

import pytest
from django.urls import reverse

from sessions_app.errors import BadInput, EventMissing
from sessions_app.timeline.event_comparison import ComparedRow, compare_events, find_similar_before
from tests.invisible_characters import EVIL, assert_shown
from tests.sessions.full_event import full_event
from tests.timeline.story import Story


def page_of(story: Story, query: str = "") -> str:
    return reverse("event-compare", kwargs={"pk": story.pk}) + query


def rows(story: Story, left: int, right: int) -> dict[str, ComparedRow]:
    return {row.name: row for row in compare_events(story.session, left, right).rows}


def test_fields_are_side_by_side_with_numeric_differences(story):
    story.says("a", usageMetadata={"promptTokenCount": 10}, modelVersion="m1")
    story.calls("look", "c1", city="Rome")
    story.says("a", usageMetadata={"promptTokenCount": 12}, modelVersion="m1")
    found = rows(story, 1, 3)
    assert (found["usage · promptTokenCount"].by, found["usage · promptTokenCount"].differs) == ("+2", True)
    assert not found["model"].differs
    assert not found["text"].differs
    other = rows(story, 1, 2)
    assert (other["text"].left, other["text"].right) == ("a", None)
    assert (other["call · name"].left, other["call · name"].right) == (None, "look")


def test_texts_are_compared_word_by_word(story):
    story.says("It is sunny in Paris today, take a hat.")
    story.says("It is rainy in Paris today, take a hat.")
    row = rows(story, 1, 2)["text"]
    assert [piece.text for piece in row.left_pieces if piece.differs] == ["sunny"]
    assert [piece.text for piece in row.right_pieces if piece.differs] == ["rainy"]


def test_long_json_is_compared_line_by_line(story):
    story.answers("look", "c1", response={"rows": list(range(60))})
    story.answers("look", "c2", response={"rows": [*range(59), 99]})
    row = rows(story, 1, 2)["result · response"]
    assert {(line.mark, line.text.strip()) for line in row.lines if line.mark in ("added", "removed")} == {
        ("removed", "59"),
        ("added", "99"),
    }


def test_delta_and_artifacts_are_compared_key_by_key(story):
    story.says("x", delta={"a": 1, "b": 2}, actions={"artifactDelta": {"f.txt": 0}})
    story.says("x", delta={"a": 1, "c": 3}, actions={"artifactDelta": {"f.txt": 1}})
    found = rows(story, 1, 2)
    assert not found["state delta · a"].differs
    assert (found["state delta · b"].left, found["state delta · b"].right) == ("2", None)
    assert found["artifact · f.txt"].by == "+1"


def test_every_field_of_an_event_is_compared(story):
    body = full_event().model_dump(exclude_none=True, by_alias=True, mode="json")
    beside = ("id", "invocationId", "author", "timestamp", "branch", "content", "actions")
    story.add(actions=body["actions"], **{name: value for name, value in body.items() if name not in beside})
    story.says("x")
    names = " ".join(rows(story, 1, 2))
    for name in ("citationMetadata", "groundingMetadata", "avgLogprobs", "output", "goAway", "cacheMetadata"):
        assert name in names
    assert "action · agentState" in names


def test_state_between_events_is_the_same_in_either_order(story):
    story.says("x", delta={"n": 1})
    story.says("y", delta={"n": 2, "user:tier": "gold"})
    for left, right in ((1, 2), (2, 1)):
        state = compare_events(story.session, left, right).state
        assert (state.first, state.last) == (1, 2)
        assert [(entry.name, entry.old, entry.new) for entry in state.entries] == [
            ("n", "1", "2"),
            ("user:tier", None, '"gold"'),
        ]


def test_previous_event_has_same_kind_and_preferably_author(story):
    story.says("a", author="cook")
    story.says("b", author="waiter")
    story.asks("c")
    story.says("d", author="cook")
    story.calls("look", "c1")
    session = story.session
    assert [find_similar_before(session, seq) for seq in (4, 3, 2, 5, 1)] == [1, 2, 1, 4, 0]


def test_single_event_links_to_the_previous_one(story, client):
    story.says("a")
    story.asks("b")
    story.says("c")
    assert client.get(page_of(story, "?right=3")).headers["Location"] == page_of(story, "?left=1&right=3")
    assert client.get(page_of(story)).headers["Location"] == page_of(story, "?left=1&right=3")


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("?left=1&right=1", 400, "cannot be compared with itself"),
        ("?left=1&right=9", 404, "no event 9"),
        ("?right=1", 404, "no event to compare event 1 with"),
        ("?right=9", 404, "no event 9"),
        ("?left=x&right=1", 400, "left"),
        ("?left=1", 404, "no event to compare"),
    ],
)
def test_invalid_comparison_is_refused_with_hint(story, client, query, status, message):
    story.says("a")
    answer = client.get(page_of(story, query))
    assert answer.status_code == status
    assert message in answer.content.decode()


def test_refusals_name_the_reason(story):
    story.says("a")
    with pytest.raises(BadInput, match="itself"):
        compare_events(story.session, 1, 1)
    with pytest.raises(EventMissing, match="no event 2"):
        compare_events(story.session, 1, 2)


def test_page_shows_both_events_and_equal_fields(story, get, django_assert_max_num_queries):
    for number in range(20):
        story.says(f"a rather long text, number {number}, of words", delta={"n": number})
    with django_assert_max_num_queries(20):
        page = get(page_of(story, "?left=3&right=20"))
    assert "Event 20 came 17.0 s and 17 events after event 3." in page.one("div", css="events-compared").text
    assert [link.attrs["href"].partition("?")[2] for link in page.one("thead").all("a")] == [
        "seq=3",
        "seq=20",
    ]
    assert "fields are the same" in page.one("details", css="same-fields").text
    assert [mark.text for mark in page.one("table").all("ins")] == ["19"]


def test_nothing_hides_on_the_page(story, client):
    for extra in ("", "more"):
        story.says(EVIL * 20 + extra, author=EVIL, branch=EVIL, delta={EVIL: EVIL + extra}, **{EVIL: EVIL})
    assert_shown(client.get(page_of(story, "?left=1&right=2")).content.decode(), "compare")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?left=1&right=9", "?left=1&right=3"),
        ("?left=9&right=2", "?left=3&right=2"),
        ("?left=8&right=9", "?right=3"),
        ("?right=9", "?right=3"),
    ],
)
def test_missing_event_offers_the_nearest_to_compare(story, get, query, expected):
    for text in ("one", "two", "three"):
        story.says(text)
    page = get(page_of(story, query), status=404)
    assert page.one("h1").text == "This session has no event 9."
    link = page.one("a", "button-primary")
    assert (link.attrs["href"], link.text.startswith("Compare event ")) == (expected, True)
    assert page.all("a", href="/sessions/weather/ann/s1/")
