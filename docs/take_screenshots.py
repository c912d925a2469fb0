"""Take the screenshots of the README from a running DevUI that serves the examples with their demo sessions.

make run                       # in one terminal
make screenshots               # in another
"""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

FOLDER = Path(__file__).parent / "screenshots"
SIZE: ViewportSize = {"width": 1280, "height": 800}
COLOURS = 128
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SETTLE_MS = 800
RUN_MS = 60_000


def session(page: Page) -> None:
    """Open a session at an event that writes state."""
    page.goto("/sessions/weather/ben/tour/?seq=12")
    expect(page.locator("[data-live=live]")).to_be_visible()


def sessions(page: Page) -> None:
    """Find sessions by a word that was said."""
    traced(page)
    page.goto("/sessions/?q=weather")


def console(page: Page) -> None:
    """Open a call that waits to be confirmed, and the options of a message."""
    page.goto("/sessions/office/aya/awaits-confirmation/")
    expect(page.locator(".question").first).to_be_visible()
    page.locator(".event.kind-tool_call .event-seq").last.click()
    expect(page.locator("#inspector-title")).to_contain_text("tool call")
    page.get_by_role("button", name="Options").click()
    page.locator("#console-options summary", has_text="RunConfig").click()
    expect(page.get_by_label("max_llm_calls")).to_be_visible(timeout=RUN_MS)


def model(page: Page) -> None:
    """Open what a model was asked, beside the event that came of it."""
    traced(page)
    page.goto("/sessions/weather/ben/pictured/?tab=llm")
    page.locator(".event.kind-agent .event-seq").last.click()
    expect(page.locator(".tab-llm .model-call")).to_be_visible()


def trace(page: Page) -> None:
    """Open an invocation from inside."""
    traced(page)
    page.goto("/runs/?app=weather")
    page.get_by_role("link", name="Trace of a turn").first.click()
    expect(page.locator(".bar-row").first).to_be_visible()


def traced(page: Page) -> None:
    """Let an agent run that is recorded from inside, unless it has."""
    owner = {"appName": "weather", "userId": "ben", "sessionId": "pictured"}
    made = page.request.post("/apps/weather/users/ben/sessions/pictured", data={})
    if made.ok:
        message = {"role": "user", "parts": [{"text": "What is the weather in Paris?"}]}
        answer = page.request.post("/run", data={**owner, "newMessage": message}, timeout=RUN_MS)
        expect(answer).to_be_ok()


def agent(page: Page) -> None:
    """Open the page of an agent that has agents below it."""
    page.goto("/agents/team/")
    check = page.get_by_role("button", name="Load the agent")
    if check.count():
        check.first.click()
    expect(page.locator(".drawing, .agent-drawing").first).to_be_visible(timeout=RUN_MS)


def runs(page: Page) -> None:
    """List what was run."""
    page.goto("/runs/")


def state(page: Page) -> None:
    """Open the state of a user."""
    page.goto("/state/?app=weather&user=ben")


def compare(page: Page) -> None:
    """Put two sessions of a user side by side."""
    found = page.request.get("/api/v1/sessions?limit=200").json()["sessions"]
    keys = {row["id"]: row["key"] for row in found}
    page.goto(f"/sessions/compare/?left={keys['first-visit']}&right={keys['second-visit']}")


def evals(page: Page) -> None:
    """Open the newest run of an evalset in which a case fails; without one, run it."""
    page.goto("/evals/weather/one_fails_on_purpose/")
    runs = page.locator("main a[href*='/evals/runs/']")
    if runs.count():
        runs.first.click()
    else:
        page.get_by_role("button", name=re.compile("^Run")).first.click()
    page.wait_for_url("**/evals/runs/**")
    expect(page.locator("#summary")).to_contain_text("1 of 2 passed", timeout=RUN_MS)
    page.reload()  # cases are grouped by cause when a run has ended
    page.locator("#cases tr", has_text="fail").first.get_by_role("link").first.click()
    expect(page.locator("#attempt")).to_contain_text("Expected", ignore_case=True)


def artifact(page: Page) -> None:
    """Open a file that an agent saved, beside the version before it."""
    page.goto("/artifacts/?app=office&user=aya")
    page.locator(".artifact-name a").first.click()
    page.get_by_role("link", name="Compare with version").first.click()
    expect(page.locator(".value-diff")).to_be_visible()


def memory(page: Page) -> None:
    """Ask what an agent would recall."""
    page.goto("/memory/?app=office&user=aya&q=budget")


PAGES: dict[str, Callable[[Page], None]] = {
    "session": session,
    "sessions": sessions,
    "console": console,
    "model": model,
    "trace": trace,
    "agent": agent,
    "runs": runs,
    "state": state,
    "compare": compare,
    "artifact": artifact,
    "memory": memory,
    "evals": evals,
}


def keep(picture: bytes, name: str) -> None:
    """Store a picture with few colours, which a page of text does not miss."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image.quantize(COLOURS, dither=Image.Dither.NONE).save(FOLDER / f"{name}.png", optimize=True)


def main(address: str) -> None:
    """Take every page in both themes."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for theme in ("light", "dark"):
            window = chromium.new_context(
                base_url=address, viewport=SIZE, color_scheme=theme, reduced_motion="reduce"
            )
            for name, opened in PAGES.items():
                page = window.new_page()
                opened(page)
                page.wait_for_timeout(SETTLE_MS)
                keep(page.screenshot(), f"{name}-{theme}")
                page.close()
        chromium.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
