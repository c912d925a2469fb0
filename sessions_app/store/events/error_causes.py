"""Causes of errors of tools, models and runs. Pure."""

from __future__ import annotations

from enum import StrEnum


class ErrorCause(StrEnum):
    """Cause of an error; `OTHER` if it is none of these."""

    AUTHENTICATION = "authentication"
    QUOTA = "quota"
    TIMEOUT = "timeout"
    CALL_LIMIT = "call limit"
    MISSING_KEY = "missing key"
    UNKNOWN_TOOL = "unknown tool"
    OTHER = ""
