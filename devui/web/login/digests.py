"""Digests of random secrets: with 256 random bits, a slow hash would slow down every request without a gain."""

from __future__ import annotations

import hashlib


def digest(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
