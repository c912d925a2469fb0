"""Routes of pages, API operations and sockets, each with the rule of every method that it accepts.

A page without rules is refused where it is declared, so a server with such a page does not start; an operation of an
API and a socket when they are imported, which is at the first request for one.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, ResolverMatch, URLPattern, URLResolver, resolve
from django.urls.resolvers import RoutePattern
from django.utils.module_loading import import_string
from django.views.decorators.http import require_http_methods

from sessions_app.roles import READ, AccessRule

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
"""Methods that have rules. Other safe methods have the rule of GET."""

MATCH = "devui_match"
"""Attribute of requests with what their address resolves to."""

RECIPE = "See “Add a POST route” in docs/contributing.md."

View = TypeVar("View", bound=Callable[..., Any])


def declare_rules(view: View, rules: Mapping[str, AccessRule]) -> View:
    """Set the rules of a view by method, and return the view."""
    view.access_rules = rules  # type: ignore[attr-defined]
    return view


def declared_rules(view: Any) -> Mapping[str, AccessRule]:
    """Return the rules of a view by method; empty if it declares none."""
    rules: Mapping[str, AccessRule] = getattr(view, "access_rules", {})
    return rules


def match_rule(match: ResolverMatch, method: str) -> AccessRule | None:
    """Return the rule of a request before its form is read. Safe methods without a rule have `READ`, others None."""
    is_safe = method in SAFE_METHODS
    rule = declared_rules(match.func).get("GET" if is_safe else method)
    return rule or (READ if is_safe else None)


def match_route(request: HttpRequest) -> ResolverMatch | None:
    """Return what the address of a request resolves to, once; None if no route has it."""
    attributes = vars(request)
    if MATCH not in attributes:
        attributes[MATCH] = None
        with suppress(Resolver404):
            attributes[MATCH] = resolve(request.path_info)
    match: ResolverMatch | None = attributes[MATCH]
    return match


def find_rule(request: HttpRequest) -> AccessRule | None:
    """Return the rule of a request before its form is read; None if no route has its address and accepts its method."""
    match = match_route(request)
    return match_rule(match, request.method or "") if match else None


def rules_by_method(route: str, rules: Mapping[str, AccessRule]) -> dict[str, AccessRule]:
    """Return rules given as keyword arguments by the names of their methods.

    Raises:
        ImproperlyConfigured: there is none, or one for an unknown method.
    """
    by_method = {name.upper(): rule for name, rule in rules.items()}
    if not by_method:
        raise missing_rule_error(route, "get=READ or post=EDIT")
    if unknown := sorted(by_method.keys() - set(METHODS)):
        raise rule_error(
            f"the route {route!r} has a rule for {unknown[0]}, which is none of {', '.join(METHODS)}."
        )
    return by_method


def missing_rule_error(route: str, missing: str) -> ImproperlyConfigured:
    """Return the error of a route without a rule. `missing`: what to add where the route is declared."""
    return rule_error(
        f"the route {route!r} does not say who may use it: add {missing}, with a rule of sessions_app/roles.py or one"
        f" of its own. {RECIPE}"
    )


def rule_error(reason: str) -> ImproperlyConfigured:
    """Return an error with the line of the module that is being imported."""
    stack = traceback.extract_stack()
    declaration = next((frame for frame in reversed(stack) if frame.name == "<module>"), stack[0])
    return ImproperlyConfigured(f"{declaration.filename}:{declaration.lineno}: {reason}")


class Route(URLPattern):
    """A route like Django's `path` whose view accepts the methods that have rules, and is imported on demand.

    Links need only its name. So a server starts without importing the pages that nobody has opened.
    """

    def __init__(self, route: str, view: str, name: str | None = None, **rules: AccessRule) -> None:
        """Route to the view with the dotted name `view`.

        Args:
            route: the path, as for `path`.
            view: dotted name of the view.
            name: name of the route.
            rules: the rule of each method that the view accepts: `get=READ, post=EDIT`.

        Raises:
            ImproperlyConfigured: there is no rule, or one for an unknown method.
        """
        self.rules = rules_by_method(route, rules)
        placeholder = declare_rules(partial(_placeholder_view), self.rules)
        super().__init__(RoutePattern(route, name=name, is_endpoint=True), placeholder, name=name)
        self.lookup_str = view
        self.is_imported = False

    def resolve(self, path: str) -> ResolverMatch | None:
        """Return the match of a path, with the imported view."""
        if not self.is_imported and self.pattern.match(path):
            self.import_view()
        return super().resolve(path)

    def import_view(self) -> None:
        """Import the view."""
        accepted = [*self.rules, *(["HEAD"] if "GET" in self.rules else [])]
        view = require_http_methods(accepted)(import_string(self.lookup_str))
        self.callback = declare_rules(view, self.rules)
        self.is_imported = True


def _placeholder_view(request: HttpRequest, **_: Any) -> HttpResponse:
    raise NotImplementedError("Route.resolve imports the view.")


def socket_route(route: str, consumer: Any, rule: AccessRule, name: str | None = None) -> URLPattern:
    """Return the route of a socket. `rule`: the role that opens it."""
    return URLPattern(
        RoutePattern(route, name=name, is_endpoint=True), declare_rules(consumer, {"GET": rule}), None, name
    )


def list_rules(
    patterns: Iterable[URLPattern | URLResolver], prefix: str = ""
) -> list[tuple[str, str, AccessRule]]:
    """Return method, route and rule of every request that routes accept.

    Raises:
        ImproperlyConfigured: a route has no rules.
    """
    rules = []
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            rules += list_rules(pattern.url_patterns, route)
        elif by_method := declared_rules(pattern.callback):
            rules += [(method, route, rule) for method, rule in by_method.items()]
        else:
            raise missing_rule_error(route, f"it as Route(…, {pattern.lookup_str!r}, get=READ or post=EDIT)")
    return rules
