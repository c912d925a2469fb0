"""Exception messages that can be printed, stored and sent, whatever the exception's class does."""

from __future__ import annotations

from sessions_app import scopes


def message_of(error: BaseException) -> str:
    """Return an exception's message without credentials, fit to be stored and sent.

    Falls back to the type's name if the message is empty or `__str__` raises.
    """
    try:
        message = str(error)
    except Exception:  # an agent's own `__str__`
        message = ""
    return scopes.clean_error(message) or type(error).__name__


def without_credentials(error: Exception) -> Exception:
    """Return the exception, or a copy with the same type name whose message contains no credentials.

    ADK's server sends an exception's type name and message to the client.
    """
    message = message_of(error)
    try:
        if str(error) in (message, ""):
            return error
    except Exception:  # an agent's own `__str__`
        return error
    redacted: Exception = type(type(error).__name__, (Exception,), {})(message)
    return redacted.with_traceback(error.__traceback__)
