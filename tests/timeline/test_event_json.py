"""JSON of an event on the page: the tree, its pieces, and copying."""

from __future__ import annotations

import json

import pytest
from django.urls import reverse

from sessions_app.presentation.visible_text import escape_name
from tests.invisible_characters import EVIL
from tests.pages.html import parse
from tests.timeline.story import Story


def page_of(story: Story, query: str = "") -> str:
    return reverse("session-by-pk", kwargs={"pk": story.pk}) + query


def json_of(story: Story, query: str = "") -> str:
    return reverse("event-json", kwargs={"pk": story.pk, "seq": 1}) + query


def test_tree_is_rendered_only_when_opened(story, get):
    story.says("hello")
    lazy = get(page_of(story, "?seq=1")).one("div", id="raw")
    assert lazy.attrs["hx-get"] == "?tab=raw&seq=1"
    assert not lazy.all("div", css="json")
    page = get(page_of(story, "?seq=1&tab=raw"), target="raw")
    assert 'text"hello"' in page.text


def test_raw_part_without_its_tab_or_an_event_is_empty(story, get):
    story.says("hello")
    for query in ("", "?seq=1", "?seq=1&tab=llm"):
        assert get(page_of(story, query), target="raw").text == ""


def test_everything_can_be_opened(story, get):
    story.calls("look", "c1", deep={"er": {"and": {"deeper": 1}}})
    page = get(page_of(story, "?seq=1&tab=raw&open=all"), target="raw")
    branches = page.all("details")
    assert len(branches) > 3
    assert all("open" in branch.attrs for branch in branches)


def test_piece_below_a_base_keeps_the_base(story, client):
    story.calls("look", "c1", **{"a&b": {"rows": [{"x": "hit"}] * 30}})
    query = "?base=/content/parts/0/functionCall/args/a%26b&pointer=/rows"
    piece = parse(client.get(json_of(story, query)).content)
    inner = piece.all("details")[0].attrs["hx-get"]
    assert inner == json_of(story, "?base=%2Fcontent%2Fparts%2F0%2FfunctionCall%2Fargs%2Fa%26b") + (
        "&pointer=%2Frows%2F0&offset=0"
    )
    assert parse(client.get(inner).content).one("bdi", css="json-string").text == '"hit"'


def test_copied_value_is_exact(story, client):
    story.says(EVIL, custom={"n": 2**60, "t": [EVIL]})

    def copied(pointer: str) -> str:
        answer = client.get(json_of(story), {"pointer": pointer, "form": "text"})
        assert answer.headers["Content-Type"].startswith("text/plain")
        return answer.content.decode()

    assert copied("/content/parts/0/text") == EVIL
    assert copied("/custom/n") == str(2**60)
    assert json.loads(copied("")) == json.loads(story.event(1).data)


def test_tree_shows_invisible_characters(story, get):
    story.says("x", custom={EVIL: EVIL})
    page = get(page_of(story, "?seq=1&tab=raw&open=all"), target="raw")
    assert {leaf.text for leaf in page.all("bdi", css="json-key")} >= {escape_name(EVIL)}
    assert {leaf.text for leaf in page.all("bdi", css="json-string")} >= {f'"{escape_name(EVIL)}"'}


@pytest.mark.parametrize(
    ("query", "status"),
    [("?pointer=/gone", 404), ("?pointer=&base=/content/parts/9", 404), ("?pointer=&form=pdf", 400)],
)
def test_pieces_that_are_not_there_are_refused(story, client, query, status):
    story.says("x")
    assert client.get(json_of(story, query)).status_code == status


def test_an_event_of_megabytes_is_shown_in_bounds(story, get):
    story.calls("look", "c1", rows=[{"id": n, "note": "lorem ipsum " * 8} for n in range(20_000)])
    page = get(page_of(story, "?seq=1&tab=raw"), target="raw")
    assert len(list(page)) < 3_000


def test_a_written_key_leads_to_its_history(story, get):
    story.says("x", delta={"city": "Rome"})
    delta = get(page_of(story, "?seq=1&tab=delta")).one("div", css="tab-delta")
    [change] = story.session.changes.all()
    assert (
        delta.one("a").attrs["href"]
        == f"{reverse('key-history', kwargs={'pk': change.pk})}?session={story.pk}"
    )


def test_megabytes_of_text_come_in_pieces(story, get, client):
    story.says("word " * 400_000)
    part = get(page_of(story, "?seq=1")).one("div", css="part")
    more = part.one("button")
    assert more.text == "1,980,000 more characters"
    piece = parse(client.get(more.attrs["hx-get"]).content)
    assert piece.one("span", css="pre").text == ("word " * 4000).strip()
    assert (
        piece.one("button")
        .attrs["hx-get"]
        .endswith("?form=stretch&pointer=%2Fcontent%2Fparts%2F0%2Ftext&offset=40000")
    )
    last = client.get(json_of(story, "?form=stretch&pointer=/content/parts/0/text&offset=1999990"))
    assert last.content.decode() == '<span class="pre">word word </span>'
