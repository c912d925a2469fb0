"""Router of API operations whose routes have the rules that the operations declare with `needs`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ninja
from ninja.operation import PathView

from sessions_app.roles import READ, AccessRule
from sessions_app.routes import (
    SAFE_METHODS,
    View,
    declare_rules,
    declared_rules,
    missing_rule_error,
    rule_error,
    rules_by_method,
)


def needs(**rules: AccessRule) -> Callable[[View], View]:
    """Declare the rules of an API operation: `@needs(post=RUN)`. Operations that only read need none."""
    return lambda view: declare_rules(view, rules_by_method(view.__name__, rules))


class Router(ninja.Router):
    """A router that refuses an operation which writes and declares no rule."""

    def add_api_operation(
        self, path: str, methods: list[str], view_func: Callable[..., Any], **options: Any
    ) -> None:
        """Add an operation.

        Raises:
            ImproperlyConfigured: one of its methods writes and has no rule, or a rule is for another method.
        """
        rules = declared_rules(view_func).keys()
        if missing := {*methods} - rules - SAFE_METHODS:
            examples = ", ".join(f"{name.lower()}=EDIT" for name in sorted(missing))
            raise missing_rule_error(path, f"`@needs({examples})` below `@router` at {view_func.__name__}")
        if surplus := rules - {*methods}:
            raise rule_error(
                f"`@needs` at {view_func.__name__} has a rule for {', '.join(sorted(surplus))}, but the operation"
                f" {path!r} accepts {', '.join(methods)} only."
            )
        self.path_operations.setdefault(path, _PathView())
        super().add_api_operation(path, methods, view_func, **options)


class _PathView(PathView):
    """All operations of a path, whose view has the rules of each."""

    def get_view(self) -> Callable[..., Any]:
        """Return the view with its rules."""
        rules = {
            method: declared_rules(operation.view_func).get(method, READ)
            for operation in self.operations
            for method in operation.methods
        }
        return declare_rules(super().get_view(), rules)

    def clone(self) -> PathView:
        """Return a copy, as each API makes one of every router."""
        copy = _PathView()
        vars(copy).update(vars(super().clone()))
        return copy
