"""Errors of a runtime process in calls of the web process."""

from __future__ import annotations

import httpx
import pytest

import sessions_app.console.answers  # noqa: F401 - defines an error with a code of its base
from devui.supervisor import http_calls
from sessions_app.store.errors import (
    BadInput,
    DevUIError,
    NotFound,
    RuntimeUnavailable,
    SessionBusy,
)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("bad_input", BadInput),
        ("not_found", NotFound),
        ("session_busy", SessionBusy),
        ("server_stopping", RuntimeUnavailable),
        ("invalid", RuntimeUnavailable),
        ("nobody_knows", RuntimeUnavailable),
    ],
)
def test_refusal_of_a_process_is_an_error_of_its_code(code: str, kind: type[DevUIError]):
    body = {"detail": "It cannot be.", "code": code, "hint": "Do otherwise."}
    error = http_calls._read_error(httpx.Response(400, json=body))
    assert (type(error), error.message, error.hint) == (kind, "It cannot be.", "Do otherwise.")
