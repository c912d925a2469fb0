"""Values of `--runtime NAME=URL`, and errors without passwords."""

from __future__ import annotations

import os

import pytest

from devui.config import environment
from devui.remote import RemoteAddress
from sessions_app.store.errors import BadInput


def test_address_has_name_and_url_without_account():
    address = RemoteAddress.read("go=https://ann:s%C3%A9cret@example.com:8443/api/")
    assert address == RemoteAddress("go", "https://example.com:8443/api", ("ann", "sécret"))
    assert RemoteAddress.read("a-b_1=http://[::1]:9/").url == "http://[::1]:9"
    assert RemoteAddress.read("x=http://127.0.0.1").account is None


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("http://127.0.0.1:8000", "needs a name"),
        ("=http://127.0.0.1:8000", "needs a name"),
        ("a b=http://127.0.0.1:8000", "needs a name"),
        ("go@x=http://127.0.0.1:8000", "needs a name"),
        ("go=", "does not begin with http://"),
        ("go=127.0.0.1:8000", "does not begin with http://"),
        ("go=file:///etc/passwd", "does not begin with http://"),
        ("go=gopher://host", "does not begin with http://"),
        ("go=http://", "does not begin with http://"),
        ("go=http://host:port", "the host or the port of its URL is malformed"),
        ("go=http://host:99999999", "the host or the port of its URL is malformed"),
        ("go=http://[::1", "the host or the port of its URL is malformed"),
        ("go=http://host/?token=secret", "a query or a fragment"),
        ("go=http://host/#secret", "a query or a fragment"),
    ],
)
def test_invalid_address_is_refused_with_hint(value, why):
    with pytest.raises(BadInput) as refused:
        RemoteAddress.read(value)
    assert why in refused.value.message
    assert "--runtime NAME=URL" in refused.value.hint


@pytest.mark.parametrize(
    "value", ["go=http://ann:secret@host:port", "go=ftp://ann:secret@host", "http://ann:secret@host"]
)
def test_refusals_contain_no_password(value):
    with pytest.raises(BadInput) as refused:
        RemoteAddress.read(value)
    assert "secret" not in f"{refused.value} {refused.value.hint}"


def test_two_servers_with_the_same_name_are_refused():
    with pytest.raises(BadInput, match="is used twice"):
        RemoteAddress.read_all(["go=http://a", "go=http://b"])


def test_addresses_in_the_environment_are_not_inherited(monkeypatch):
    monkeypatch.setenv("DEVUI_RUNTIMES", "go=http://ann:hunter2@127.0.0.1:1, py=http://127.0.0.1:2")
    addresses = RemoteAddress.read_all(environment.pop_list("DEVUI_RUNTIMES"))
    assert [(each.name, each.account) for each in addresses] == [("go", ("ann", "hunter2")), ("py", None)]
    assert "DEVUI_RUNTIMES" not in os.environ
    assert environment.pop_list("DEVUI_RUNTIMES") == []
