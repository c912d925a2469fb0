"""Content of events in timeline rows: each type of part, safe and of bounded size."""

from __future__ import annotations

import json
from typing import Any

import pytest

from sessions_app.adk import event_mapping
from sessions_app.presentation import message_html
from sessions_app.store.models import Event
from sessions_app.timeline import event_window as windows
from sessions_app.timeline.items import MAX_LINES
from sessions_app.timeline.timeline_reader import read_timeline
from tests.pages.html import Element, parse
from tests.sessions.full_event import full_event
from tests.timeline.session_page import event, session_path
from tests.timeline.story import START, Story

MAX_ELEMENTS = 1_500
"""Of one event in a timeline, whatever it holds."""


@pytest.fixture
def add_and_show(story: Story, get: Any) -> Any:
    """Adds an event and returns it as the page shows it."""

    def add(*parts: dict[str, Any], **fields: Any) -> Element:
        seq = story.add(*parts, **fields)
        return event(get(session_path(story)), seq)

    return add


def blob(mime: str, name: str = "") -> dict[str, Any]:
    return {"inlineData": {"mimeType": mime, "data": "QUJD", "displayName": name}}


def test_event_with_every_field_shows_each_by_its_type(story, get):
    body = event_mapping.to_wire(full_event())
    header_fields = {
        name: body.pop(name) for name in ("id", "timestamp", "invocationId", "author", "actions", "content")
    }
    seq = story.add(
        *header_fields["content"]["parts"],
        author=header_fields["author"],
        actions=header_fields["actions"],
        **body,
    )
    row = event(get(session_path(story)), seq)
    for text in (
        "heard in",
        "spoken out",
        "thoughthm",
        "hello",
        "a.png",
        "gs://b/f",
        "1+1",
        "429 quota",
        "1 source weather",
        "what was said",
        "report.txt v3",
        "transfer to other",
        "checkpoint",
        "rewind to before i-0",
        "interrupted",
    ):
        assert text in row.text, (text, row.text)


def test_an_image_is_shown_from_an_address_of_its_own(add_and_show, story):
    row = add_and_show({"text": "see"}, blob("image/png", "plot.png"))
    image = row.one("img")
    assert image.attrs["src"] == f"/sessions/id/{story.pk}/events/1/blob/?pointer=%2Fcontent%2Fparts%2F1"
    assert (image.attrs["alt"], image.attrs["loading"]) == ("plot.png", "lazy")
    assert "plot.png image/png · 3 B" in row.text


def test_separated_media_are_named_in_row_and_shown_in_open_event(story, get):
    seq = story.add({"text": "see"}, blob("image/png", "plot.png"))
    row = Event.objects.get(session=story.pk, seq=seq)
    summary = json.loads(row.summary)
    del summary["media"][0]["pointer"]
    Event.objects.filter(pk=row.pk).update(summary=json.dumps(summary, separators=(",", ":")))
    page = get(session_path(story, "?seq=1"))
    assert not event(page, 1).all("img")
    opener = next(link for link in event(page, 1).all("a") if "open the event" in link.text)
    assert opener.attrs["href"] == "?seq=1"
    image = page.one("div", id="inspection").one("img")
    assert image.attrs["src"] == f"/sessions/id/{story.pk}/events/1/blob/?pointer=%2Fcontent%2Fparts%2F1"


@pytest.mark.parametrize("kind", ["audio", "video"])
def test_sound_and_film_can_be_played_and_load_nothing_before(add_and_show, kind):
    player = add_and_show(blob(f"{kind}/mp4")).one(kind)
    assert "controls" in player.attrs
    assert player.attrs["preload"] in {"none", "metadata"}


def test_other_data_is_a_file_to_open(add_and_show):
    row = add_and_show(blob("text/html", "page.html"))
    assert row.one("figure").one("a").text == "page.html"
    assert not row.all("iframe")
    assert not row.all("img")


@pytest.mark.parametrize(
    ("uri", "is_link"),
    [
        ("https://example.org/a.pdf", True),
        ("gs://bucket/a.pdf", False),
        ("javascript:alert(1)", False),
        ("http://[broken", False),
        ("data:text/html,<script>", False),
    ],
)
def test_external_file_is_a_link_only_to_the_web(add_and_show, uri, is_link):
    row = add_and_show({"fileData": {"fileUri": uri, "mimeType": "application/pdf"}})
    links = [a for a in row.one("p", "media").all("a") if a.attrs["href"] == uri]
    assert bool(links) is is_link
    assert uri in row.text
    if links:
        assert {"noopener", "noreferrer"} <= set(links[0].attrs["rel"].split())


def test_source_links_send_no_referrer(add_and_show):
    web = [
        {"web": {"uri": "https://example.org/a", "title": "A <b>"}},
        {"web": {"uri": "javascript:alert(1)", "title": "B"}},
    ]
    row = add_and_show({"text": "x"}, groundingMetadata={"groundingChunks": web, "webSearchQueries": ["tea"]})
    sources = row.one("details", "sources")
    assert "2 sources tea" in sources.text
    [link] = sources.all("a")
    assert (link.attrs["href"], link.text) == ("https://example.org/a", "A <b>")
    assert "noreferrer" in link.attrs["rel"]


def test_code_and_its_result_are_adjacent(add_and_show):
    code = {"executableCode": {"code": "print(1)\nprint(2)", "language": "PYTHON"}}
    row = add_and_show(code, {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n2"}})
    first, second = row.all("pre")
    assert first.attrs["data-language"] == "python"
    assert (first.text, second.text) == ("print(1) print(2)", "1 2")


def test_json_text_is_shown_as_code(add_and_show):
    assert add_and_show({"text": '{"a": [1, 2]}'}).one("pre").text == '{ "a": [ 1, 2 ] }'


@pytest.mark.parametrize("text", ["{not json}", "[link](https://example.org)", "{", ""])
def test_text_that_only_begins_like_json_is_prose(text):
    assert not message_html.render_message(text).startswith("<pre")


def test_a_placeholder_of_an_uploaded_file_leads_to_the_file(add_and_show, story):
    row = add_and_show({"text": '[Uploaded Artifact: "plan & co.pdf"]'}, author="user")
    [link] = row.all("a", "badge")
    assert link.attrs["href"] == f"/sessions/id/{story.pk}/artifacts/?name=plan+%26+co.pdf"
    assert link.text == "plan & co.pdf"


def test_placeholder_of_an_uploaded_image_is_shown_as_thumbnail(add_and_show, story):
    row = add_and_show(
        {"text": 'Look: [Uploaded Artifact: "photo.png"]'},
        author="user",
        actions={"artifactDelta": {"photo.png": 0}},
    )
    image = row.one("img")
    assert image.attrs["src"] == f"/sessions/id/{story.pk}/artifacts/?name=photo.png&version=0&content=1"
    assert "Uploaded Artifact" not in row.text
    assert "Look:" in row.text


def test_uploaded_image_of_unknown_version_is_a_link_without_a_thumbnail(add_and_show):
    row = add_and_show({"text": '[Uploaded Artifact: "photo.png"]'}, author="user")
    assert row.one("a", "badge").text == "photo.png"
    assert not row.all("img")


def test_uploaded_file_leads_to_the_version_that_its_turn_saved(story, get):
    placeholder = '[Uploaded Artifact: "photo.png"]'
    seqs = []
    for version in (0, 1):
        story.invocation = f"turn-{version}"
        seqs.append(story.asks(placeholder))
        story.add(actions={"artifactDelta": {"photo.png": version}})
    story.add(actions={"artifactDelta": {"photo.png": 9}})
    page = get(session_path(story))
    address = f"/sessions/id/{story.pk}/artifacts/?name=photo.png"
    for version, seq in enumerate(seqs):
        row = event(page, seq)
        assert {link.attrs["href"] for link in row.one("div", "event-body").all("a")} == {
            f"{address}&version={version}"
        }
        assert row.one("img").attrs["src"] == f"{address}&version={version}&content=1"


def test_uploaded_file_prefers_the_version_of_its_own_event(story, get):
    seq = story.add(
        {"text": '[Uploaded Artifact: "a.pdf"]'}, author="user", actions={"artifactDelta": {"a.pdf": 3}}
    )
    story.add(actions={"artifactDelta": {"a.pdf": 4}})
    links = event(get(session_path(story)), seq).all("a", "badge")
    assert {link.attrs["href"] for link in links} == {
        f"/sessions/id/{story.pk}/artifacts/?name=a.pdf&version=3"
    }


def test_placeholder_in_text_of_an_agent_stays_as_it_is(add_and_show):
    row = add_and_show({"text": 'I got [Uploaded Artifact: "photo.png"]'})
    assert 'I got [Uploaded Artifact: "photo.png"]' in row.text
    assert not row.all("img")
    assert not row.all("a", "badge")


def test_a_saved_artifact_leads_to_the_version_that_was_saved(add_and_show, story):
    row = add_and_show(actions={"artifactDelta": {"user:plan.md": 2}})
    [link] = row.all("a", "badge")
    assert link.attrs["href"] == f"/sessions/id/{story.pk}/artifacts/?name=user%3Aplan.md&version=2"


def test_transcriptions_are_shown(add_and_show):
    row = add_and_show(inputTranscription={"text": "hello there"}, outputTranscription={"text": "hi"})
    assert "heard hello there" in row.text
    assert "spoken hi" in row.text


def test_input_transcription_is_a_message_of_the_user(story, get):
    story.add(author="user", inputTranscription={"text": "hello there"})
    page = get(session_path(story, "?seq=1"))
    assert "kind-user" in event(page, 1).classes
    parts = page.one("div", "tab-parts").text
    assert "hello there" in parts
    assert "no content" not in parts


def test_error_without_content_is_not_shown_as_empty(story, get):
    story.add(errorCode="429", errorMessage="quota")
    assert "no content" not in get(session_path(story, "?seq=1")).one("div", "tab-parts").text


@pytest.mark.parametrize(
    ("part", "message"),
    [
        ({"toolCall": {"toolType": "GOOGLE_SEARCH", "args": {"q": "tea"}}}, 'GOOGLE_SEARCH {"q":"tea"}'),
        ({"toolResponse": {"toolType": "GOOGLE_SEARCH", "response": {"n": 1}}}, 'GOOGLE_SEARCH {"n":1}'),
        ({"hologram": [1]}, 'hologram {"hologram":[1]}'),
    ],
)
def test_a_part_of_another_kind_is_named_in_the_row(add_and_show, part, message):
    text = add_and_show(part).text
    assert message in text
    assert "no content" not in text


def test_a_part_that_is_a_signature_alone_is_nothing_to_read(add_and_show):
    assert "no content" in add_and_show({"thoughtSignature": "QUJD"}).text


def test_interrupted_model_shows_its_reason(add_and_show):
    assert "MAX_TOKENS" in add_and_show({"text": "Once upon"}, finishReason="MAX_TOKENS").text


@pytest.mark.parametrize("author", ["user", "agent"])
def test_text_with_very_many_lines_is_collapsed_in_its_row(add_and_show, author):
    row = add_and_show({"text": "- line\n" * 400}, author=author)
    assert row.text.count("line") == MAX_LINES
    assert "The text is shortened" in row.text


def test_delta_without_content_is_in_the_first_line(add_and_show):
    assert "is-delta" in add_and_show(delta={"n": 1}).classes
    assert "is-delta" not in add_and_show({"text": "one"}, delta={"n": 2}).classes
    assert "is-delta" not in add_and_show(delta={"n": 3}, interrupted=True).classes


def test_compaction_names_its_events(story, get):
    story.says("one")
    story.says("two")
    content = {"parts": [{"text": "**one** and two"}]}
    span = {"startTimestamp": START, "endTimestamp": START + 2, "compactedContent": content}
    story.add(author="user", actions={"compaction": span})
    page = get(session_path(story))
    summary = event(page, 3).one("section", "compaction")
    assert "Summary of events 1 to 2" in summary.text
    assert summary.all("strong")[1].text == "one"
    assert page.one("li", "fold").one("summary").text.startswith("2 events summarized in event 3")


def test_silence_is_marked_in_the_words_of_a_person(story, get):
    story.says("one")
    story.invocation = "i2"
    story.says("two")
    Event.objects.filter(session=story.pk, seq=2).update(timestamp=START + 3 * 3600)
    assert get(session_path(story)).one("p", "gap").text == "3 h later"


@pytest.mark.parametrize(
    ("seconds", "message"),
    [(600, "10 min"), (3599, "60 min"), (7200, "2 h"), (90000, "25 h"), (400000, "5 days")],
)
def test_the_longer_the_silence_the_rounder_its_words(seconds, message):
    assert message_html.format_gap(seconds) == message


HOSTILE = {
    "megabytes": "lorem ipsum " * 400_000,
    "emphasis": "*a* " * 5_000,
    "links": "[x](https://example.org) " * 3_000,
    "quotes": "> " * 3_000 + "x",
    "lists": "- " * 2_000 + "x",
    "unseen": "\u202e\u200b" * 5_000,
    "table": "|a" * 900 + "|\n" + "|-" * 900 + "|\n" + "|b" * 900 + "|",
    "html": "<script>alert(1)</script><img src=x onerror=alert(1)>" * 200,
    "json": "[" + "[1]," * 20_000 + "1]",
    "deep json": "[" * 3_000 + "]" * 3_000,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("author", ["agent", "user"])
def test_hostile_text_is_inert_and_rendered_fast(add_and_show, name, author):
    row = add_and_show({"text": HOSTILE[name]}, {"text": HOSTILE[name], "thought": True}, author=author)
    assert len(list(row)) < MAX_ELEMENTS
    assert not row.all("script")
    assert not row.all("img")


def test_call_with_100000_keys_is_shown_in_a_bounded_row(add_and_show):
    many = {f"key {number}": {"deep": [number]} for number in range(100_000)}
    row = add_and_show({"functionCall": {"id": "c", "name": "f", "args": many}})
    assert "99,992 more arguments" in row.text
    assert len(list(row)) < 100


def test_text_after_a_call_is_separate_from_its_arguments(story, get):
    seq = story.calls("ask", "c1", waiting=True, to="Acme", **{f"k{number}": number for number in range(9)})
    story.invocation = "i2"
    answer = story.answers("ask", "c1", author="user")
    page = get(session_path(story))
    assert "k6=6 2 more arguments long-running" in event(page, seq).text
    assert f" called in {seq}" in event(page, answer).text


def test_delta_of_very_many_keys_reads_only_shown_ones(story, get, django_assert_max_num_queries):
    seq = story.add(delta={f"k{number}": number for number in range(3_000)})
    session = story.session
    with django_assert_max_num_queries(10):
        [group] = read_timeline(session, windows.newest(session)).groups
    assert len(group.items[0].changes) == 9
    assert "2,992 more keys" in event(get(session_path(story)), seq).text


def test_parts_are_shown_in_the_order_of_the_model(add_and_show):
    row = add_and_show(
        {"fileData": {"mimeType": "text/csv", "fileUri": "gs://bucket/first.csv"}},
        {"text": "second"},
        {"functionCall": {"id": "c", "name": "third", "args": {}}},
        {"text": "fourth"},
        author="agent",
    )
    text = row.one("div", css="event-body").text
    places = [text.index(part) for part in ("first.csv", "second", "third", "fourth")]
    assert places == sorted(places)


def test_markdown_in_thoughts_is_rendered(add_and_show):
    row = add_and_show({"text": "**Plan**\n\n- look up", "thought": True}, {"text": "Done."}, author="agent")
    thought = row.one("div", css="thought-text")
    assert thought.one("strong").text == "Plan"
    assert thought.one("li").text == "look up"


def test_result_of_failed_mcp_tool_is_marked(add_and_show):
    failed = {"content": [{"type": "text", "text": "no such table"}], "isError": True}
    row = add_and_show({"functionResponse": {"id": "c", "name": "query", "response": failed}}, author="agent")
    assert "is-error" in row.attrs["class"].split()
    assert "is-failed" in row.one("p", css="result").attrs["class"].split()


def test_call_without_a_name_says_so(client, story):
    story.add({"functionCall": {"id": "x", "name": "", "args": {}}})
    story.add({"functionResponse": {"id": "x", "name": "", "response": {}}})
    page = parse(client.get(session_path(story)).content.decode())
    assert [element.text for element in page.all("bdi", css="call-name")] == ["no name"]
    assert [element.text for element in page.all("bdi", css="result-name")] == ["no name"]
