"""Translation of the store's errors to exceptions that ADK's callers expect."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError

from sessions_app.store.errors import (
    AlreadyExists,
    DevUIError,
    SessionMissing,
    StaleSession,
    StoreFault,
)


@contextmanager
def translate_errors(session_id: str = "") -> Iterator[None]:
    """Raise errors of the store as those of ADK, for which its REST API has a status. Faults stay as they are."""
    try:
        yield
    except AlreadyExists as error:
        raise AlreadyExistsError(f"Session with id {session_id} already exists.") from error
    except SessionMissing as error:
        raise SessionNotFoundError(f"Session {session_id} not found.") from error
    except StaleSession as error:
        raise StaleSessionError(f"{error.message} {error.hint}") from error
    except StoreFault:
        raise
    except DevUIError as error:
        raise InputValidationError(f"{error.message} {error.hint}") from error
