"""Every route says who may use it; one that does not is refused where it is declared."""

from __future__ import annotations

from http import HTTPStatus

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest
from django.test import AsyncClient
from django.urls import path

from devui.web import socket_routes
from sessions_app.api.routing import Router, needs
from sessions_app.roles import EDIT, READ, Role
from sessions_app.routes import Route, list_rules
from tests.security.routes import all_rules

CHANGES_OWN_ACCOUNT = {
    ("POST", "account/password/"),
    ("POST", "account/tokens/"),
    ("POST", "account/tokens/<int:pk>/revoke/"),
    ("POST", "api/v1/tokens"),
    ("DELETE", "api/v1/tokens/<int:token>"),
}
"""Requests with which readers change what is their own."""

WRITES_NOTHING = {
    ("POST", "mcp"),  # its tools send requests of their own
    ("POST", "runs/call/<int:pk>/"),
    ("POST", "evals/<seg:app_name>/<seg:evalset_id>/plan/"),
}
"""Requests that are sent with POST because their forms are long."""

SENDS_TRACES = {("POST", "v1/traces"), ("POST", "v1/metrics")}
"""Requests of exporters, which come every few seconds: each span names its sender. They need a runner."""


async def note(request: HttpRequest) -> None:
    """A view."""


def test_route_without_rules_is_refused_with_its_place_and_what_to_add():
    with pytest.raises(ImproperlyConfigured) as refused:
        Route("notes/add/", "sessions_app.views.notes.add", "note-add")
    message = str(refused.value)
    for part in ("'notes/add/'", "get=READ or post=EDIT", "sessions_app/roles.py", "docs/contributing.md"):
        assert part in message
    assert message.partition(":")[0].endswith(".py")


def test_rule_of_an_unknown_method_is_refused():
    with pytest.raises(ImproperlyConfigured, match="notes/add/"):
        Route("notes/add/", "sessions_app.views.notes.add", "note-add", psot=EDIT)


def test_route_that_is_declared_with_plain_path_is_refused():
    with pytest.raises(ImproperlyConfigured, match=r"'notes/add/'.*test_routes\.note"):
        list_rules([Route("", "devui.web.views.home", "home", get=READ), path("notes/add/", note)])


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_operation_that_writes_without_a_rule_is_refused(method):
    with pytest.raises(ImproperlyConfigured, match=rf"'/notes'.*@needs\({method}=EDIT\).*at note"):
        getattr(Router(), method)("/notes")(note)


def test_operation_with_the_rule_of_another_method_is_refused():
    with pytest.raises(ImproperlyConfigured, match="@needs"):
        Router().get("/notes")(needs(post=EDIT)(lambda request: None))


def test_operation_that_reads_needs_no_rule():
    Router().get("/notes")(note)


def test_requests_that_write_are_audited_and_need_more_than_a_reader():
    free = {
        key
        for key, rule in all_rules().items()
        if key[0] != "GET" and not rule.form_field and (rule.role <= Role.READER or not rule.action)
    }
    assert {key for key in free if "log" not in key[1]} == WRITES_NOTHING | CHANGES_OWN_ACCOUNT | SENDS_TRACES


def test_every_socket_has_a_rule():
    list_rules(socket_routes.routes)


@pytest.mark.parametrize(
    ("method", "address", "allowed"),
    [
        ("POST", "/sessions/", "GET, HEAD"),
        ("DELETE", "/sessions/new/", "GET, POST, HEAD"),
        ("GET", "/sessions/actions/", "POST"),
        ("OPTIONS", "/sessions/", "GET, HEAD"),
        ("POST", "/api/v1/docs", "GET, HEAD"),
    ],
)
async def test_method_without_a_rule_is_refused(store, async_client: AsyncClient, method, address, allowed):
    response = await async_client.generic(method, address)
    assert response.status_code == HTTPStatus.METHOD_NOT_ALLOWED
    assert response.headers["Allow"] == allowed
