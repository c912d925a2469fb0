"""Translation of the store's errors to exceptions that ADK's callers expect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from google.adk.errors.input_validation_error import InputValidationError

from sessions_app.errors import BadInput


@contextmanager
def translate_errors() -> Iterator[None]:
    """Raise `BadInput` as ADK's `InputValidationError`, for which its REST API returns 400."""
    try:
        yield
    except BadInput as error:
        raise InputValidationError(f"{error.message} {error.hint}") from error
