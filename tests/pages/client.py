"""Fixtures `client` and `get`: clients that request pages as a browser does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.conf import settings
from django.test import Client, override_settings

from tests.pages.html import Element, parse

Get = Callable[..., Element]


@pytest.fixture
def client() -> Client:
    """A client without the guard, as in a project that mounts DevUI: it would take most of the time of a request.

    The guard is asynchronous, so that each request of a synchronous client would start a loop and a thread for it.
    """
    client = Client()
    middleware = [name for name in settings.MIDDLEWARE if not name.startswith("devui.accounts.")]
    with override_settings(MIDDLEWARE=middleware):
        client.handler.load_middleware()
    return client


@pytest.fixture
def get(client: Client) -> Get:
    """Ask for a page, or for the part `target` of it as htmx does, and return it as a tree."""

    def ask(url: str, *, target: str = "", status: int = 200) -> Element:
        headers = {"HX-Request": "true", "HX-Target": target} if target else {}
        response = client.get(url, headers=headers)
        assert response.status_code == status, response.content.decode()[:2000]
        return parse(response.content)

    return ask
