"""Folds of the timeline in a real browser: their content is loaded when they open, and live events join them."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.live.windows import event, seqs
from tests.timeline.story import START, Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


def tell_rewound_turn(story: Story, texts: int = 3) -> None:
    """Tell a turn, and a second one of so many texts that is rewound."""
    story.asks("First question")
    story.says("First answer")
    story.invocation = "i2"
    story.asks("Second question")
    for number in range(texts):
        story.says(f"wrong answer {number}")
    story.invocation = "i3"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i2"})


def fold(page: Page):
    return page.locator("#events .fold > details")


def test_opened_fold_loads_its_events(open_page, story):
    tell_rewound_turn(story, texts=60)
    page = open_page(story)
    expect(fold(page).first.locator("summary")).to_contain_text("rewound by event 64")
    expect(page.locator(".invocation-head", has_text="Turn 2 · Second question")).to_be_visible()
    assert page.locator("#events .fold .event-body").count() == 0
    expect(page.locator("#timeline-scroll:not([aria-busy=true])")).to_be_attached()
    fold(page).first.locator("summary").click(position={"x": 4, "y": 4})
    expect(page.locator("#events .fold .is-stub")).to_have_count(0)
    expect(event(page, 63)).to_contain_text("wrong answer 59")
    shown_seqs = seqs(page)
    assert shown_seqs == list(range(shown_seqs[0], 65))


def test_address_of_folded_event_opens_its_fold(open_page, story):
    tell_rewound_turn(story)
    page = open_page(story, "?seq=4")
    expect(event(page, 4)).to_contain_text("wrong answer 0")
    expect(event(page, 4)).to_be_visible()


def test_event_chosen_by_number_opens_its_fold(open_page, story):
    tell_rewound_turn(story)
    page = open_page(story)
    page.locator("#go-to input").fill("5")
    page.locator("#go-to input").press("Enter")
    expect(event(page, 5)).to_contain_text("wrong answer 1")
    expect(event(page, 5)).to_have_attribute("aria-current", "true")
    expect(event(page, 5)).to_be_in_viewport()


def test_keys_pass_over_closed_folds_and_through_open_ones(open_page, story):
    tell_rewound_turn(story)
    page = open_page(story, "?seq=2")
    page.locator("#timeline-scroll").focus()
    page.keyboard.press("j")
    expect(page.locator("#inspector-title")).to_contain_text("event 7")
    page.keyboard.press("k")
    expect(page.locator("#inspector-title")).to_contain_text("event 2")
    fold(page).locator("summary").click(position={"x": 4, "y": 4})
    expect(page.locator(".is-stub")).to_have_count(0)
    page.locator("#timeline-scroll").focus()
    page.keyboard.press("j")
    expect(page.locator("#inspector-title")).to_contain_text("event 3")
    page.keyboard.press("j")
    expect(page.locator("#inspector-title")).to_contain_text("event 4")


def test_checkpoints_that_come_live_join_one_fold(open_page, story):
    story.asks("go")
    page = open_page(story)
    for step in range(4):
        story.add(actions={"agentState": {"step": step}})
        expect(event(page, step + 2)).to_be_attached()
    expect(fold(page)).to_have_count(1)
    expect(fold(page).locator("summary")).to_contain_text("4 events with only state changes or checkpoints")
    story.says("done")
    expect(event(page, 6)).to_be_visible()
    assert seqs(page) == [1, 2, 3, 4, 5, 6]
    fold(page).locator("summary").click()
    expect(event(page, 4)).to_contain_text("checkpoint")


def test_hit_in_a_fold_is_opened_by_going_to_it(open_page, story):
    tell_rewound_turn(story)
    page = open_page(story, "?q=wrong")
    expect(page.locator(".fold .is-hit")).to_have_count(3)
    page.locator("#timeline-scroll").focus()
    page.keyboard.press("n")
    expect(page.locator("#events [aria-current]")).to_contain_text("wrong answer")


def test_long_summarized_session_stays_small(open_page, story):
    for number in range(30):
        story.invocation = f"i{number}"
        story.asks(f"question {number}")
        for step in range(9):
            story.says(f"answer {step}")
    story.invocation = "sum"
    span = {
        "startTimestamp": START,
        "endTimestamp": START + 300,
        "compactedContent": {"parts": [{"text": "x"}]},
    }
    story.add(author="user", actions={"compaction": span})
    page = open_page(story)
    expect(page.locator(".invocation-head", has_text="Turn 30 · question 29")).to_be_visible()
    page.wait_for_function("() => document.querySelectorAll('[data-seq]').length > 100")
    page.wait_for_timeout(500)
    shown_seqs = seqs(page)
    assert shown_seqs == list(range(shown_seqs[0], 302))
    assert page.evaluate("document.querySelectorAll('*').length") < 2_500


def test_fold_is_shown_and_opens_on_a_phone(open_page, story):
    tell_rewound_turn(story)
    page = open_page(story, width=390)
    fold(page).locator("summary").click(position={"x": 4, "y": 4})
    expect(event(page, 4)).to_contain_text("wrong answer 0")
    expect(event(page, 4)).to_be_visible()
