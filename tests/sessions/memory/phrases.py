"""The reference for phrase matching."""

from __future__ import annotations

from sessions_app.store.database.tokens import Phrase


def contains_phrase(term: Phrase, tokens: list[str]) -> bool:
    """Return whether the tokens of the term are adjacent in `tokens`."""
    size = len(term.tokens)
    return any(
        tuple(window[:-1]) == term.tokens[:-1]
        and (window[-1].startswith(term.tokens[-1]) if term.prefix else window[-1] == term.tokens[-1])
        for window in (tokens[at : at + size] for at in range(len(tokens) - size + 1))
    )
