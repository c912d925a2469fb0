"""Classes of models: whether ADK's registry has one for a name."""

from __future__ import annotations

from google.adk.models.registry import LLMRegistry

from sessions_app.store.errors import BadInput
from sessions_app.store.short_texts import truncate

MAX_SHOWN = 200
"""Characters of a name or of ADK's message that an error quotes."""


def require_model_class(name: str, start: str) -> None:
    """Require a model for which ADK knows a class.

    Args:
        start: the start of the error's message, up to the name, such as "There is no class for the model".

    Raises:
        BadInput: there is none.
    """
    try:
        LLMRegistry.resolve(name)
    except (ValueError, ImportError) as error:
        reason = truncate(next(iter(str(error).splitlines()), ""), MAX_SHOWN)
        raise BadInput(
            f"{start} {truncate(name, MAX_SHOWN)!r}: {reason}",
            hint="Name a model that ADK knows, install its package, or register its class in the agent's code.",
        ) from error
