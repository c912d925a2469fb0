"""Fixture `get`: a client that requests pages as a browser does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from tests.pages.html import Element, parse

Get = Callable[..., Element]


@pytest.fixture
def get(client: Client) -> Get:
    """Ask for a page, or for the part `target` of it as htmx does, and return it as a tree."""

    def ask(url: str, *, target: str = "", status: int = 200) -> Element:
        headers = {"HX-Request": "true", "HX-Target": target} if target else {}
        response = client.get(url, headers=headers)
        assert response.status_code == status, response.content.decode()[:2000]
        return parse(response.content)

    return ask
