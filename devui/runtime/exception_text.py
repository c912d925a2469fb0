"""What an exception says, in words that can be printed, stored and sent, whatever the agent's class does."""

from __future__ import annotations

from sessions_app import scopes


def message_of(error: BaseException) -> str:
    """Return an exception's message as it can be stored and sent, without credentials.

    It is the name of its type when it has no message or cannot be asked for it.
    """
    try:
        message = str(error)
    except Exception:  # an agent's own `__str__`
        message = ""
    return scopes.clean_error(message) or type(error).__name__


def without_credentials(error: Exception) -> Exception:
    """Return the exception, or one of the same name without the credentials that its message quotes.

    ADK's server sends an exception's name and message to the client.
    """
    message = message_of(error)
    try:
        if str(error) in (message, ""):
            return error
    except Exception:  # an agent's own `__str__`
        return error
    redacted: Exception = type(type(error).__name__, (Exception,), {})(message)
    return redacted.with_traceback(error.__traceback__)
