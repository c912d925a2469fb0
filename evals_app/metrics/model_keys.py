"""Environment variables with the keys of models, by the model's name. Pure."""

from __future__ import annotations

from collections.abc import Collection

GOOGLE = ("GOOGLE_API_KEY", "GEMINI_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE")
"""Any of these gives Gemini a key or another way to sign in."""

KEY_VARIABLES = {
    "gemini-": GOOGLE,
    "gemini/": GOOGLE[:2],
    "openai/": ("OPENAI_API_KEY",),
    "anthropic/": ("ANTHROPIC_API_KEY",),
    "mistral/": ("MISTRAL_API_KEY",),
    "groq/": ("GROQ_API_KEY",),
    "deepseek/": ("DEEPSEEK_API_KEY",),
}
"""Beginning of a model's name, as ADK and LiteLLM read it → variables of which one must be set."""


def find_missing_key(model: str, variables: Collection[str]) -> str:
    """Return the variable that would give a model its key; "" if one is set, or the provider is not known."""
    needed = next((names for prefix, names in KEY_VARIABLES.items() if model.startswith(prefix)), ())
    return "" if any(name in variables for name in needed) else next(iter(needed), "")
