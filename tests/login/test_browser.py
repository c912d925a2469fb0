"""Signing in and out in a real browser, also from other sites."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from playwright.sync_api import expect

from sessions_app.store.database import units_of_work
from tests.browser import OpenWindow
from tests.e2e.axe import CONTRAST_RULES, WCAG_RULES, violations
from tests.login.conftest import PASSWORD
from tests.patience import PATIENCE_S

pytestmark = [
    pytest.mark.browser,
    pytest.mark.soak,
    pytest.mark.usefixtures("login", "agents_dir", "transactional_db"),
]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Threads of the store end with the test."""
    yield
    units_of_work.close_pools()


@pytest.fixture
def elsewhere(server: str) -> Iterator[str]:
    """The address of a page of another site that leads to a place here, as a provider of sign-ins does."""
    link = f'<a href="{server}/runs/?status=done">on</a>'.encode()

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(link)

        def log_message(self, *args: object) -> None:
            pass

    serving = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=serving.serve_forever, daemon=True)
    thread.start()
    yield f"http://localhost:{serving.server_port}/"
    serving.shutdown()
    thread.join(timeout=PATIENCE_S)
    serving.server_close()


def test_sign_in_browse_and_sign_out(open_window: OpenWindow, server: str):
    page = open_window(server).new_page()
    page.goto("/runs/?status=done")
    page.get_by_label("Password").fill("not the password")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert")).to_have_text("Wrong password.")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{server}/runs/?status=done")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.evaluate("""() => {
        localStorage.setItem("devui.session.hits", '["/sessions/?q=rain", "/sessions/id/1/ Rain in Rome"]');
        localStorage.setItem("devui.messages.weather", '["My password is hunter2"]');
        localStorage.setItem("devui-theme", "dark");
    }""")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{server}/login/")
    assert page.evaluate("Object.keys(localStorage)") == ["devui-theme"]
    page.go_back()
    expect(page.get_by_label("Password")).to_be_visible()


def test_login_page_is_accessible(open_window: OpenWindow, server: str):
    for scheme in ("light", "dark"):
        page = open_window(server, color_scheme=scheme).new_page()
        page.set_viewport_size({"width": 390, "height": 800})
        page.goto("/login/")
        page.get_by_label("Password").fill("not the password")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_be_visible()
        assert violations(page, WCAG_RULES) + violations(page, CONTRAST_RULES) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_link_from_another_site_uses_the_strict_cookie(open_window: OpenWindow, server: str, elsewhere: str):
    page = open_window(server).new_page()
    page.goto(elsewhere)
    page.get_by_role("link").click()
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    page.goto(elsewhere)
    page.get_by_role("link").click()
    expect(page.get_by_role("heading", name="Runs", exact=True)).to_be_visible()
    expect(page).to_have_url(f"{server}/runs/?status=done")


def test_open_page_reports_the_end_of_the_login(open_window: OpenWindow, server: str):
    window = open_window(server)
    page = window.new_page()
    page.goto("/runs/")
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Sign out").wait_for()
    page.wait_for_load_state("load")
    window.clear_cookies()
    page.locator("select[name=status]").select_option("failed")
    expect(page.get_by_text("Login required")).to_be_visible()
