"""Microphone, camera and screen of the live page, in a browser with devices that play a beep and a test picture."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser import CHROMIUM, CHROMIUM_FLAGS, PATIENCE_MS
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.browser, pytest.mark.soak]

FAKE_DEVICES = ["--use-fake-device-for-media-stream", "--autoplay-policy=no-user-gesture-required"]
ALLOWED = "--use-fake-ui-for-media-stream"
REFUSAL = (
    "navigator.mediaDevices.getUserMedia ="
    " () => Promise.reject(new DOMException('Permission denied', 'NotAllowedError'))"
)
"""What a browser answers whose user refuses. Chromium without a window asks nobody."""


@pytest.fixture(scope="module")
def browsers(browser: Browser) -> Iterator[dict[str, Browser]]:
    """A browser with devices, and one without."""
    flags = {"with": [*FAKE_DEVICES, ALLOWED], "without": [ALLOWED]}
    launch = browser.browser_type.launch
    opened = {
        name: launch(executable_path=CHROMIUM, args=[*CHROMIUM_FLAGS, *more]) for name, more in flags.items()
    }
    yield opened
    for one in opened.values():
        one.close()


def connect(browser: Browser, address: str, name: str, *options: str, refuses: bool = False) -> Page:
    """Return the connected live page of a new session."""
    body, people = {"sessionId": name}, f"{address}/apps/speaker/users/ann/sessions"
    assert httpx.post(people, json=body, trust_env=False, timeout=PATIENCE_S).status_code == 200
    page = browser.new_context(base_url=address).new_page()
    if refuses:
        page.add_init_script(REFUSAL)
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"/sessions/speaker/ann/{name}/")
    page.get_by_role("link", name="Speak live").click()
    expect(page.get_by_role("button", name="Open microphone")).to_be_disabled()
    if options:
        page.get_by_text("Options of the connection").first.click()
    for option in options:
        page.get_by_label(option).check()
    page.get_by_role("button", name="Connect").click()
    expect(page.get_by_role("button", name="Open microphone")).to_be_enabled(timeout=PATIENCE_MS)
    return page


def wait_for(page: Page, css: str, text: str) -> None:
    expect(page.locator(css, has_text=text).first).to_be_visible(timeout=PATIENCE_MS)


def test_open_microphone_is_heard_until_it_is_muted(browsers, speaker_address):
    page = connect(browsers["with"], speaker_address, "open-microphone")
    page.get_by_role("button", name="Open microphone").click()
    page.wait_for_function("() => document.getElementById('live-level').value > 0.05", timeout=PATIENCE_MS)
    page.wait_for_timeout(1_500)  # the beep comes once a second
    page.get_by_role("button", name="Mute").click()
    wait_for(page, ".is-mine", "what was heard")
    wait_for(page, ".is-answer", "You said: sound of type audio/pcm;rate=16000 LiveClientRealtimeInput")
    expect(page.locator("#live-device option")).not_to_have_count(1)


def test_speech_counts_while_the_button_is_held(browsers, speaker_address):
    page = connect(browsers["with"], speaker_address, "held-button", "Mark where held speech starts and ends")
    talk = page.get_by_role("button", name="Hold to talk")
    talk.focus()
    page.keyboard.down("Space")
    expect(talk).to_have_attribute("aria-pressed", "true")
    page.wait_for_function("() => document.getElementById('live-level').value > 0.05", timeout=PATIENCE_MS)
    page.wait_for_timeout(1_500)
    page.keyboard.up("Space")
    wait_for(page, ".is-answer", "You said: sound of type audio/pcm;rate=16000 ActivityStart ActivityEnd")
    expect(page.get_by_role("button", name="Open microphone")).to_have_attribute("aria-pressed", "false")


def test_camera_sends_pictures_and_ends_with_the_connection(browsers, speaker_address):
    page = connect(browsers["with"], speaker_address, "camera")
    page.get_by_label("Pictures a second").fill("5")
    page.get_by_role("button", name="Camera").click()
    wait_for(page, ".is-answer", "a picture of type image/jpeg")
    expect(page.locator("#live-preview")).to_be_visible()
    page.get_by_role("button", name="Hang up").click()
    expect(page.locator("#live-preview")).to_be_hidden()
    expect(page.get_by_role("button", name="Camera")).to_be_disabled()


COUNT_LIVE_TRACKS = """
window.streams = [];
const getUserMedia = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
navigator.mediaDevices.getUserMedia = async (wanted) => {
  await new Promise((resolve) => setTimeout(resolve, 300));
  const stream = await getUserMedia(wanted);
  streams.push(stream);
  return stream;
};
window.countLiveTracks = () => streams.flatMap((s) => s.getTracks()).filter((t) => t.readyState === "live").length;
"""
"""A page that tells how many devices are open, in a browser that takes a while to ask."""


@pytest.mark.parametrize("name", ["Camera", "Open microphone"])
def test_device_asked_for_twice_ends_with_the_connection(browsers, speaker_address, name):
    page = connect(browsers["with"], speaker_address, f"twice-{name[0]}")
    page.evaluate(COUNT_LIVE_TRACKS)
    button = page.locator("#live-camera" if name == "Camera" else "#live-microphone")
    for _ in range(2 if name == "Camera" else 3):
        button.click()
    page.wait_for_function("() => countLiveTracks() === 1", timeout=PATIENCE_MS)
    expect(button).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Hang up").click()
    page.wait_for_function("() => countLiveTracks() === 0", timeout=PATIENCE_MS)


@pytest.mark.parametrize(
    ("browser_name", "refuses", "reason"),
    [("with", True, "microphone was not allowed"), ("without", False, "has no microphone")],
)
def test_device_that_cannot_be_used_is_explained_and_typing_goes_on(
    browsers, speaker_address, browser_name, refuses, reason
):
    page = connect(browsers[browser_name], speaker_address, f"device-{browser_name}", refuses=refuses)
    page.get_by_role("button", name="Open microphone").click()
    wait_for(page, ".is-error", reason)
    expect(page.get_by_role("button", name="Open microphone")).to_have_attribute("aria-pressed", "false")
    page.get_by_label("Message", exact=True).fill("hello")
    page.keyboard.press("Enter")
    wait_for(page, ".is-answer", "You said: hello")


def test_speech_that_is_kept_is_played_at_its_event(browsers, speaker_address):
    page = connect(browsers["with"], speaker_address, "kept", "Keep what is said")
    page.get_by_role("button", name="Open microphone").click()
    page.wait_for_function("() => document.getElementById('live-level').value > 0.05", timeout=PATIENCE_MS)
    page.wait_for_timeout(1_500)
    page.get_by_role("button", name="Mute").click()
    wait_for(page, ".is-answer", "You said: sound")
    page.get_by_role("button", name="Hang up").click()
    expect(page.locator("#live-state")).to_have_text("not connected", timeout=PATIENCE_MS)
    page.locator(".page-head a").click()
    player = page.locator("#events audio").first
    expect(player).to_be_visible(timeout=PATIENCE_MS)
    source = player.get_attribute("src")
    answer = page.request.get(source)
    assert (answer.status, answer.headers["content-type"]) == (200, "audio/wav")
    assert re.match(rb"RIFF....WAVE", answer.body(), re.DOTALL)
