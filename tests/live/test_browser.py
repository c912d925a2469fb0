"""Session page in a real browser with a real server: live rows, windows, keys, the address."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from sessions_app.runs import lifecycle, runtime_client
from sessions_app.sessions import deletion
from sessions_app.store.database import change_listener
from sessions_app.store.models import Run
from sessions_app.store.sessions import writes
from tests.browser import await_end
from tests.live.streaming_runtime import StreamingRuntime
from tests.live.windows import Line, event, first_on_screen, is_at_end, seqs, top_of
from tests.patience import PATIENCE_S
from tests.timeline.story import Story

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("store")]


@pytest.fixture
def long_story(story: Story) -> Story:
    """A session of 130 events, more than a page and more than a screen."""
    for number in range(130):
        story.says(f"event {number}", delta={"n": number})
    return story


def compose(page: Page, key: str) -> None:
    """Press a key as an input method does that is composing."""
    page.evaluate(
        "key => document.activeElement.dispatchEvent("
        "new KeyboardEvent('keydown', {key, isComposing: true, bubbles: true, cancelable: true}))",
        key,
    )


def publish_text(page: Page, runtime: StreamingRuntime, text: str) -> None:
    """Let a runtime say something, in the event loop of the server that reads its frames."""
    loops = [loop for loop in change_listener._notifiers if loop.is_running()]
    for loop in loops:
        loop.call_soon_threadsafe(runtime.publish_text, text)


def scroll_up(page: Page) -> None:
    page.locator("#timeline-scroll").hover()
    page.mouse.wheel(0, -900)
    page.wait_for_function(
        "() => (e => e.scrollHeight - e.scrollTop - e.clientHeight > 100)"
        "(document.getElementById('timeline-scroll'))"
    )


def reload_until(page: Page, locator: Locator) -> None:
    """Reload, as people do without scripts, until the page holds what is wanted."""
    deadline = time.monotonic() + PATIENCE_S
    while not locator.count():
        assert time.monotonic() < deadline, page.locator("main").inner_text()
        page.reload()


def test_rows_appear_by_themselves_and_the_board_follows(open_page, story):
    page = open_page(story)
    expect(page.locator("#no-events")).to_be_visible()
    story.asks("Weather?")
    expect(event(page, 1)).to_contain_text("Weather?")
    expect(page.locator("#no-events")).to_have_count(0)
    story.says("**Sunny**", delta={"sky": "sunny"})
    expect(event(page, 2).locator("strong")).to_have_text("Sunny")
    expect(page.locator(".entry[data-key=sky]")).to_contain_text('"sunny"')
    expect(page.locator(".time-slider input[type=range]")).to_have_attribute("max", "2")


def test_every_window_shows_the_same(open_page, story):
    first, other = open_page(story), open_page(story)
    for number in range(5):
        story.says(f"event {number}")
    for page in (first, other):
        expect(event(page, 5)).to_be_visible()
        assert seqs(page) == [1, 2, 3, 4, 5]


def test_a_result_that_comes_later_joins_the_row_of_its_call(open_page, story):
    story.calls("get_weather", "c1", city="Paris")
    page = open_page(story)
    story.answers("get_weather", "c1")
    expect(page.locator(".row:has([data-seq='1']) [data-seq='2']")).to_be_visible()
    assert page.locator("#events .row").count() == 1
    assert page.locator(".invocation").count() == 1


def test_incoming_rewind_marks_undone_events(open_page, story):
    story.asks("one")
    page = open_page(story)
    story.invocation = "i2"
    story.add(author="user", actions={"rewindBeforeInvocationId": "i1"})
    expect(event(page, 1)).to_contain_text("rewound by 2")


def test_tab_title_shows_running_agent(open_page, story):
    page = open_page(story)
    run = lifecycle.create_run(story.pk, {})
    expect(page).to_have_title("● s1 · DevUI")
    lifecycle.finish(run.pk, Run.Status.DONE)
    expect(page).to_have_title("s1 · DevUI")


def test_the_page_follows_at_the_end_and_holds_still_above_it(open_page, long_story):
    page = open_page(long_story)
    assert is_at_end(page)
    long_story.says("one more")
    expect(event(page, 131)).to_be_in_viewport()

    scroll_up(page)
    read = first_on_screen(page)
    before = top_of(page, read)
    for number in range(12):
        long_story.says(f"new {number}")
    expect(page.get_by_role("button", name="12 new")).to_be_visible()
    assert top_of(page, read) == before
    page.get_by_role("button", name="12 new").click()
    expect(event(page, 143)).to_be_in_viewport()
    expect(page.locator("#unseen")).to_be_hidden()


def test_a_paused_page_counts_and_then_catches_up(open_page, story):
    page = open_page(story)
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-connection]")).to_have_text("paused")
    story.says("unseen")
    expect(page.locator("#unseen")).to_contain_text("1 new")
    assert seqs(page) == []
    page.get_by_role("button", name="Pause").click()
    expect(event(page, 1)).to_be_visible()
    expect(page.locator("[data-connection]")).to_have_text("live")


def test_lost_connection_is_shown_and_nothing_missed(open_page, story):
    line = Line()
    page = open_page(story, line=line)
    story.says("before")
    expect(event(page, 1)).to_be_visible()
    line.cut()
    expect(page.locator("[data-connection]")).to_have_text("offline")
    story.says("meanwhile")
    story.says("and again")
    line.mend()
    expect(page.locator("[data-connection]")).to_have_text("live")
    expect(event(page, 3)).to_be_visible()
    assert seqs(page) == [1, 2, 3]


def test_failed_loads_are_repeated_after_reconnect(open_page, story):
    for number in range(1, 4):
        story.says(f"number {number}", delta={"count": number})
    line = Line()
    page = open_page(story, line=line)
    line.cut()
    # Not by a route of the test's own: taken away, it may leave a request waiting for ever.
    page.context.set_offline(True)
    expect(page.locator("[data-connection]")).to_have_text("offline")
    for _ in range(2):
        page.keyboard.press("[")
    expect(page.locator(".toast")).to_contain_text("The server cannot be reached.")
    expect(page.locator("#inspection[aria-busy=true]")).to_be_attached()
    page.context.set_offline(False)
    line.mend()
    expect(page.locator("#board-title")).to_have_text("State at event 2")
    expect(page.locator("#inspector-title")).to_contain_text("event 2")
    expect(page.locator("#inspection")).not_to_have_attribute("aria-busy", "true")


def test_deleted_session_is_shown_and_not_requested_again(open_page, story):
    line = Line()
    page = open_page(story, line=line)
    page.clock.install()
    writes.delete_session(story.key)
    expect(page.locator("[data-connection]")).to_have_text("deleted")
    expect(page.locator("#gone")).to_contain_text("This session was deleted")
    page.clock.fast_forward(60_000)
    expect(page.locator("[data-connection]")).to_have_text("deleted")
    assert line.calls == 1


def test_session_deleted_while_open_can_be_restored(open_page, long_story):
    page = open_page(long_story)
    deletion.delete([long_story.pk])
    expect(page.locator("#gone .notice")).to_contain_text("can be restored")
    with page.expect_response("**/?event=e129"):
        event(page, 129).click()
    page.keyboard.press("j")
    expect(event(page, 130)).to_have_attribute("aria-current", "true")
    expect(page.locator("#gone .notice")).to_have_count(1)
    expect(page.locator(".toast")).to_have_count(0)
    expect(page.locator("#message")).to_be_hidden()
    page.get_by_role("button", name="Bring it back").click()
    expect(page.locator("[data-live=live]")).to_be_visible()
    expect(event(page, 130)).to_be_visible()


LINES = """() => [...document.querySelectorAll("#events .event")].map((event) => [...event.querySelectorAll("line")]
    .map((line) => `${line.getAttribute("class")} ${line.getAttribute("y1")} ${line.getAttribute("y2")}`).sort())"""


@pytest.mark.soak
def test_lanes_of_rows_that_came_live_are_those_of_the_page_read_anew(open_page, story):
    story.says("a", author="root")
    story.says("b", author="left")
    page = open_page(story)
    for number, author in enumerate(["right", "right", "left", "root", "right"], start=3):
        story.says("c", author=author)
        expect(event(page, number)).to_be_visible()
    live = page.evaluate(LINES)
    page.reload()
    expect(event(page, 7)).to_be_visible()
    assert page.evaluate(LINES) == live


MEASURES = """() => {
  const width = (e) => e.getBoundingClientRect().width;
  const timeline = width(document.getElementById("timeline-scroll"));
  return {
    timeline,
    text: Math.min(...[...document.querySelectorAll("#events .event-body")].map(width)),
    lanes: Math.max(...[...document.querySelectorAll("#events .lanes")].map(width)),
    message: width(document.getElementById("message")),
  };
}"""


@pytest.mark.soak
@pytest.mark.parametrize("width", [1280, 1024])
def test_many_agents_leave_the_text_a_readable_measure(open_page, story, width):
    story.asks("go")
    for number in range(9):
        story.says(
            "Some words about the way that lies ahead. " * 4,
            author=f"agent_number_{number}",
            usageMetadata={"totalTokenCount": 12345},
        )
    page = open_page(story)
    page.set_viewport_size({"width": width, "height": 800})
    expect(event(page, 10)).to_be_visible()
    measures = page.evaluate(MEASURES)
    assert measures["lanes"] <= measures["timeline"] / 5
    assert measures["text"] >= 320
    assert measures["message"] >= 200


def test_selected_event_is_in_the_address_and_back_works(open_page, long_story):
    page = open_page(long_story)
    event(page, 129).click()
    expect(page.locator("#inspector-title")).to_contain_text("event 129")
    page.wait_for_url("**?event=e129")
    expect(page.locator("#board-title")).to_have_text("State at event 129")
    event(page, 130).locator(".event-seq").click()
    expect(page.locator("#inspector-title")).to_contain_text("event 130")
    page.go_back()
    expect(page.locator("#inspector-title")).to_contain_text("event 129")
    expect(event(page, 129)).to_have_attribute("aria-current", "true")
    page.go_back()
    expect(page.locator("#inspector-title")).to_have_text("Session")
    assert page.locator("#events [aria-current]").count() == 0
    page.go_forward()
    expect(page.locator("#inspector-title")).to_contain_text("event 129")


def test_a_pasted_link_opens_the_same_view(open_page, long_story):
    page = open_page(long_story, "?event=e3&tab=raw&scope=session")
    expect(event(page, 3)).to_be_in_viewport()
    expect(event(page, 3)).to_have_attribute("aria-current", "true")
    expect(page.locator("#raw .json")).to_be_visible()
    expect(page.get_by_role("radio", name="session")).to_be_checked()


def test_tab_stays_selected_across_events_and_in_the_address(open_page, story):
    story.says("one", delta={"x": 1})
    story.says("two", delta={"x": 2})
    page = open_page(story, "?seq=1")
    page.get_by_role("radio", name="Delta").check()
    expect(page.locator(".delta-list")).to_be_visible()
    page.keyboard.press("]")
    expect(page.locator("#inspector-title")).to_contain_text("event 2")
    expect(page.locator(".delta-list .removed")).to_have_text("1")
    page.wait_for_url("**tab=delta*")


def test_keys_step_through_rows_and_through_time(open_page, story):
    story.asks("go")
    story.calls("f", "c1")
    story.answers("f", "c1")
    story.says("done")
    page = open_page(story)
    title = page.locator("#inspector-title")
    for key, seq in (
        ("k", 4),
        ("k", 2),
        ("]", 3),
        ("j", 4),
        ("[", 3),
        (",", 2),
        (".", 3),
        ("k", 1),
        ("k", 1),
    ):
        page.keyboard.press(key)
        expect(title).to_contain_text(f"event {seq}")
    page.keyboard.press("Escape")
    expect(title).to_have_text("Session")


def test_no_key_fires_while_somebody_writes_or_composes(open_page, story):
    story.says("one")
    page = open_page(story)
    page.get_by_label("Message to weather").press_sequentially("j[]k.,")
    expect(page.get_by_label("Message to weather")).to_have_value("j[]k.,")
    page.locator("h1").click()
    compose(page, "k")
    assert page.locator("#events [aria-current]").count() == 0


def test_stepping_back_beyond_the_window_loads_events(open_page, long_story):
    page = open_page(long_story, "?seq=120")
    assert seqs(page)[0] > 2
    page.locator(".time-slider input[type=range]").fill("2")
    page.locator(".time-slider input[type=range]").dispatch_event("change")
    expect(event(page, 2)).to_have_attribute("aria-current", "true")
    assert seqs(page)[0] == 1
    expect(page.locator("#board-title")).to_have_text("State at event 2")


def test_page_in_the_past_counts_new_events_and_jumps_to_end(open_page, long_story):
    page = open_page(long_story, "?seq=1")
    long_story.says("far away")
    expect(page.get_by_role("button", name="1 new")).to_be_visible()
    assert 131 not in seqs(page)
    expect(page.locator("[data-total]")).to_have_text("131")
    page.get_by_role("button", name="1 new").click()
    expect(event(page, 131)).to_be_in_viewport()
    long_story.says("and live again")
    expect(event(page, 132)).to_be_in_viewport()


def test_rail_marks_errors_below_the_visible_part(open_page, long_story):
    page = open_page(long_story, "?seq=1")
    long_story.add(errorCode="429", errorMessage="quota")
    page.get_by_role("button", name="1 new").click()
    expect(event(page, 131)).to_be_in_viewport()
    expect(page.locator("#rail path")).to_have_attribute("d", "M0 131h1")


def test_streamed_text_is_replaced_by_its_event(open_page, story):
    runtime = StreamingRuntime()
    runtime_client.register(runtime)
    run = lifecycle.create_run(story.pk, {})
    lifecycle.claim(run.pk, None, "v1")
    page = open_page(story)
    publish_text(page, runtime, "It is ")
    expect(page.locator("#pending .prose")).to_have_text("It is")
    publish_text(page, runtime, "**sunny**.")
    expect(page.locator("#pending strong")).to_have_text("sunny")
    story.says("It is **sunny**.")
    expect(event(page, 1).locator("strong")).to_have_text("sunny")
    expect(page.locator("#pending .event")).to_have_count(0)


def test_enter_sends_and_the_run_shows_up_with_its_error(open_page, story):
    page = open_page(story)
    message = page.get_by_label("Message to weather")
    message.fill("first line")
    message.press("Shift+Enter")
    message.press_sequentially("second")
    message.press("Enter")
    expect(message).to_have_value("")
    expect(page.locator(".run")).to_contain_text("RuntimeUnavailable")
    [run] = Run.objects.all()
    assert "first line\\nsecond" in run.request


def test_enter_that_ends_a_composition_sends_nothing(open_page, story):
    page = open_page(story)
    message = page.get_by_label("Message to weather")
    message.fill("とうきょう")
    compose(page, "Enter")
    expect(message).to_have_value("とうきょう")
    assert not Run.objects.exists()


def test_answered_question_disappears_in_every_window(open_page, story):
    story.calls("request_leave", "c1", waiting=True)
    page = open_page(story)
    page.get_by_label("Answer to request_leave").fill('{"status": "approved"}')
    page.get_by_role("button", name="Answer").click()
    expect(page.locator(".run")).to_be_visible()
    story.answers("request_leave", "c1", author="user")
    expect(page.locator(".question")).to_have_count(0)


def test_question_asked_again_under_its_id_shows_its_form_live_and_after_a_reload(open_page, story):
    story.calls("request_leave", "c1", waiting=True)
    page = open_page(story)
    expect(event(page, 1).locator(".question")).to_be_visible()
    story.answers("request_leave", "c1", author="user", response={"status": "in progress"})
    expect(event(page, 2)).to_be_visible()
    expect(event(page, 1).locator(".question")).to_be_visible()
    story.answers("request_leave", "c1", author="user")
    expect(page.locator(".question")).to_have_count(0)
    story.calls("request_leave", "c1", waiting=True)
    expect(event(page, 4).locator(".question")).to_be_visible()
    story.says("Waiting")
    expect(event(page, 5)).to_be_visible()
    story.calls("request_leave", "c1", waiting=True)
    expect(event(page, 6).locator(".question")).to_be_visible()
    expect(page.locator(".question")).to_have_count(1)
    page.reload()
    expect(event(page, 6).locator(".question")).to_be_visible()
    expect(page.locator(".question")).to_have_count(1)


def test_two_questions_of_one_id_in_one_event_close_one_by_one(open_page, story):
    calls = [{"functionCall": {"id": "c1", "name": "ask", "args": {"n": n}}} for n in (1, 2)]
    story.add(*calls, longRunningToolIds=["c1"])
    page = open_page(story)
    expect(page.locator(".question")).to_have_count(2)
    for remaining in (1, 0):
        story.answers("ask", "c1", author="user")
        story.says("Thank you")
        expect(page.locator(".question")).to_have_count(remaining)


def test_result_behind_a_call_of_another_branch_stays_in_its_row_live(open_page, story):
    page = open_page(story)
    for branch in ("a", "b"):
        story.add({"functionCall": {"id": "c1", "name": "look", "args": {}}}, branch=branch)
    story.add({"functionResponse": {"id": "c1", "name": "look", "response": {}}}, branch="a")
    expect(event(page, 3)).to_be_visible()
    expect(page.locator("#events .row")).to_have_count(3)


def test_columns_fold_and_stay_folded(open_page, story):
    page = open_page(story)
    page.get_by_role("button", name="Fold the sessions").click()
    expect(page.locator("#siblings")).to_be_hidden()
    page.reload()
    expect(page.locator("#siblings")).to_be_hidden()
    page.get_by_role("button", name="Fold the sessions").click()
    expect(page.locator("#siblings")).to_be_visible()


def test_columns_are_widened_by_keyboard_and_mouse(open_page, story):
    page = open_page(story)
    splitter = page.get_by_role("separator", name="Width of the details")
    before = page.locator("#column-detail").bounding_box()["width"]
    splitter.focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator("#column-detail").bounding_box()["width"] > before
    place = splitter.bounding_box()
    page.mouse.move(place["x"], 300)
    page.mouse.down()
    page.mouse.move(place["x"] - 80, 300)
    page.mouse.up()
    assert page.locator("#column-detail").bounding_box()["width"] > before + 60


def test_where_there_is_no_room_columns_are_views(open_page, story):
    story.says("one")
    page = open_page(story, width=420)
    expect(page.locator("#column-timeline")).to_be_visible()
    expect(page.locator("#column-detail")).to_be_hidden()
    event(page, 1).click()
    expect(page.locator("#inspector-title")).to_be_visible()
    expect(page.locator("#column-timeline")).to_be_hidden()
    page.get_by_role("radio", name="Timeline").check()
    expect(event(page, 1)).to_be_visible()
    for width in (320, 420, 899, 901, 1440):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_sessions_of_the_app_stay_true_and_are_searched(open_page, story):
    story.asks("tea")
    page = open_page(story)
    Story("s2").asks("coffee")
    beside = page.locator(".siblings a")
    expect(beside).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type("coff")
    expect(beside).to_have_count(1)
    expect(beside).to_contain_text("coffee")


def test_session_opens_whose_link_is_replaced_between_press_and_release(open_page, story):
    other = Story("s2")
    other.asks("coffee")
    page = open_page(story)
    late: list[Route] = []
    page.route(re.compile(r"[?]find="), lambda route: late.append(route))
    with page.expect_request(re.compile(r"[?]find=")):
        Story("s3").asks("tea")
    page.locator(".siblings a", has_text="coffee").hover()
    page.mouse.down()
    with page.expect_response(re.compile(r"[?]find=")) as reloaded:
        late[0].continue_()
    await_end(reloaded.value)
    page.mouse.up()
    page.wait_for_url(f"**/{other.key.session_id}/")


def test_focus_stays_on_event_while_invocation_grows_above(open_page, long_story):
    page = open_page(long_story, "?seq=100")
    event(page, 100).locator(".event-seq").focus()
    first = int(page.locator("#events").get_attribute("data-first") or 0)
    assert first > 1
    page.locator("#timeline-scroll").evaluate("one => { one.scrollTop = 0 }")
    expect(event(page, first - 1)).to_be_attached()
    expect(event(page, 100).locator(".event-seq")).to_be_focused()


@pytest.mark.parametrize("address", ["?seq=60", "?event={event_id}", "?seq=60&q=event"])
def test_without_scripts_a_link_to_an_event_scrolls_to_it(open_window, server, long_story, address):
    page = open_window(server, java_script_enabled=False).new_page()
    event_id = long_story.session.events.get(seq=60).event_id
    page.goto(f"/sessions/id/{long_story.pk}/{address.format(event_id=event_id)}")
    expect(page.locator("#events [data-seq='60']")).to_be_in_viewport()
    expect(page.locator("#events [data-seq='60']")).to_have_attribute("aria-current", "true")


@pytest.mark.usefixtures("weather_can_run")
def test_the_page_reads_without_scripts(open_window, server, long_story):
    page = open_window(server, java_script_enabled=False).new_page()
    page.goto(f"/sessions/id/{long_story.pk}/")
    page.locator("[data-seq='100'] .event-seq").click()
    expect(page.locator("#inspector-title")).to_contain_text("event 100")
    page.get_by_text("Raw", exact=True).click()
    page.get_by_role("link", name="Show the JSON").click()
    expect(page.locator("#raw .json")).to_be_visible()
    for _ in range(2):
        page.get_by_role("link", name="Older events").click()
    expect(page.locator("[data-seq='1']")).to_be_attached()
    expect(page.get_by_role("link", name="Older events")).to_be_hidden()
    page.get_by_role("link", name="Newer events").click()
    page.get_by_label("Go to event").fill("3")
    page.get_by_label("Go to event").press("Enter")
    expect(page.locator("#inspector-title")).to_contain_text("event 3")
    page.get_by_label("Message to weather").fill("hi")
    page.get_by_role("button", name="Run").click()
    page.wait_for_url("**/sessions/**")
    reload_until(page, page.locator(".run", has_text="RuntimeUnavailable"))


@pytest.mark.parametrize("width", [1000, 390])
def test_heading_of_a_turn_fits_its_column(open_page, story, settings, tmp_path, width):
    settings.DEVUI_AGENTS_DIR, settings.DATA_DIR = "", tmp_path
    (tmp_path / "prices.toml").write_text('[[price]]\nmodel = "fast"\ninput = 1.2345\noutput = 1')
    run = lifecycle.create_run(story.pk, {})
    lifecycle.claim(run.pk, None, "6729e4b44b3aa940")
    lifecycle.record_invocation(run.pk, story.invocation)
    story.asks("What is the weather in Oslo and in Paris on the first day of the year?")
    usage = {"promptTokenCount": 123, "totalTokenCount": 123}
    story.says("It rains.", modelVersion="fast", usageMetadata=usage)
    lifecycle.finish(run.pk, Run.Status.DONE)
    page = open_page(story, width=width)
    heading = page.locator(".invocation-head").first
    expect(heading).to_contain_text("USD 0.00015")
    assert heading.evaluate("head => head.scrollWidth <= head.clientWidth")
