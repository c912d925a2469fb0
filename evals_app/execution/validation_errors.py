"""Errors of ADK's models as text."""

from __future__ import annotations

from pydantic import ValidationError

from sessions_app.file_problems import describe_error, format_path


def describe_first_error(error: ValidationError, *parent_path: str) -> str:
    """Return the field and the rule of the first error. `parent_path`: where the value is that was validated."""
    first = error.errors()[0]
    path = format_path([*parent_path, *(part for part in first["loc"] if part != "str")])
    return f"{path} {describe_error(first).rstrip('.')}"
