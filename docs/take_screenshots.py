"""Take the screenshots of the README from a running DevUI that serves the examples with their demo sessions.

make run                       # in one terminal
make screenshots               # in another
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

FOLDER = Path(__file__).parent / "screenshots"
PAGES = {
    "session": "/sessions/weather/ben/tour/?seq=12",
}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
SETTLE_MS = 1500


def main(address: str) -> None:
    """Take every page in both themes."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for theme in ("light", "dark"):
            window = chromium.new_context(
                base_url=address, viewport={"width": 1280, "height": 800}, color_scheme=theme
            )
            for name, path in PAGES.items():
                page = window.new_page()
                page.goto(path)
                page.wait_for_timeout(SETTLE_MS)
                page.screenshot(path=FOLDER / f"{name}-{theme}.png")
        chromium.close()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000")
