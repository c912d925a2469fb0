"""Errors of model calls: which are temporary, which mean that there is no access, and what they say. Pure."""

from __future__ import annotations

import socket
import sys

import httpx

from sessions_app.store.short_texts import truncate

RETRIED_STATUSES = frozenset((408, 429, 500, 502, 503, 504))
"""HTTP statuses that are retried, the same as by ADK's evaluation for Gemini."""

REFUSED_STATUSES = frozenset((401, 403))
"""HTTP statuses of a request without a valid key, or without a permission."""

INVALID_GOOGLE_KEY = "API_KEY_INVALID"
"""Reason in the body with which Google's API answers 400, not 401, to a key that is wrong or has expired."""

MISSING_KEY_TEXTS = (
    "No API key was provided",  # google-genai
    "Missing key inputs argument",  # google-genai before 2
    "API key must be set when using the Vertex AI API",  # google-genai
    "No Anthropic credential was found",  # google-adk
    "Could not resolve authentication method",  # anthropic
    "api_key client option must be set",  # openai and clients made like it
    "Missing credentials. Please pass an `api_key`",  # openai since 2
)
"""Error texts of model clients that have no key configured and give no HTTP status."""

CREDENTIALS_ERRORS = frozenset(("DefaultCredentialsError", "RefreshError", "NoCredentialsError"))
"""Classes of google-auth and botocore for credentials that are missing or were revoked."""

MESSAGE_LENGTH = 300
"""Characters of an error's message that are shown."""

NETWORK_ERRORS = (httpx.TimeoutException, httpx.NetworkError, httpx.RemoteProtocolError)
"""Network errors of httpx, which most model clients use."""


def is_temporary(error: BaseException) -> bool:
    """Tell whether a failed model call can be retried: by its HTTP status, else by a network error as its cause."""
    status = _http_status(error)
    if status is not None:
        return status in RETRIED_STATUSES
    if isinstance(error, (ConnectionError, TimeoutError, socket.gaierror, *NETWORK_ERRORS)):
        return True
    aiohttp = sys.modules.get("aiohttp")
    if aiohttp is not None and isinstance(error, aiohttp.ClientConnectionError):
        return True
    return error.__cause__ is not None and is_temporary(error.__cause__)


def is_access_refused(error: BaseException) -> bool:
    """Tell whether a failed model call had no access: a key or a permission is missing or wrong."""
    status, text = _http_status(error), str(error)
    if status in REFUSED_STATUSES or (status == 400 and INVALID_GOOGLE_KEY in text):
        return True
    if any(missing in text for missing in MISSING_KEY_TEXTS) or _is_credentials_error(error):
        return True
    return error.__cause__ is not None and is_access_refused(error.__cause__)


def describe_error(error: BaseException) -> str:
    """Return an error as one line."""
    status, message = _http_status(error), getattr(error, "message", None)
    text = " ".join((message if isinstance(message, str) and message else str(error)).split())
    name = type(error).__name__ if status is None else str(status)
    return f"{name}: {truncate(text, MESSAGE_LENGTH)}".rstrip(": ")


def _is_credentials_error(error: BaseException) -> bool:
    is_known = any(parent.__name__ in CREDENTIALS_ERRORS for parent in type(error).__mro__)
    return is_known and not getattr(error, "retryable", False)


def _http_status(error: BaseException) -> int | None:
    """Return the HTTP status of an error of google-genai (`code`), LiteLLM and others (`status_code`)."""
    codes = (getattr(error, name, None) for name in ("code", "status_code"))
    return next((int(code) for code in codes if isinstance(code, int) and not isinstance(code, bool)), None)
