"""Content of agents in a real browser: media, invisible characters, links between events."""

from __future__ import annotations

import base64
import io
import wave

import pytest
from playwright.sync_api import expect

from tests.image_data import EVIL_SVG, PNG
from tests.live.windows import event
from tests.timeline.logs import log

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]

HOSTILE = (
    "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>",
    "[a link](javascript:window.hacked=1) <a href='javascript:window.hacked=1'>another</a>",
    "<svg onload='window.hacked = 1'><use href='data:image/svg+xml,x#y'/></svg>",
    "<style>body { display: none }</style><iframe srcdoc='<script>parent.hacked = 1</script>'></iframe>",
    "\u202eevil\u202c \u0007 \ud800 " + "x" * 200_000,
    "[" * 5_000 + "]" * 5_000,
)


def sound() -> bytes:
    """Return a tenth of a second of silence."""
    file = io.BytesIO()
    with wave.open(file, "wb") as wave_file:
        wave_file.setnchannels(1)
        wave_file.setsampwidth(1)
        wave_file.setframerate(8000)
        wave_file.writeframes(b"\x80" * 800)
    return file.getvalue()


def inline(content: bytes, mime: str, name: str) -> dict[str, object]:
    data = base64.b64encode(content).decode()
    return {"inlineData": {"data": data, "mimeType": mime, "displayName": name}}


def test_pictures_and_sounds_are_there_and_a_file_is_had_by_its_link(open_page, story):
    story.add(inline(PNG, "image/png", "plot.png"))
    story.add(inline(sound(), "audio/wav", "voice.wav"))
    story.add(inline(b"one,two\n", "text/csv", "table.csv"))
    page = open_page(story)
    page.wait_for_function("() => document.querySelector('#events img')?.naturalWidth === 1")
    length = (
        event(page, 2)
        .locator("audio")
        .evaluate(
            "audio => new Promise((told, failed) => { audio.onloadedmetadata = () => told(audio.duration);"
            " audio.onerror = () => failed(audio.error.message); audio.preload = 'metadata'; audio.load() })"
        )
    )
    assert length == pytest.approx(0.1, abs=0.02)
    file = page.request.get(event(page, 3).get_by_role("link", name="table.csv").get_attribute("href") or "")
    assert (file.body(), file.headers["content-type"]) == (b"one,two\n", "text/plain; charset=utf-8")


def test_svg_with_a_script_runs_nothing(open_page, story):
    story.add(inline(EVIL_SVG.replace(b"alert(1)", b"document.title = 'hacked'"), "image/svg+xml", "a.svg"))
    page = open_page(story)
    with page.context.expect_page() as opened:
        event(page, 1).locator("figcaption a").click()
    opened.value.wait_for_load_state()
    assert "hacked" not in opened.value.title() + page.title()


def test_link_in_agent_text_is_recognizable_without_colour(open_page, story):
    story.says("See [the map](https://example.org) first.")
    link = event(open_page(story), 1).get_by_role("link", name="the map")
    assert link.evaluate("link => getComputedStyle(link).textDecorationLine") == "underline"


@pytest.mark.parametrize("text", HOSTILE, ids=["html", "links", "svg", "style", "long", "deep"])
def test_hostile_agent_text_is_shown_inert(open_page, story, text: str):
    story.asks(text[:2_000])
    story.says(text, author=text[:60], delta={"key": text, f"user:{text[:80]}": [text]})
    page = open_page(story, "?seq=2")
    expect(page.locator("#inspector-title")).to_contain_text("event 2")
    expect(page.locator("#board .entry")).to_have_count(2)
    assert page.evaluate("window.hacked === undefined")
    assert page.evaluate("[...document.links].every(link => /^https?:$/.test(link.protocol))")
    assert page.evaluate("document.querySelectorAll('*').length") < 4_000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("[")
    expect(page.locator("#board-title")).to_have_text("State at event 1")


def test_rewind_and_undone_events_link_to_each_other(open_page, story):
    story.asks("one")
    story.says("two")
    story.invocation = "i2"
    story.asks("three")
    story.invocation = "i3"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i2"})
    page = open_page(story)
    event(page, 3).get_by_role("link", name="rewound by 4").click()
    expect(page.locator("#inspector-title")).to_contain_text("event 4")
    event(page, 4).get_by_role("link", name="3", exact=True).first.click()
    expect(page.locator("#inspector-title")).to_contain_text("event 3")
    expect(event(page, 3)).to_have_attribute("aria-current", "true")


def test_a_long_name_on_a_badge_ends_before_the_time_of_its_event(open_page, story):
    long = "e-" + 20 * "0123456789"
    story.says("said")
    story.add(actions={"rewindBeforeInvocationId": long, "transferToAgent": long, "artifactDelta": {long: 0}})
    page = open_page(story)
    row = event(page, 2)
    expect(row.locator(".badge", has_text="rewind to before")).to_be_visible()
    edge = row.locator(".event-body").evaluate("body => body.getBoundingClientRect().right")
    ends = row.locator(".event-body > .badge").evaluate_all(
        "badges => badges.map(badge => badge.getBoundingClientRect().right)"
    )
    assert max(ends) <= edge


def test_summary_and_summarized_events_link_to_each_other(open_page, story):
    story.says("one")
    story.says("two")
    start, end = (story.event(seq).timestamp for seq in (1, 2))
    content = {"role": "model", "parts": [{"text": "one and two"}]}
    story.add(
        author="user",
        actions={"compaction": {"startTimestamp": start, "endTimestamp": end, "compactedContent": content}},
    )
    page = open_page(story)
    fold = page.locator(".fold summary")
    expect(fold).to_contain_text("2 events summarized in event 3")
    fold.get_by_role("link", name="3").click()
    expect(page.locator("#inspector-title")).to_contain_text("event 3")
    event(page, 3).get_by_role("link", name="2", exact=True).click()
    expect(page.locator("#inspector-title")).to_contain_text("event 2")


def test_pieces_of_a_streamed_text_are_folded_and_opened(open_page, story):
    story.says("It ", partial=True)
    story.says("It is ", partial=True)
    story.says("It is sunny")
    page = open_page(story)
    expect(event(page, 1)).to_be_hidden()
    page.get_by_text("2 events").click()
    expect(event(page, 1)).to_be_visible()
    page.goto(f"/sessions/id/{story.pk}/?seq=2")
    expect(event(page, 2)).to_be_in_viewport()


def test_a_thought_and_code_are_opened_and_read(open_page, story):
    story.add(
        {"text": "I should count", "thought": True},
        {"executableCode": {"code": "print(1 + 1)", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "2"}},
    )
    page = open_page(story)
    row = event(page, 1)
    expect(row.locator(".thought-text")).to_be_hidden()
    row.get_by_text("thought").click()
    expect(row.locator(".thought-text")).to_have_text("I should count")
    expect(row.locator("pre").first).to_have_text("print(1 + 1)")
    expect(row.locator(".code-result")).to_contain_text("2")


@pytest.mark.parametrize("width", [1440, 390])
def test_log_of_an_event_with_only_state_is_in_the_body_column(open_page, story, width):
    story.says("It is sunny.")
    story.says("", delta={"count": 1})
    for seq in (1, 2):
        log(story, seq, "asked the weather service")
    page = open_page(story, width=width)
    page.keyboard.press("e")
    expect(event(page, 1).locator("details.log")).to_be_visible()
    box = {seq: event(page, seq).locator("details.log").bounding_box() for seq in (1, 2)}
    assert box[2]["x"] == box[1]["x"]
    assert box[2]["y"] >= event(page, 2).locator(".delta").bounding_box()["y"] or width == 390
    author = event(page, 2).locator(".event-author").bounding_box()
    assert box[2]["x"] >= author["x"] + author["width"] or box[2]["y"] >= author["y"] + author["height"]
