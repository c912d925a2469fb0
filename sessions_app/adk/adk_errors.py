"""The store's refusals as the exceptions that ADK's callers of artifacts and memory expect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from google.adk.errors.input_validation_error import InputValidationError

from sessions_app.errors import BadInput


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn `BadInput` into ADK's `InputValidationError`, which its REST answers with 400."""
    try:
        yield
    except BadInput as error:
        raise InputValidationError(f"{error.message} {error.hint}") from error
