"""Pages of users in a real browser: signing in, what a role is offered, accessibility."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn
from playwright.sync_api import Page, expect

from sessions_app.store.database import units_of_work
from tests.accounts.conftest import PASSWORD
from tests.accounts.oidc_provider import SmallProvider
from tests.browser import OpenWindow
from tests.e2e.axe import CONTRAST_RULES, WCAG_RULES, violations
from tests.patience import PATIENCE_S

pytestmark = [pytest.mark.browser, pytest.mark.soak, pytest.mark.usefixtures("agents_dir", "people")]

PLACES = ("/account/", "/users/", "/users/reader/", "/quotas/", "/quotas/new/", "/audit/")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Threads of the store end with the test."""
    yield
    units_of_work.close_pools()


def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")


def faults(page: Page) -> list[str]:
    """Return the broken rules of a page, and whether it is wider than the window."""
    width = page.evaluate("innerWidth")
    is_wide = page.evaluate("document.documentElement.scrollWidth") > width
    return [
        *violations(page, WCAG_RULES),
        *violations(page, CONTRAST_RULES),
        *(["too wide"] if is_wide else []),
    ]


def test_reader_signs_in_and_is_offered_no_runs(open_window: OpenWindow, server: str):
    page = open_window(server).new_page()
    page.goto("/evals/")
    sign_in(page, "reader", "not the password")
    expect(page.get_by_role("alert")).to_have_text("Wrong name or password.")
    sign_in(page, "reader")
    expect(page).to_have_url(f"{server}/evals/")
    expect(page.get_by_role("link", name="New evalset")).to_be_hidden()
    page.get_by_label("Signed in as reader").click()
    page.get_by_role("link", name="Account").click()
    expect(page.get_by_role("heading", name="reader")).to_be_visible()
    page.get_by_label("Signed in as reader").click()
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{server}/login/")


def test_runner_is_offered_runs(open_window: OpenWindow, server: str):
    page = open_window(server).new_page()
    page.goto("/evals/")
    sign_in(page, "runner")
    expect(page.get_by_role("link", name="New evalset")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_are_accessible(open_window: OpenWindow, server: str, scheme: str, width: int):
    page = open_window(server, color_scheme=scheme, viewport={"width": width, "height": 800}).new_page()
    page.goto("/login/")
    sign_in(page, "admin", "not the password")
    expect(page.get_by_role("alert")).to_be_visible()
    assert faults(page) == []
    sign_in(page, "admin")
    expect(page).to_have_url(f"{server}/")
    for place in PLACES:
        page.goto(place)
        expect(page.locator("main h1")).to_be_visible()
        assert faults(page) == [], place


@pytest.fixture
def provider(server: str, settings) -> Iterator[SmallProvider]:
    """An OpenID Connect provider on another site; people without a user here become readers."""
    provider = SmallProvider()
    provider.redirect_uris = {f"{server}/login/sso/callback/"}
    serving = uvicorn.Server(uvicorn.Config(provider.app, log_level="warning", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serving.run, args=([listener],), daemon=True)
        thread.start()
        provider.issuer = f"http://localhost:{listener.getsockname()[1]}"
        settings.DEVUI_OIDC = provider.settings
        yield provider
        serving.should_exit = True
        thread.join(timeout=PATIENCE_S)


def test_person_signs_in_at_another_site_and_returns_to_the_page(
    open_window: OpenWindow, server: str, provider: SmallProvider
):
    page = open_window(server).new_page()
    page.goto("/evals/?q=a")
    page.get_by_role("link", name="Sign in with Example").click()
    expect(page).to_have_url(f"{server}/evals/?q=a")
    expect(page.get_by_label("Signed in as ann@example.com")).to_be_visible()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_refusal_of_the_provider_is_shown_and_accessible(
    open_window: OpenWindow, server: str, provider: SmallProvider, scheme: str, width: int
):
    provider.claims["email_verified"] = False
    page = open_window(server, color_scheme=scheme, viewport={"width": width, "height": 800}).new_page()
    page.goto("/login/")
    page.get_by_role("link", name="Sign in with Example").click()
    expect(page.get_by_role("alert")).to_have_text(
        "Example has not verified your email address. Verify it there, and sign in again."
    )
    assert faults(page) == []
