"""Cause of an exception by its type and HTTP status, or those of the exceptions that it wraps."""

from __future__ import annotations

from collections.abc import Iterator

from sessions_app.store.events.error_causes import ErrorCause

MAX_WRAPPED = 16
"""Exceptions of a chain or group that are examined."""

_BY_STATUS = {
    401: ErrorCause.AUTHENTICATION,
    403: ErrorCause.AUTHENTICATION,
    407: ErrorCause.AUTHENTICATION,
    408: ErrorCause.TIMEOUT,
    429: ErrorCause.QUOTA,
    504: ErrorCause.TIMEOUT,
}
"""HTTP statuses; MCP's SDK reports a time-out of its own as 408."""

_BY_TYPE = {
    "AuthenticationError": ErrorCause.AUTHENTICATION,
    "DefaultCredentialsError": ErrorCause.AUTHENTICATION,
    "NoCredentialsError": ErrorCause.AUTHENTICATION,
    "PermissionDenied": ErrorCause.AUTHENTICATION,
    "PermissionDeniedError": ErrorCause.AUTHENTICATION,
    "RefreshError": ErrorCause.AUTHENTICATION,
    "Unauthenticated": ErrorCause.AUTHENTICATION,
    "RateLimitError": ErrorCause.QUOTA,
    "ResourceExhausted": ErrorCause.QUOTA,
    "TooManyRequests": ErrorCause.QUOTA,
    "APITimeoutError": ErrorCause.TIMEOUT,
    "DeadlineExceeded": ErrorCause.TIMEOUT,
    "ReadTimeoutError": ErrorCause.TIMEOUT,
    "Timeout": ErrorCause.TIMEOUT,
    "TimeoutError": ErrorCause.TIMEOUT,
    "TimeoutException": ErrorCause.TIMEOUT,
}
"""Classes of Python, httpx, requests, urllib3, google-auth, Google's API clients, OpenAI, Anthropic and LiteLLM."""


def find_error_cause(error: BaseException) -> ErrorCause:
    """Return the first known cause of an exception or of those that it wraps; `OTHER` if all are unknown."""
    causes = (
        _own_cause(exception) for exception, _ in zip(_exceptions_in(error), range(MAX_WRAPPED), strict=False)
    )
    return next((cause for cause in causes if cause is not ErrorCause.OTHER), ErrorCause.OTHER)


def _exceptions_in(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, then those that caused it and the members of groups."""
    yield error
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _exceptions_in(member)
    if error.__cause__ is not None:
        yield from _exceptions_in(error.__cause__)


def _own_cause(error: BaseException) -> ErrorCause:
    status = _http_status(error)
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    names = (cls.__name__ for cls in type(error).__mro__)
    return next((_BY_TYPE[name] for name in names if name in _BY_TYPE), ErrorCause.OTHER)


def _http_status(error: BaseException) -> int:
    """Return the HTTP status of an exception, from the attributes that clients use; 0 if it has none."""
    response, mcp_error = getattr(error, "response", None), getattr(error, "error", None)
    values = (
        getattr(error, "status_code", None),
        getattr(error, "code", None),
        getattr(error, "status", None),
        getattr(response, "status_code", None),
        getattr(mcp_error, "code", None),
    )
    return next((value for value in values if isinstance(value, int) and not isinstance(value, bool)), 0)
