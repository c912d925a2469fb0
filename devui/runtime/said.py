"""What an exception says, in words that can be printed, stored and sent, whatever the agent's class does."""

from __future__ import annotations

from sessions_app import state


def message_of(error: BaseException) -> str:
    """Return an exception's message without lone surrogates; its type's name when it has none or cannot be asked."""
    try:
        message = str(error)
    except Exception:  # an agent's own `__str__`
        message = ""
    return state.without_surrogates(message) or type(error).__name__
